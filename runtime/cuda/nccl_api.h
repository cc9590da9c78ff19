// The functions of NCCL that meshwork calls, and their types, as nccl.h of version 2.18 and later declares them: so a
// build needs no NCCL (tests/runtime/cuda/nccl_header_test.cc compares them with nccl.h where there is one). They are
// fields of CudaApi.
//
// NCCL carries data between GPUs. A *communicator* has one *rank* per GPU; here a rank is a domain. Calls between
// ncclGroupStart and ncclGroupEnd are one operation on a stream, which a graph may hold. It has ended when the ranks
// that it names have done their part of it. Communicators that do not block return kInProgress, and
// ncclCommGetAsyncError says when the call has ended.
#pragma once

#include <cuda.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

// F(result, name, parameters) for each function.
#define MESHWORK_NCCL_FUNCTIONS(F)                                                         \
  F(NcclResult, ncclGetVersion, (int*))                                                    \
  F(NcclResult, ncclGetUniqueId, (NcclUniqueId*))                                          \
  F(const char*, ncclGetErrorString, (NcclResult))                                         \
  F(const char*, ncclGetLastError, (NcclComm*))                                            \
  F(NcclResult, ncclCommInitRankConfig, (NcclComm**, int, NcclUniqueId, int, NcclConfig*)) \
  F(NcclResult, ncclCommFinalize, (NcclComm*))                                             \
  F(NcclResult, ncclCommDestroy, (NcclComm*))                                              \
  F(NcclResult, ncclCommAbort, (NcclComm*))                                                \
  F(NcclResult, ncclCommGetAsyncError, (NcclComm*, NcclResult*))                           \
  F(NcclResult, ncclGroupStart, ())                                                        \
  F(NcclResult, ncclGroupEnd, ())                                                          \
  F(NcclResult, ncclSend, (const void*, size_t, NcclType, int, NcclComm*, CUstream))       \
  F(NcclResult, ncclRecv, (void*, size_t, NcclType, int, NcclComm*, CUstream))             \
  F(NcclResult, ncclAllReduce, (const void*, void*, size_t, NcclType, NcclOp, NcclComm*, CUstream))

namespace meshwork {

struct NcclComm;  // opaque

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

// kBytes is for sends and receives; the others are for sums.
enum class NcclType : int { kBytes = 1, kInt32 = 2, kInt64 = 4, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9 };

enum class NcclOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

struct NcclUniqueId {
  char bytes[128] = {};
};

// As of version 2.18. Later versions take it, too, and choose the values that it lacks.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = INT_MIN;  // undefined, as the next
  int cga_cluster_size = INT_MIN, min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

// The oldest that is used, as NCCL counts: 2.18, the first with such a NcclConfig.
inline constexpr int kOldestNccl = 21800;

// "2.28.9" of 22809.
std::string NcclVersionToString(int version);

}  // namespace meshwork
