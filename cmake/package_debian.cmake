# Read by cpack once per kind of package: what a .deb holds beside what cmake --install installs.
if(CPACK_GENERATOR STREQUAL "DEB")
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build_dir)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${build_dir}" meshwork debian /)
endif()
