// Products of matrices by cuBLASLt on the GPU of this machine.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/product_trials.h"
#include "cuda_gpu/real_gpu.h"
#include "meshwork/base/status.h"
#include "meshwork/tools/check/double_tensor.h"
#include "support/long_tests.h"

namespace meshwork::products_test {
namespace {

class GpuProductsTest : public RealGpuTest {
 protected:
  void SetUp() override {
    RealGpuTest::SetUp();
    if (IsSkipped()) return;
    if (const absl::Status& status = context()->api().cublas_status; !status.ok())
      GTEST_SKIP() << status.message();
  }
};

// Products give the CPU kernel's results, and the same bits in each run, captured or not. Long sums may be cut along k.
TEST_F(GpuProductsTest, ComputeWhatTheCpuKernelDoes) {
  std::vector<CudaTrial> trials;
  for (const char* text : {"f32[256,2048], f32[2048,128]", "bf16[64,4096], bf16[64,4096]; transpose_b=true",
                           "bf16[4096,72], bf16[4096,200]; transpose_a=true", "f64[64,2048], f64[2048,64]",
                           "bf16[12,128,64], bf16[12,128,64]; transpose_b=true", "f32[8,33,65], f32[65,31]"})
    trials.push_back(OfSines(ProductTrial(text)));
  for (CudaTrial& trial : AllProductTrials()) trials.push_back(std::move(trial));
  ProductRunner runner(context());
  int taken = 0, declined = 0;
  for (size_t i = 0; i < trials.size(); i += LongTests() || i < 200 ? 1 : 7) {
    const CudaTrial& trial = trials[i];
    if (!MakeCudaProduct(*trial.row, trial.spec).has_value()) continue;
    const Type& type = trial.spec.results[0].local;
    const std::vector<double> expected = FromBytes(type, RunOnCpu(trial)[0].data()).values;
    for (const int64_t offset : {0, 1}) {
      std::optional<Bytes> first;
      for (const bool captures : {true, false}) {
        const absl::StatusOr<std::optional<Bytes>> result = runner.Run(trial, offset, captures);
        ASSERT_TRUE(result.ok()) << trial.name << ": " << result.status();
        ++(result->has_value() ? taken : declined);
        if (!result->has_value()) break;
        if (!first.has_value()) first = *result;
        EXPECT_TRUE(*first == **result) << trial.name << " differs from run to run";
        EXPECT_TRUE(Agree(type.dtype, FromBytes(type, (*result)->data()).values, expected)) << trial.name;
      }
    }
  }
  RecordProperty("taken", taken);
  RecordProperty("declined", declined);
  EXPECT_GT(taken, 10 * declined) << declined << " were declined";
}

}  // namespace
}  // namespace meshwork::products_test
