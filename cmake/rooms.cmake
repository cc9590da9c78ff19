# Each room of the house is one library target that exposes only the include roots it may use.
#
# The build stages one root per room, whose headers are links, <build>/stage/<room>/meshwork/<room>/x.h ->
# <source>/<room>/x.h, and a target sees its own root and those of the rooms it depends on. So a wrong-way include does
# not compile; tests/house says the same of the sources.

# Designated initializers leave fields at their defaults on purpose. g++ 12 misfires with -Wrestrict on
# std::string (GCC bug 105651) and with -Wmaybe-uninitialized on std::optional of inline storage (80635).
# Through a precompiled header it forgets what is the system's, and warns of the strings in it.
# It takes Abseil's copies of empty inlined vectors for reads of what is not set.
# clang reports hints to vectorize that it does not follow, as when it optimizes little.
set(MESHWORK_WARNINGS -Wall -Wextra $<$<BOOL:${MESHWORK_WERROR}>:-Werror> -Wno-missing-field-initializers
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>
    "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${MESHWORK_PRECOMPILE}>>:-Wno-stringop-overflow;-Wno-stringop-overread>"
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${MESHWORK_PRECOMPILE}>>:-Wno-array-bounds>
    $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)

# Numbers must not depend on whether the compiler fuses a multiply and an add; no one reads errno after a square
# root, nor the flags of the arithmetic, and keeping them keeps loops from being vectorised.
set(MESHWORK_NUMERICS -ffp-contract=off -fno-math-errno -fno-trapping-math)

# What most files include and we did not write, read once. Header <name>.h, or HEADER, beside this file lists it; targets
# that are compiled with the same OPTIONS share it: g++ may crash where one is optimized otherwise. The preset clang does
# without, so that a missing #include shows.
# meshwork_precompile(name [HEADER header] [LIBS target...] [OPTIONS option...])
function(meshwork_precompile name)
  cmake_parse_arguments(ARG "" "HEADER" "LIBS;OPTIONS" ${ARGN})
  if(NOT ARG_HEADER)
    set(ARG_HEADER ${name}.h)
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "")
  add_library(meshwork_${name} OBJECT ${source})
  target_link_libraries(meshwork_${name} PRIVATE ${ARG_LIBS})
  target_compile_options(meshwork_${name} PRIVATE ${MESHWORK_WARNINGS} ${ARG_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # One that a cache brings is not refused because the header beside it is of another time.
    target_compile_options(meshwork_${name} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  target_precompile_headers(meshwork_${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${ARG_HEADER})
endfunction()

# A folder that is no room, as a whole: <build>/stage/<folder>/<folder> -> <source>/<folder>.
function(meshwork_stage folder)
  set(root ${PROJECT_BINARY_DIR}/stage/${folder})
  file(MAKE_DIRECTORY ${root})
  if(NOT EXISTS ${root}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${root}/${folder} SYMBOLIC)
  endif()
endfunction()

# Compiles the target's files `batch` at a time, which takes less time where all is compiled; for the sanitizers all at
# once: what is not optimized takes no longer for being long, and what files share is compiled once.
function(meshwork_unity target batch)
  if(MESHWORK_UNITY)
    if(MESHWORK_SANITIZE)
      set(batch 0)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    # g++ takes a source that another file includes for a header, and warns of anonymous namespaces in it.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# The headers one by one: a room within a room, as ops/kernels/blas, is seen by those alone who name it.
function(meshwork_stage_room room root)
  file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/${room} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.h)
  file(REMOVE_RECURSE ${root})
  file(MAKE_DIRECTORY ${root}/meshwork/${room})
  foreach(header ${headers})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room}/${header} ${root}/meshwork/${room}/${header} SYMBOLIC)
  endforeach()
endfunction()

# Loops are as fast by these options as by -O3, and compile in four fifths of the time. By -O2 alone, g++ vectorizes a loop
# only where no second loop is needed for its rest, unrolls no short inner loop, moves no condition out of a loop, and
# inlines less.
set(MESHWORK_LOOPS $<$<CONFIG:Release>:-O2> "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-fvect-cost-model=dynamic;\
-fpeel-loops;-funswitch-loops;--param=max-inline-insns-auto=30>")

# meshwork_room(folder [LOOPS] [ROOMS room...] [PRIVATE_ROOMS room...] [LINKS_BACK room...]
#               [DEPENDS target...] [PRIVATE_DEPENDS target...])
#
# The target of the folder ops/kernels/blas is meshwork_ops_kernels_blas. A room that names another one sees that one's ROOMS,
# too, but not its PRIVATE_ROOMS. LINKS_BACK: rooms above this one. It calls some of their functions, and sees none of
# their headers. LOOPS: its time goes into loops over numbers. These are vectorized, which takes so long that few files are
# compiled at a time; the other rooms are optimized by -O1, which takes a quarter less than -O2.
function(meshwork_room folder)
  cmake_parse_arguments(ARG "LOOPS" "" "ROOMS;PRIVATE_ROOMS;LINKS_BACK;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  string(REPLACE "/" "_" room ${folder})
  set(root ${PROJECT_BINARY_DIR}/stage/${room})
  meshwork_stage_room(${folder} ${root})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  add_library(meshwork_${room} STATIC ${sources})
  add_library(meshwork::${room} ALIAS meshwork_${room})
  set_target_properties(meshwork_${room} PROPERTIES EXPORT_NAME ${room})
  set_property(GLOBAL APPEND PROPERTY MESHWORK_ROOMS ${folder})
  target_include_directories(meshwork_${room} PUBLIC $<BUILD_INTERFACE:${root}>)
  target_compile_features(meshwork_${room} PUBLIC cxx_std_20)
  foreach(list ROOMS PRIVATE_ROOMS LINKS_BACK)
    list(TRANSFORM ARG_${list} REPLACE "/" "_")
    list(TRANSFORM ARG_${list} PREPEND meshwork_)
  endforeach()
  target_link_libraries(meshwork_${room} PUBLIC ${ARG_ROOMS} ${ARG_DEPENDS}
                        PRIVATE ${ARG_PRIVATE_ROOMS} ${ARG_PRIVATE_DEPENDS})
  # Archives may refer to each other: CMake names them on the linker's line as often as that takes. LINK_ONLY passes on
  # no include root.
  foreach(above ${ARG_LINKS_BACK})
    # Four rooms refer to each other: twice, as by default, is not enough for every order.
    set_target_properties(meshwork_${room} PROPERTIES LINK_INTERFACE_MULTIPLICITY 4)
    target_link_libraries(meshwork_${room} INTERFACE $<LINK_ONLY:${above}>)
  endforeach()
  target_compile_options(meshwork_${room} PRIVATE ${MESHWORK_WARNINGS} ${MESHWORK_NUMERICS})
  if(ARG_LOOPS)
    set(precompiled precompiled_loops)
    set(optimized ${MESHWORK_LOOPS})
    meshwork_unity(meshwork_${room} 8)
  else()
    set(precompiled precompiled)
    set(optimized $<$<CONFIG:Release>:-O1>)
    meshwork_unity(meshwork_${room} 32)
  endif()
  target_compile_options(meshwork_${room} PRIVATE ${optimized})
  if(MESHWORK_PRECOMPILE)
    if(NOT TARGET meshwork_${precompiled})
      meshwork_precompile(${precompiled} HEADER precompiled.h LIBS absl::status absl::statusor absl::inlined_vector fmt::fmt
                          OPTIONS ${MESHWORK_NUMERICS} ${optimized})
    endif()
    target_precompile_headers(meshwork_${room} REUSE_FROM meshwork_${precompiled})
  endif()
endfunction()

# meshwork_embed(room header NAME file... [NAME file...]...): the constants k<Room><Name> of the room, std::string_views of
# the files, one after the other. Files are globs from the root, a glob's files sorted by name; the room's `header` declares
# the constants. Of headers (*.h), includes and namespaces are left out.
function(meshwork_embed room header)
  set(source "#include \"meshwork/${room}/${header}\"\n\nnamespace meshwork {\n")
  cmake_path(GET room FILENAME name_of_room)
  set(end "")
  foreach(argument ${ARGN})
    if(argument MATCHES "^[A-Z]+$")
      set(words "")
      foreach(word ${name_of_room} ${argument})
        string(SUBSTRING ${word} 0 1 capital)
        string(SUBSTRING ${word} 1 -1 small)
        string(TOUPPER ${capital} capital)
        string(TOLOWER ${small} small)
        string(APPEND words ${capital}${small})
      endforeach()
      string(APPEND source "${end}\nconst std::string_view k${words} =")
      set(end ";\n")
      continue()
    endif()
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${argument})
    if(NOT files)
      message(FATAL_ERROR "meshwork_embed: there is no ${argument}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
    foreach(file ${files})
      file(READ ${file} content)
      if(file MATCHES "\\.h$")
        string(REGEX REPLACE "\n(#pragma once|#include|namespace|}  // namespace)[^\n]*" "" content "${content}")
      endif()
      string(APPEND source "\n    R\"meshwork(${content})meshwork\"")
    endforeach()
  endforeach()
  string(REPLACE "/" "_" target ${room})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/embedded/${target}.cc
       CONTENT "@source@@end@\n}  // namespace meshwork\n" @ONLY)
  target_sources(meshwork_${target} PRIVATE ${PROJECT_BINARY_DIR}/embedded/${target}.cc)
endfunction()

# The target most users link: every room, and the root that holds meshwork.h, meshwork/core.h and meshwork/train.h.
function(meshwork_umbrella)
  set(root ${PROJECT_BINARY_DIR}/stage/meshwork)
  file(MAKE_DIRECTORY ${root}/meshwork)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/meshwork.h ${root}/meshwork.h SYMBOLIC)
  foreach(header core.h train.h)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${header} ${root}/meshwork/${header} SYMBOLIC)
  endforeach()
  add_library(meshwork INTERFACE)
  add_library(meshwork::meshwork ALIAS meshwork)
  target_include_directories(meshwork INTERFACE $<BUILD_INTERFACE:${root}>)
  target_link_libraries(meshwork INTERFACE meshwork_session_saved meshwork_train_parameter_server_rpc meshwork_tools_check
                        meshwork_tools_report meshwork_stablehlo meshwork_stablehlo_read)
  # The headers of all rooms, for programs that link some of them.
  add_library(meshwork_headers INTERFACE)
  target_include_directories(meshwork_headers INTERFACE $<TARGET_PROPERTY:meshwork,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(meshwork_headers INTERFACE $<TARGET_PROPERTY:meshwork,INTERFACE_COMPILE_DEFINITIONS>)
endfunction()

function(meshwork_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${MESHWORK_WARNINGS} -ffp-contract=off)
endfunction()

# What uses meshwork.h: programs, and what they share. They are optimized as a user's program is, and as most of the library:
# of an inline function that both have, the linker takes the program's.
function(meshwork_uses_umbrella target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(MESHWORK_PRECOMPILE)
    if(NOT TARGET meshwork_precompiled_programs)
      meshwork_precompile(precompiled_programs LIBS meshwork OPTIONS -ffp-contract=off $<$<CONFIG:Release>:-O1>)
    endif()
    target_precompile_headers(${target} REUSE_FROM meshwork_precompiled_programs)
  endif()
endfunction()
