# What meshwork is built with, and so what a program needs that links its archives. Read by meshwork's own
# build and, once installed, by meshworkConfig.cmake.
#
# Sets meshwork_missing: what is not there, a line each; empty if all is there.
set(meshwork_missing)

macro(meshwork_find package purpose debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    string(APPEND meshwork_missing "\n  ${package} (${purpose}); on Debian and Ubuntu: apt-get install ${debian_package}")
  endif()
endmacro()

meshwork_find(Threads "threads" libc6-dev)
meshwork_find(absl "Abseil: statuses and containers" libabsl-dev)
meshwork_find(fmt "fmt: messages" libfmt-dev)
meshwork_find(nlohmann_json "JSON files" nlohmann-json3-dev)
meshwork_find(ZLIB "zlib: gzipped data files" zlib1g-dev)
meshwork_find(OpenBLAS "OpenBLAS: matrix products" libopenblas-pthread-dev)

# A oneDNN built for OpenCL, as Debian's is, looks for it and stops the configuration where it is absent,
# without a word about oneDNN.
find_package(OpenCL QUIET)
if(NOT OpenCL_FOUND)
  message(STATUS "meshwork: there is no OpenCL. If oneDNN asks for it next: apt-get install ocl-icd-opencl-dev")
endif()
meshwork_find(dnnl "oneDNN: matrix products" libdnnl-dev)

# OpenBLAS built by its CMake files exports this target; Debian's and Ubuntu's OpenBLASConfig.cmake only
# sets OpenBLAS_INCLUDE_DIRS and OpenBLAS_LIBRARIES.
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS INTERFACE IMPORTED)
  target_include_directories(OpenBLAS::OpenBLAS INTERFACE ${OpenBLAS_INCLUDE_DIRS})
  target_link_libraries(OpenBLAS::OpenBLAS INTERFACE ${OpenBLAS_LIBRARIES})
endif()
