# What cmake --install puts where, and the packages that cpack makes of it.
#
#   include/meshwork.h, include/meshwork/<room>/<header>.h     include is the root of all includes
#   lib/libmeshwork_<room>.a
#   bin/meshwork                                              where MESHWORK_BUILD_TOOLS is on
#   lib/cmake/meshwork/, lib/pkgconfig/meshwork.pc
#   share/doc/meshwork/LICENSE, *.md, docs/, examples/
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(include_root ${CMAKE_INSTALL_INCLUDEDIR})
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/meshwork)
get_property(rooms GLOBAL PROPERTY MESHWORK_ROOMS)

# The headers that docs/api.md lists, a line each, and no others.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/api.md)
file(STRINGS ${PROJECT_SOURCE_DIR}/docs/api.md headers REGEX "^[a-z_0-9/]+\\.h( |$)")
list(TRANSFORM headers REPLACE " .*" "")
list(REMOVE_ITEM headers meshwork.h)
install(FILES ${PROJECT_SOURCE_DIR}/meshwork.h DESTINATION ${include_root})
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${include_root}/meshwork/${folder})
endforeach()
# For the tests of includes and of pages.
string(REPLACE ";" "\n" installed "${headers}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/install/headers.txt CONTENT "@installed@\n" @ONLY)

list(TRANSFORM rooms REPLACE "/" "_" OUTPUT_VARIABLE archives)
list(TRANSFORM archives PREPEND meshwork_)
install(TARGETS meshwork ${archives} EXPORT meshworkTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${include_root})
if(TARGET meshwork_tool)
  install(TARGETS meshwork_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT meshworkTargets NAMESPACE meshwork:: DESTINATION ${cmake_dir})
if(MESHWORK_HAS_MPI)
  set(MESHWORK_MPI_BUILT ON)
else()
  set(MESHWORK_MPI_BUILT OFF)
endif()
if(MESHWORK_HAS_GLOO)
  set(MESHWORK_GLOO_BUILT ON)
else()
  set(MESHWORK_GLOO_BUILT OFF)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/meshworkConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/install/meshworkConfig.cmake
                              INSTALL_DESTINATION ${cmake_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0, a minor version may change what a program sees.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/meshworkConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/install/meshworkConfig.cmake
              ${PROJECT_BINARY_DIR}/install/meshworkConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake
        DESTINATION ${cmake_dir})

# The linker reads archives once, left to right: users before what they use. Those of a group it reads until nothing new
# is found: ir and ops/control refer to each other (CMakeLists.txt).
list(REVERSE archives)
list(TRANSFORM archives PREPEND -l)
list(JOIN archives " " MESHWORK_PC_LIBS)
string(PREPEND MESHWORK_PC_LIBS "-Wl,--start-group ")
string(APPEND MESHWORK_PC_LIBS " -Wl,--end-group")
set(MESHWORK_PC_TRANSPORTS)
if(MESHWORK_HAS_MPI)
  list(APPEND MESHWORK_PC_TRANSPORTS ${MPI_CXX_LIBRARIES})
endif()
if(MESHWORK_HAS_GLOO)
  list(APPEND MESHWORK_PC_TRANSPORTS -lgloo -lgrpc++ -lgrpc -lgpr -labsl_synchronization)
endif()
list(JOIN MESHWORK_PC_TRANSPORTS " " MESHWORK_PC_TRANSPORTS)
file(RELATIVE_PATH MESHWORK_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/meshwork.pc.in ${PROJECT_BINARY_DIR}/install/meshwork.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/meshwork.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The pages refer to each other and to the examples by these paths; tests/install/check follows them.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
              ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        USE_SOURCE_PERMISSIONS
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "*.cc" PATTERN "*.h" PATTERN "*.mw"
        PATTERN CMakeLists.txt PATTERN "multi_worker/*")

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
endif()
