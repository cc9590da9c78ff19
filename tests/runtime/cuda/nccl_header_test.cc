// The types and numbers of runtime/cuda/nccl_api.h are those of nccl.h, if that header is installed.
#if defined(MESHWORK_HAVE_CUDA) && __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>

#include "gtest/gtest.h"
#include "meshwork/runtime/cuda/nccl_api.h"

namespace meshwork::nccl_header_test {
namespace {

constexpr bool Is(NcclResult ours, ncclResult_t theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

TEST(NcclHeaderTest, NumbersAreTheSame) {
  EXPECT_TRUE(Is(NcclResult::kSuccess, ncclSuccess));
  EXPECT_TRUE(Is(NcclResult::kUnhandledCudaError, ncclUnhandledCudaError));
  EXPECT_TRUE(Is(NcclResult::kSystemError, ncclSystemError));
  EXPECT_TRUE(Is(NcclResult::kInternalError, ncclInternalError));
  EXPECT_TRUE(Is(NcclResult::kInvalidArgument, ncclInvalidArgument));
  EXPECT_TRUE(Is(NcclResult::kInvalidUsage, ncclInvalidUsage));
  EXPECT_TRUE(Is(NcclResult::kRemoteError, ncclRemoteError));
  EXPECT_TRUE(Is(NcclResult::kInProgress, ncclInProgress));
  EXPECT_EQ(static_cast<int>(NcclType::kBytes), static_cast<int>(ncclUint8));
  EXPECT_EQ(sizeof(NcclUniqueId), sizeof(ncclUniqueId));
  EXPECT_EQ(kOldestNccl, NCCL_VERSION(2, 18, 0));
}

// The first fields of ncclConfig_t; later versions only append fields.
TEST(NcclHeaderTest, TheConfigBeginsAsTheirs) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const NcclConfig ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.cga_cluster_size, theirs.cgaClusterSize);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_EQ(offsetof(NcclConfig, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(NcclConfig, net_name), offsetof(ncclConfig_t, netName));
  EXPECT_EQ(offsetof(NcclConfig, split_share), offsetof(ncclConfig_t, splitShare));
  EXPECT_LE(sizeof(NcclConfig), sizeof(ncclConfig_t));
}

// The function types of the table have the parameters of the library's functions. Only types are compared: this test
// is not linked with NCCL.
template <typename Function>
constexpr int kParameters = -1;
template <typename R, typename... A>
constexpr int kParameters<R(A...)> = sizeof...(A);

TEST(NcclHeaderTest, ParametersAreAsMany) {
#define MESHWORK_COUNT(result, name, parameters) \
  EXPECT_EQ(kParameters<result parameters>, kParameters<decltype(::name)>) << #name;
  MESHWORK_NCCL_FUNCTIONS(MESHWORK_COUNT)
#undef MESHWORK_COUNT
}

}  // namespace
}  // namespace meshwork::nccl_header_test

#endif
