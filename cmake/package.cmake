# cpack: libmeshwork-dev_<version>_<architecture>.deb for Debian and Ubuntu, and a .tar.gz for the rest.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_NAME meshwork)
set(CPACK_PACKAGE_VENDOR "The meshwork authors")
set(CPACK_PACKAGE_CONTACT "The meshwork authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "meshwork is a C++20 library and compiler: you write one tensor program for all your devices and say
how its tensors are laid out on a mesh; meshwork derives the program that each device runs, with the
fewest collectives, and runs it.
.
This package contains its headers and static libraries, files for CMake and pkg-config, and the program
meshwork, which compiles, explains, checks and runs programs in their text form.")
string(TOLOWER "${CPACK_PACKAGE_NAME}-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}"
       CPACK_PACKAGE_FILE_NAME)
set(CPACK_STRIP_FILES OFF)

set(CPACK_DEBIAN_PACKAGE_NAME libmeshwork-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)

# meshwork_debian_range(OUT package version n): the archives hold code of this library's headers and call its
# functions by names that hold its version, so they fit the first n numbers of the version at hand only.
function(meshwork_debian_range out package version n)
  string(REPLACE "." ";" next "${version}")
  list(SUBLIST next 0 ${n} next)
  list(POP_BACK next last)
  math(EXPR last "${last} + 1")
  list(APPEND next ${last})
  list(JOIN next "." next)
  set(${out} "${package} (>= ${version}), ${package} (<< ${next})" PARENT_SCOPE)
endfunction()

meshwork_debian_range(absl libabsl-dev ${absl_VERSION} 1)
meshwork_debian_range(fmt libfmt-dev ${fmt_VERSION} 1)
meshwork_debian_range(json nlohmann-json3-dev ${nlohmann_json_VERSION} 3)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "${absl}, ${fmt}, ${json}, zlib1g-dev, libpng-dev, libjpeg-dev, libssl-dev, libxxhash-dev, libzip-dev")
string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libdnnl-dev, ocl-icd-opencl-dev, libopenblas-pthread-dev | libopenblas-dev")
if(MESHWORK_HAS_MPI)
  if(MPI_CXX_LIBRARIES MATCHES "mpich")
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libmpich-dev")
  else()
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libopenmpi-dev")
  endif()
endif()
if(MESHWORK_HAS_GLOO)
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libgloo-dev, libgrpc++-dev")
endif()

# Debian looks for the license of a package here.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/libmeshwork-dev
        RENAME copyright COMPONENT debian EXCLUDE_FROM_ALL)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_debian.cmake)
include(CPack)
