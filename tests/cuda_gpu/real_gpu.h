// The GPU of this machine, for tests. Without a GPU each test is skipped, and reported by its name.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_backend.h"
#include "meshwork/runtime/cuda/cuda_context.h"

namespace meshwork {

// GPU 0, initialized by the first call. Error: the reason why there is none.
inline const absl::StatusOr<std::shared_ptr<const CudaContext>>& RealGpu() {
  static const auto* const gpu = new absl::StatusOr<std::shared_ptr<const CudaContext>>(
      []() -> absl::StatusOr<std::shared_ptr<const CudaContext>> {
        absl::StatusOr<const CudaApi*> api = LoadCudaApi();
        if (!api.ok()) return api.status();
        return CudaContext::Create(**api, 0);
      }());
  return *gpu;
}

// Adds the GPU to `Base`, testing::Test or a test with a parameter.
template <typename Base>
class WithRealGpu : public Base {
 protected:
  void SetUp() override {
    if (!RealGpu().ok()) GTEST_SKIP() << RealGpu().status().message();
  }

  static const std::shared_ptr<const CudaContext>& context() { return *RealGpu(); }
  static std::unique_ptr<CudaBackend> MakeBackend() { return CudaBackend::Create(context()).value(); }
};

using RealGpuTest = WithRealGpu<testing::Test>;

}  // namespace meshwork
