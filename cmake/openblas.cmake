# Defines the imported target OpenBLAS::OpenBLAS where the package's own configuration does not.
#
# OpenBLAS built by its CMake files exports the target; Debian's and Ubuntu's OpenBLASConfig.cmake
# only sets OpenBLAS_INCLUDE_DIRS and OpenBLAS_LIBRARIES. REQUIRES: find_package(OpenBLAS) before.
if(NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS INTERFACE IMPORTED)
  target_include_directories(OpenBLAS::OpenBLAS INTERFACE ${OpenBLAS_INCLUDE_DIRS})
  target_link_libraries(OpenBLAS::OpenBLAS INTERFACE ${OpenBLAS_LIBRARIES})
endif()
