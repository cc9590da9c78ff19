// Matrix products by the simulated cuBLASLt, as meshwork calls it, give the results of the row's CPU kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cuda_backend/product_trials.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/kernels/cuda/cuda_product.h"
#include "meshwork/runtime/cuda/cuda_products.h"
#include "meshwork/spmd/compile.h"
#include "ops/kernels/cuda/trials.h"
#include "support/simulated_cuda.h"

namespace meshwork::products_test {
namespace {

using ::testing::IsEmpty;

TEST(CudaProductsTest, ComputeWhatTheCpuKernelDoes) {
  int taken = 0, left = 0;
  for (const CudaTrial& trial : AllProductTrials()) {
    // A new simulation for each trial: its calls become slow with many allocations.
    SimulatedCuda cuda;
    ProductRunner runner(CudaContext::Create(cuda.api(), 0).value());
    for (const int64_t offset : {0, 1}) {
      const absl::StatusOr<std::optional<Bytes>> result = runner.Run(trial, offset, /*captures=*/offset == 0);
      ASSERT_TRUE(result.ok()) << trial.name << ": " << result.status();
      ++(result->has_value() ? taken : left);
      if (result->has_value()) {
        EXPECT_EQ(DifferenceOf(trial, RunOnCpu(trial), {**result}, /*exactly=*/false), "");
      }
    }
    ASSERT_THAT(cuda.TakeFindings(), IsEmpty()) << trial.name;
  }
  EXPECT_GT(taken, 2 * left);
  EXPECT_GT(left, 0);
}

CudaProduct ProductOf(const std::string& text) {
  return MakeCudaProduct(GetOp("matmul"), ProductSpec(text)).value_or(CudaProduct());
}

// The products of layers, and those of their gradients, are one call each.
TEST(CudaProductsTest, OfLayersAreOneCall) {
  const CudaProduct layer = ProductOf("f32[8,16,32], f32[32,64]");
  EXPECT_EQ(layer, (CudaProduct{.m = 128, .n = 64, .k = 32, .calls = {{}}}));
  const CudaProduct of_input = ProductOf("bf16[8,16,64], bf16[32,64]; transpose_b=true");
  EXPECT_EQ(of_input,
            (CudaProduct{.dtype = BF16, .m = 128, .n = 32, .k = 64, .transpose_b = true, .calls = {{}}}));
  const CudaProduct of_weight = ProductOf("bf16[8,16,32], bf16[8,16,64]; transpose_a=true sum_batch=true");
  EXPECT_EQ(of_weight,
            (CudaProduct{.dtype = BF16, .m = 32, .n = 64, .k = 128, .transpose_a = true, .calls = {{}}}));
  const CudaProduct heads = ProductOf("f32[8,4,16,32], f32[8,4,16,32]; transpose_b=true");
  EXPECT_EQ(heads, (CudaProduct{.m = 16,
                                .n = 16,
                                .k = 32,
                                .transpose_b = true,
                                .batch = 32,
                                .stride_a = 512,
                                .stride_b = 512,
                                .stride_d = 256,
                                .calls = {{}}}));
}

TEST(CudaProductsTest, WhatIsLeftToTheKernel) {
  EXPECT_EQ(ProductOf("f32[0,4], f32[4,5]"), CudaProduct());
  EXPECT_EQ(ProductOf("f32[3,0], f32[0,5]"), CudaProduct());
  // Each term of their sums would be rounded to bf16.
  EXPECT_EQ(ProductOf("bf16[2,3,4], bf16[2,4,5]; sum_batch=true"), CudaProduct());
  EXPECT_EQ(ProductOf("f32[2,3,4], f32[2,4,5]; sum_batch=true").calls.size(), 2u);
  EXPECT_EQ(ProductOf("f32[65,3,4], f32[65,4,5]; sum_batch=true"), CudaProduct());
  EXPECT_EQ(ProductOf("f32[65536,3,4], f32[65536,4,5]"), CudaProduct());
}

TEST(CudaProductsTest, WithoutAnAlgorithmNoneIsTaken) {
  const CudaTrial trial = ProductTrial("f32[3,4], f32[4,7]");
  for (const SimulatedCudaOptions& options :
       {SimulatedCudaOptions{.has_cublas = false}, SimulatedCudaOptions{.declined_products = 1}}) {
    SimulatedCuda cuda(options);
    EXPECT_EQ(ProductRunner(CudaContext::Create(cuda.api(), 0).value()).Run(trial, 0).value(), std::nullopt);
    EXPECT_EQ(cuda.num_products(), 0);
  }
}

// TF32 represents numbers of ten bits exactly, and rounds others. f64 and bf16 are not affected.
TEST(CudaProductsTest, Tf32RoundsF32Alone) {
  for (const char* dtype : {"f32", "f64", "bf16"}) {
    const CudaTrial trial = OfSines(ProductTrial(fmt::format("{0}[3,4], {0}[4,7]", dtype)));
    const auto run = [&](MatmulPrecision precision) {
      SimulatedCuda cuda;
      return ProductRunner(CudaContext::Create(cuda.api(), 0).value(), precision)
          .Run(trial, 0)
          .value()
          .value();
    };
    const bool differs = run(MatmulPrecision::kFull) != run(MatmulPrecision::kTf32);
    EXPECT_EQ(differs, std::string_view(dtype) == "f32") << dtype;
  }
}

// Sums of bf16 over devices are computed in f32, from factors that TF32 represents exactly.
TEST(CudaProductsTest, FactorsThatWereBf16FitTf32) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: bf16[4,3] {_,_}, %b: bf16[4,5] {_,_}, %c: f32[4,5] {_,_}) {
  %wide = cast %a dtype=f32
  %turned = transpose %wide permutation=[1,0]
  %other = cast %b dtype=f32
  %yes = matmul %turned, %other
  %no = matmul %turned, %c
  %sum = add %other, %c
  %neither = matmul %turned, %sum
  return yes=%yes, no=%no, neither=%neither
})")
                          .value();
  std::vector<bool> fit;
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (graph.nodes()[n].row == &GetOp("matmul")) fit.push_back(FactorsFitTf32(graph, static_cast<int>(n)));
  EXPECT_EQ(fit, (std::vector<bool>{true, false, false}));
}

// A sum over two devices of bf16 is one product in TF32, without loss.
TEST(CudaProductsTest, SumsOfBf16AreMadeInTf32) {
  const Graph graph = ParseGraph(R"(mesh [x=2]
func f(%a: bf16[4,6] {_,x}, %b: bf16[6,5] {x,_}) {
  %c = matmul %a, %b : bf16[4,5] {_,_}
  return c=%c
})")
                          .value();
  const Graph local = Compile(graph).value().body;
  int products = 0;
  for (size_t n = 0; n < local.nodes().size(); ++n)
    if (local.nodes()[n].row == &GetOp("matmul")) {
      EXPECT_TRUE(FactorsFitTf32(local, static_cast<int>(n)));
      ++products;
    }
  EXPECT_EQ(products, 1);
}

}  // namespace
}  // namespace meshwork::products_test
