// Products of matrices by cuBLASLt: what it is asked for, played by the simulated one, is what the row's CPU kernel computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/played_gpu.h"
#include "cuda_kernels/trials.h"
#include "meshwork/base/status.h"
#include "meshwork/check/double_tensor.h"
#include "meshwork/ir/sample.h"
#include "meshwork/kernels/cuda/cuda_product.h"
#include "meshwork/layout/block.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/cuda_products.h"

namespace meshwork {
namespace {

using ::testing::IsEmpty;

const OpRow& Matmul() { return GetOp("matmul"); }

CudaTrial TrialOf(std::string name, const KernelSpec& spec) {
  Sampler sampler(8);
  CudaTrial trial{std::move(name), &Matmul(), spec, MakeCudaKernel(Matmul(), spec).value(), {}, {}, {}};
  for (const TensorSpec& operand : spec.operands) {
    trial.in.push_back(ToBytes(sampler.Draw(operand.local, Matmul())));
    trial.in_blocks.push_back(WholeBlock(operand.local.shape));
  }
  trial.out_blocks.push_back(WholeBlock(spec.results[0].local.shape));
  return trial;
}

// Of one device, or of instances stacked.
std::vector<CudaTrial> ProductTrials(const std::string& text) {
  const Sample sample = ParseSample(Matmul(), text).value();
  KernelSpec spec{.operands = {}, .results = {}, .attrs = sample.attrs};
  for (const Type& type : sample.operands) spec.operands.push_back({type, type});
  for (const Type& type : sample.results) spec.results.push_back({type, type});
  std::vector<CudaTrial> trials = {TrialOf(text, spec)};
  const std::vector<bool> both = {true, true}, first = {true, false}, second = {false, true};
  for (const std::vector<bool>& outer : {both, first, second})
    for (const std::vector<bool>& inner : {both, first, second})
      for (int reduced = 0; reduced < 4; ++reduced) {
        StackDims dims = {{2, outer}, {3, inner}};
        if (reduced & 1) dims[0].reduced = ReduceOp::kSum;
        if (reduced & 2) dims[1].reduced = ReduceOp::kSum;
        if (const std::optional<KernelSpec> stacked = Matmul().stack(spec, dims))
          trials.push_back(TrialOf(fmt::format("{} stacked, reduced {}", text, reduced), *stacked));
      }
  return trials;
}

std::vector<CudaTrial> AllProductTrials() {
  const std::pair<const char*, const char*> batches[] = {{"", ""},         {"5,", ""},      {"", "5,"},
                                                         {"5,", "5,"},     {"2,5,", ""},    {"2,5,", "5,"},
                                                         {"2,1,", "1,5,"}, {"2,5,", "2,5,"}};
  std::vector<CudaTrial> trials = TrialsOf(Matmul());
  for (const char* dtype : {"f32", "f64", "bf16"})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const auto& [of_a, of_b] : batches)
          for (const bool sums : {false, true}) {
            if (sums && (std::string_view(of_a) != of_b || *of_a == '\0')) continue;
            const std::string text =
                fmt::format("{0}[{1}{2}], {0}[{3}{4}]; transpose_a={5} transpose_b={6} sum_batch={7}", dtype,
                            of_a, transpose_a ? "4,3" : "3,4", of_b, transpose_b ? "7,4" : "4,7", transpose_a,
                            transpose_b, sums);
            for (CudaTrial& trial : ProductTrials(text)) trials.push_back(std::move(trial));
          }
  return trials;
}

// Buffers whose elements begin `offset` elements behind the start, so that they are aligned to their elements alone.
class Player {
 public:
  explicit Player(const SimulatedCudaOptions& options = {},
                  MatmulPrecision precision = MatmulPrecision::kFull)
      : cuda(options),
        context_(CudaContext::Create(cuda.api(), 0).value()),
        stream_(CudaStream::Create(context_).value()),
        products_(context_, precision) {}

  // The result; nullopt if cuBLASLt is not to compute it.
  absl::StatusOr<std::optional<Bytes>> Run(const CudaTrial& trial, int64_t offset) {
    const std::optional<CudaProduct> product = MakeCudaProduct(*trial.row, trial.spec);
    if (!product.has_value()) return std::nullopt;
    const int64_t size = DTypeSize(product->dtype), aligned = offset == 0 ? 256 : size;
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<size_t> number,
                              products_.Add(*product, {.a = aligned, .b = aligned, .d = aligned}));
    if (!number.has_value()) return std::nullopt;
    Bytes result(static_cast<size_t>(trial.spec.results[0].local.bytes()));
    MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer a, NewBuffer(std::ssize(trial.in[0]) + offset * size));
    MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer b, NewBuffer(std::ssize(trial.in[1]) + offset * size));
    MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer d, NewBuffer(std::ssize(result) + offset * size));
    MESHWORK_ASSIGN_OR_RETURN(const CudaBuffer workspace, NewBuffer(products_.workspace_bytes()));
    const auto from = static_cast<CUdeviceptr>(offset * size);
    const CudaProducts::Addresses addresses{a.address() + from, b.address() + from, d.address() + from};
    MESHWORK_RETURN_IF_ERROR(
        CopyToDevice(*stream_, addresses.a, trial.in[0].data(), std::ssize(trial.in[0])));
    MESHWORK_RETURN_IF_ERROR(
        CopyToDevice(*stream_, addresses.b, trial.in[1].data(), std::ssize(trial.in[1])));
    MESHWORK_RETURN_IF_ERROR(products_.Launch(*stream_, *number, addresses, workspace.address()));
    MESHWORK_RETURN_IF_ERROR(CopyToHost(*stream_, result.data(), addresses.d, std::ssize(result)));
    MESHWORK_RETURN_IF_ERROR(stream_->Synchronize());
    return result;
  }

  SimulatedCuda cuda;

 private:
  absl::StatusOr<CudaBuffer> NewBuffer(int64_t bytes) const { return CudaBuffer::Allocate(stream_, bytes); }

  const std::shared_ptr<const CudaContext> context_;
  const std::shared_ptr<const CudaStream> stream_;
  CudaProducts products_;
};

TEST(CudaProductsTest, ComputeWhatTheCpuKernelDoes) {
  Player player;
  int taken = 0, left = 0;
  for (const CudaTrial& trial : AllProductTrials()) {
    for (const int64_t offset : {0, 1}) {
      const absl::StatusOr<std::optional<Bytes>> result = player.Run(trial, offset);
      ASSERT_TRUE(result.ok()) << trial.name << ": " << result.status();
      ++(result->has_value() ? taken : left);
      if (result->has_value()) {
        EXPECT_EQ(DifferenceOf(trial, RunOnCpu(trial), {**result}, /*exactly=*/false), "");
      }
    }
    ASSERT_THAT(player.cuda.TakeFindings(), IsEmpty()) << trial.name;
  }
  EXPECT_GT(taken, 20 * left / 10);
  EXPECT_GT(left, 0);
}

CudaProduct ProductOf(const std::string& text) {
  const Sample sample = ParseSample(Matmul(), text).value();
  KernelSpec spec{.operands = {}, .results = {}, .attrs = sample.attrs};
  for (const Type& type : sample.operands) spec.operands.push_back({type, type});
  for (const Type& type : sample.results) spec.results.push_back({type, type});
  return MakeCudaProduct(Matmul(), spec).value_or(CudaProduct());
}

// Those of layers and of their gradients are one call each.
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
  // Their sums would be rounded one by one.
  EXPECT_EQ(ProductOf("bf16[2,3,4], bf16[2,4,5]; sum_batch=true"), CudaProduct());
  EXPECT_EQ(ProductOf("f32[2,3,4], f32[2,4,5]; sum_batch=true").calls.size(), 2u);
  EXPECT_EQ(ProductOf("f32[65,3,4], f32[65,4,5]; sum_batch=true"), CudaProduct());
  EXPECT_EQ(ProductOf("f32[65536,3,4], f32[65536,4,5]"), CudaProduct());
}

TEST(CudaProductsTest, WithoutAnAlgorithmNoneIsTaken) {
  const CudaTrial trial = ProductTrials("f32[3,4], f32[4,7]")[0];
  for (const SimulatedCudaOptions& options :
       {SimulatedCudaOptions{.has_cublas = false}, SimulatedCudaOptions{.declined_products = 1}}) {
    Player player(options);
    EXPECT_EQ(player.Run(trial, 0).value(), std::nullopt);
    EXPECT_EQ(player.cuda.num_products(), 0);
  }
}

// Numbers of ten bits are exact in TF32, others are not; f64 and bf16 are left as they are.
TEST(CudaProductsTest, Tf32RoundsF32Alone) {
  for (const char* dtype : {"f32", "f64", "bf16"}) {
    CudaTrial trial = ProductTrials(fmt::format("{0}[3,4], {0}[4,7]", dtype))[0];
    for (size_t o = 0; o < 2; ++o) {
      DoubleTensor thirds{trial.spec.operands[o].local, {}};
      for (int64_t i = 0; i < thirds.type.num_elements(); ++i)
        thirds.values.push_back((static_cast<double>(i) + 1) / 3);
      trial.in[o] = ToBytes(thirds);
    }
    const auto run = [&](MatmulPrecision precision) {
      return Player({}, precision).Run(trial, 0).value().value();
    };
    const bool differs = run(MatmulPrecision::kFull) != run(MatmulPrecision::kTf32);
    EXPECT_EQ(differs, std::string_view(dtype) == "f32") << dtype;
  }
}

}  // namespace
}  // namespace meshwork
