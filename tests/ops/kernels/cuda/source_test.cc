// The source of many kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "support/cuda_player.h"

namespace meshwork::source_test {
namespace {

// Kernels with equal text have one name, so that the text is compiled once.
TEST(CudaSourceTest, HasEachTextOnce) {
  const Type type{F32, {4, 6}}, other{F32, {4, 7}};
  const auto make = [](const Type& t) {
    return MakeCudaKernel(GetOp("relu"), {.operands = {{t, t}}, .results = {{t, t}}, .attrs = {}}).value();
  };
  const std::vector<CudaKernel> kernels = {make(type), make(other), make(type)};
  EXPECT_EQ(kernels[0].name, kernels[2].name);
  EXPECT_NE(kernels[0].name, kernels[1].name);
  const std::string source = CudaSourceOf(kernels);
  size_t count = 0;
  for (size_t at = source.find("__global__"); at != std::string::npos; at = source.find("__global__", at + 1))
    ++count;
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(source.rfind(CudaPrelude(), 0), 0u);
}

// Of an operand of 2^33 elements only the end is in memory.
TEST(CudaSourceTest, PlacesMayLieBeyond32Bits) {
  const Type whole{F32, {int64_t{1} << 31, 4}}, part{F32, {2, 4}};
  const int64_t rows = whole.shape[0];
  const KernelSpec spec{.operands = {{whole, whole}},
                        .results = {{part, part}},
                        .attrs = {{"start", std::vector<int64_t>{rows - 2, 0}},
                                  {"limit", std::vector<int64_t>{rows, 4}},
                                  {"stride", std::vector<int64_t>{}}}};
  const CudaKernel kernel = MakeCudaKernel(GetOp("slice"), spec).value();
  const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
  std::vector<float> end = {1, 2, 3, 4, 5, 6, 7, 8}, result(8);
  const auto in =
      reinterpret_cast<uintptr_t>(end.data()) - static_cast<uintptr_t>((rows - 2) * 4) * sizeof(float);
  float* out = result.data();
  void* args[] = {const_cast<uintptr_t*>(&in), &out};
  ASSERT_TRUE(kernels->Launch(kernel.name, {1}, {256}, 0, args).ok());
  EXPECT_EQ(result, end);
}

TEST(CudaSourceTest, ARowFromOutsideHasTheKernelOfItsExpression) {
  const OpRow row = {.name = "no_such_op"};
  EXPECT_FALSE(HasCudaKernel(row));
  EXPECT_FALSE(MakeCudaKernel(row, {}).has_value());
  const OpRow by_expression = {.name = "no_such_op", .scalar = "Gated(x, Sigmoid(x))"};
  const Type type{F32, {3}};
  const KernelSpec spec{.operands = {{type, type}}, .results = {{type, type}}, .attrs = {}};
  const CudaKernel kernel = MakeCudaKernel(by_expression, spec).value();
  const auto kernels = PlayCuda(CudaSourceOf({&kernel, 1})).value();
  std::vector<float> x = {-INFINITY, 0, 100}, y(3);
  float *in = x.data(), *out = y.data();
  void* args[] = {&in, &out};
  ASSERT_TRUE(kernels->Launch(kernel.name, {1}, {256}, 0, args).ok());
  EXPECT_EQ(y, (std::vector<float>{0, 0, 100}));
}

}  // namespace
}  // namespace meshwork::source_test
