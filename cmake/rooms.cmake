# Each folder of the house is one library target that exposes only the include roots it may use.
#
# The build stages one root per folder, <build>/stage/<room>/<room> -> <source>/<room>, and a target
# sees its own root and those of the rooms it depends on. A wrong-way include does not compile.

# Designated initializers leave fields at their defaults on purpose. g++ 12 misfires with -Wrestrict on
# std::string (GCC bug 105651) and with -Wmaybe-uninitialized on std::optional of inline storage (80635).
# Through a precompiled header it forgets what is the system's, and warns of the strings in it.
# g++ 13 and later take Abseil's copies of empty inlined vectors for reads of what is not set.
# clang reports hints to vectorize that it does not follow, as when it optimizes little.
set(MESHWORK_WARNINGS -Wall -Wextra $<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror> -Wno-missing-field-initializers
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-uninitialized>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${MESHWORK_PRECOMPILE}>>:-Wno-stringop-overflow>
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${MESHWORK_PRECOMPILE}>>:-Wno-array-bounds>
    $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)

# Numbers must not depend on whether the compiler fuses a multiply and an add; no one reads errno after a square
# root, nor the flags of the arithmetic, and keeping them keeps loops from being vectorised.
set(MESHWORK_NUMERICS -ffp-contract=off -fno-math-errno -fno-trapping-math)

# What most files include and we did not write, read once. Header <name>.h beside this file lists it; targets that
# are compiled with the same OPTIONS share it. The presets clang and tsan do without, so that a missing #include shows.
# meshwork_precompile(name [LIBS target...] [OPTIONS option...])
function(meshwork_precompile name)
  cmake_parse_arguments(ARG "" "" "LIBS;OPTIONS" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "")
  add_library(meshwork_${name} OBJECT ${source})
  target_link_libraries(meshwork_${name} PRIVATE ${ARG_LIBS})
  target_compile_options(meshwork_${name} PRIVATE ${MESHWORK_WARNINGS} ${ARG_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # One that a cache brings is not refused because the header beside it is of another time.
    target_compile_options(meshwork_${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_precompile_headers(meshwork_${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${name}.h)
endfunction()

function(meshwork_stage room)
  set(root ${PROJECT_BINARY_DIR}/stage/${room})
  file(MAKE_DIRECTORY ${root})
  if(NOT EXISTS ${root}/${room})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${root}/${room} SYMBOLIC)
  endif()
endfunction()

# meshwork_room(name [ROOMS room...] [DEPENDS target...] [PRIVATE_DEPENDS target...])
function(meshwork_room room)
  cmake_parse_arguments(ARG "" "" "ROOMS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  meshwork_stage(${room})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.cc
       ${PROJECT_SOURCE_DIR}/${room}/kernels/*.cc)
  add_library(meshwork_${room} STATIC ${sources})
  add_library(meshwork::${room} ALIAS meshwork_${room})
  set_target_properties(meshwork_${room} PROPERTIES EXPORT_NAME ${room})
  set_property(GLOBAL APPEND PROPERTY MESHWORK_ROOMS ${room})
  target_include_directories(meshwork_${room} PUBLIC
                             $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/stage/${room}>)
  target_compile_features(meshwork_${room} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_ROOMS PREPEND meshwork_)
  target_link_libraries(meshwork_${room} PUBLIC ${ARG_ROOMS} ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  target_compile_options(meshwork_${room} PRIVATE ${MESHWORK_WARNINGS} ${MESHWORK_NUMERICS})
  if(MESHWORK_PRECOMPILE)
    if(NOT TARGET meshwork_precompiled)
      meshwork_precompile(precompiled LIBS absl::status absl::statusor absl::inlined_vector fmt::fmt
                          OPTIONS ${MESHWORK_NUMERICS})
    endif()
    target_precompile_headers(meshwork_${room} REUSE_FROM meshwork_precompiled)
  endif()
endfunction()

# The target most users link: every room, and the root that holds meshwork.h.
function(meshwork_umbrella)
  set(root ${PROJECT_BINARY_DIR}/stage/meshwork)
  file(MAKE_DIRECTORY ${root})
  if(NOT EXISTS ${root}/meshwork.h)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/meshwork.h ${root}/meshwork.h SYMBOLIC)
  endif()
  add_library(meshwork INTERFACE)
  add_library(meshwork::meshwork ALIAS meshwork)
  target_include_directories(meshwork INTERFACE $<BUILD_INTERFACE:${root}>)
  target_link_libraries(meshwork INTERFACE meshwork_check meshwork_train)
endfunction()

function(meshwork_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${MESHWORK_WARNINGS} -ffp-contract=off)
endfunction()
