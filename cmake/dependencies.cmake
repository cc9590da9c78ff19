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
meshwork_find(PNG "libpng: images" libpng-dev)
meshwork_find(JPEG "libjpeg: images" libjpeg-dev)
meshwork_find(OpenSSL "OpenSSL: hashes of checkpoints" libssl-dev)

# By hand: a library without CMake files, or with wrong ones. Makes the target ${package}::${package}.
macro(meshwork_find_library package header library purpose debian_package)
  string(TOUPPER MESHWORK_${package} meshwork_variable)
  find_path(${meshwork_variable}_INCLUDE ${header} ${ARGN})
  find_library(${meshwork_variable}_LIBRARY ${library} ${ARGN})
  mark_as_advanced(${meshwork_variable}_INCLUDE ${meshwork_variable}_LIBRARY)
  if(NOT ${meshwork_variable}_INCLUDE OR NOT ${meshwork_variable}_LIBRARY)
    string(APPEND meshwork_missing "\n  ${package} (${purpose}); on Debian and Ubuntu: apt-get install ${debian_package}")
  elseif(NOT TARGET ${package}::${package})
    add_library(${package}::${package} INTERFACE IMPORTED)
    target_include_directories(${package}::${package} INTERFACE ${${meshwork_variable}_INCLUDE})
    target_link_libraries(${package}::${package} INTERFACE ${${meshwork_variable}_LIBRARY})
  endif()
endmacro()

meshwork_find_library(xxHash xxhash.h xxhash "version 0.8 or later: hashes of replicas" libxxhash-dev)
# The CMake files of Debian 12's libzip need programs that are in other packages.
meshwork_find_library(libzip zip.h zip "NumPy's archives" libzip-dev)
# The CMake files of Debian 13's OpenBLAS name folders that do not exist. openblas_config.h is in no other BLAS.
meshwork_find_library(OpenBLAS openblas_config.h openblas "matrix products" libopenblas-pthread-dev
                      PATH_SUFFIXES openblas-pthread openblas)

# A oneDNN built for OpenCL, as Debian's is, looks for it and stops the configuration where it is absent,
# without a word about oneDNN.
find_package(OpenCL QUIET)
if(NOT OpenCL_FOUND)
  message(STATUS "meshwork: there is no OpenCL. If oneDNN asks for it next: apt-get install ocl-icd-opencl-dev")
endif()
meshwork_find(dnnl "oneDNN: matrix products" libdnnl-dev)

# Sets MESHWORK_HAS_MPI.
set(MESHWORK_HAS_MPI FALSE)
if(NOT MESHWORK_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
  set(MESHWORK_HAS_MPI ${MPI_CXX_FOUND})
  if(MESHWORK_MPI STREQUAL "ON" AND NOT MESHWORK_HAS_MPI)
    string(APPEND meshwork_missing "\n  MPI (data between processes); on Debian and Ubuntu: apt-get install libopenmpi-dev")
  endif()
endif()

# Sets MESHWORK_HAS_GLOO. gRPC by hand: Debian's CMake files of it stop the configuration unless its compiler of .proto
# files is installed, too.
set(MESHWORK_HAS_GLOO FALSE)
if(NOT MESHWORK_GLOO STREQUAL "OFF")
  find_package(Gloo QUIET)
  find_path(MESHWORK_GRPC_INCLUDE grpcpp/generic/generic_stub.h)
  find_library(MESHWORK_GRPC_LIBRARY grpc++)
  find_library(MESHWORK_GRPC_CORE_LIBRARY grpc)
  find_library(MESHWORK_GPR_LIBRARY gpr)
  mark_as_advanced(MESHWORK_GRPC_INCLUDE MESHWORK_GRPC_LIBRARY MESHWORK_GRPC_CORE_LIBRARY MESHWORK_GPR_LIBRARY)
  if(Gloo_FOUND AND MESHWORK_GRPC_INCLUDE AND MESHWORK_GRPC_LIBRARY AND MESHWORK_GRPC_CORE_LIBRARY AND MESHWORK_GPR_LIBRARY)
    set(MESHWORK_HAS_GLOO TRUE)
    if(NOT TARGET gRPC::grpc++)
      add_library(gRPC::grpc++ INTERFACE IMPORTED)
      target_include_directories(gRPC::grpc++ INTERFACE ${MESHWORK_GRPC_INCLUDE})
      target_link_libraries(gRPC::grpc++ INTERFACE ${MESHWORK_GRPC_LIBRARY} ${MESHWORK_GRPC_CORE_LIBRARY}
                            ${MESHWORK_GPR_LIBRARY} absl::synchronization)
    endif()
  elseif(MESHWORK_GLOO STREQUAL "ON")
    string(APPEND meshwork_missing
           "\n  Gloo and gRPC (data between processes); on Debian and Ubuntu: apt-get install libgloo-dev libgrpc++-dev")
  endif()
endif()

# Sets MESHWORK_HAS_CUDA, and where the headers are. An installed meshwork needs them no more.
set(MESHWORK_HAS_CUDA FALSE)
if(MESHWORK_CUDA)
  find_package(CUDAToolkit 12 QUIET)
  foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
    if(EXISTS ${folder}/cuda.h AND EXISTS ${folder}/nvrtc.h AND EXISTS ${folder}/cublasLt.h)
      set(MESHWORK_HAS_CUDA TRUE)
    endif()
  endforeach()
endif()
