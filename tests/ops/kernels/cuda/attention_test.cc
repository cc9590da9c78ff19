// Attention in sizes of several tiles, with and without tensor cores, against the kernels of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/ops/kernels/cuda/attention_tiling.h"
#include "meshwork/tools/check/double_tensor.h"
#include "ops/kernels/cuda/trials.h"
#include "support/cuda_player.h"

namespace meshwork::attention_test {
namespace {

struct HeadCase {
  std::string_view name;
  DType dtype;
  int64_t b, s, t, h, d, e;
  int64_t g = 0;  // heads of queries per head of keys; 0: q is [b,s,h,d]
  bool causal = false, has_seen = false;
  // The device's blocks of queries and keys, within s and t.
  Extent queries = {0, 0}, keys = {0, 0};
  // Each operand has an infinity and a NaN, at places that not all queries see.
  bool has_specials = false;
};

const std::vector<HeadCase>& HeadCases() {
  static const auto* const cases = new std::vector<HeadCase>{
      {.name = "causal", .dtype = BF16, .b = 1, .s = 150, .t = 150, .h = 2, .d = 64, .e = 64, .causal = true},
      {.name = "all", .dtype = BF16, .b = 2, .s = 70, .t = 130, .h = 1, .d = 32, .e = 16},
      {.name = "wide", .dtype = BF16, .b = 1, .s = 65, .t = 67, .h = 1, .d = 128, .e = 128, .causal = true},
      {.name = "seen", .dtype = BF16, .b = 2, .s = 33, .t = 90, .h = 1, .d = 48, .e = 48, .has_seen = true},
      {.name = "both",
       .dtype = BF16,
       .b = 1,
       .s = 66,
       .t = 66,
       .h = 1,
       .d = 16,
       .e = 80,
       .causal = true,
       .has_seen = true},
      {.name = "sharded",
       .dtype = BF16,
       .b = 1,
       .s = 70,
       .t = 140,
       .h = 2,
       .d = 16,
       .e = 16,
       .causal = true,
       .queries = {70, 41},
       .keys = {0, 111}},
      {.name = "special",
       .dtype = BF16,
       .b = 1,
       .s = 100,
       .t = 100,
       .h = 1,
       .d = 32,
       .e = 32,
       .causal = true,
       .has_specials = true},
      {.name = "special seen",
       .dtype = BF16,
       .b = 1,
       .s = 64,
       .t = 64,
       .h = 1,
       .d = 32,
       .e = 32,
       .has_seen = true,
       .has_specials = true},
      {.name = "odd", .dtype = BF16, .b = 1, .s = 70, .t = 40, .h = 2, .d = 24, .e = 72, .causal = true},
      {.name = "causal", .dtype = F32, .b = 1, .s = 90, .t = 90, .h = 2, .d = 64, .e = 64, .causal = true},
      {.name = "special",
       .dtype = F32,
       .b = 1,
       .s = 50,
       .t = 50,
       .h = 1,
       .d = 8,
       .e = 8,
       .causal = true,
       .has_specials = true},
      {.name = "wide", .dtype = F64, .b = 1, .s = 40, .t = 70, .h = 1, .d = 130, .e = 70, .has_seen = true},
      {.name = "grouped",
       .dtype = BF16,
       .b = 2,
       .s = 70,
       .t = 90,
       .h = 2,
       .d = 32,
       .e = 16,
       .g = 3,
       .causal = true},
      {.name = "grouped seen",
       .dtype = BF16,
       .b = 1,
       .s = 1,
       .t = 90,
       .h = 1,
       .d = 16,
       .e = 16,
       .g = 5,
       .has_seen = true},
      {.name = "grouped special",
       .dtype = BF16,
       .b = 1,
       .s = 100,
       .t = 100,
       .h = 1,
       .d = 32,
       .e = 32,
       .g = 2,
       .causal = true,
       .has_specials = true},
      {.name = "grouped",
       .dtype = F32,
       .b = 1,
       .s = 40,
       .t = 70,
       .h = 2,
       .d = 24,
       .e = 72,
       .g = 2,
       .causal = true},
      {.name = "no group", .dtype = F32, .b = 1, .s = 4, .t = 7, .h = 2, .d = 24, .e = 8, .g = 1},
  };
  return *cases;
}

// The trials of a case: the results, then the gradients, whose log-sums and shifts are the CPU's results.
class HeadTrials {
 public:
  // `tiling`: replaces the library's choice.
  explicit HeadTrials(const HeadCase& of, std::optional<AttentionTiling> tiling = std::nullopt)
      : of_(of), tiling_(tiling), engine_(7) {
    if (of_.queries.size == 0) of_.queries = {0, of_.s};
    if (of_.keys.size == 0) of_.keys = {0, of_.t};
  }

  std::vector<CudaTrial> Make() {
    const auto of_queries = [&](DType dtype, Shape dims) {
      Shape shape = {of_.b, of_.s, of_.h};
      if (of_.g > 0) shape.push_back(of_.g);
      shape.insert(shape.end(), dims.begin(), dims.end());
      return Type{dtype, shape};
    };
    const Type q = of_queries(of_.dtype, {of_.d}), k{of_.dtype, {of_.b, of_.t, of_.h, of_.d}};
    const Type v{of_.dtype, {of_.b, of_.t, of_.h, of_.e}}, result = of_queries(of_.dtype, {of_.e});
    const Type row = of_queries(of_.dtype == F64 ? F64 : F32, {});
    std::vector<DoubleTensor> in = {Draw(q), Draw(k), Draw(v)};
    const DoubleTensor slope = Draw(result);
    DoubleTensor seen{{I32, {of_.b, of_.s}}, {}};
    for (int64_t i = 0; i < of_.b * of_.s; ++i)
      seen.values.push_back(static_cast<double>(engine_() % static_cast<uint64_t>(of_.t + 1)));
    if (of_.has_specials) {
      // A single query must not see all keys.
      for (size_t i = 0; i < seen.values.size(); ++i)
        seen.values[i] = static_cast<double>(i == 1 ? 5 : of_.t);
      in[1].values[static_cast<size_t>((of_.t - 3) * of_.d)] = std::nan("");
      in[2].values[static_cast<size_t>((of_.t - 20) * of_.e + 3)] = std::numeric_limits<double>::infinity();
    }
    if (of_.has_seen) in.push_back(seen);
    std::vector<CudaTrial> trials = {TrialOf("attention", in, {result, row})};
    const std::vector<Bytes> forward = RunOnCpu(trials[0]);
    const DoubleTensor out = FromBytes(result, forward[0].data()),
                       log_sums = FromBytes(row, forward[1].data());
    DoubleTensor shifts{row, std::vector<double>(log_sums.values.size())};
    for (size_t i = 0; i < out.values.size(); ++i)
      shifts.values[i / static_cast<size_t>(of_.e)] += out.values[i] * slope.values[i];
    if (of_.has_seen) in.pop_back();
    in.insert(in.end(), {slope, log_sums, shifts});
    if (of_.has_seen) in.push_back(seen);
    trials.push_back(TrialOf("attention_grad_q", in, {q}));
    trials.push_back(TrialOf("attention_grad_kv", in, {k, v}));
    return trials;
  }

 private:
  DoubleTensor Draw(const Type& type) {
    DoubleTensor tensor{type, {}};
    for (int64_t i = 0; i < type.num_elements(); ++i)
      tensor.values.push_back(static_cast<double>(static_cast<int64_t>(engine_() % 33) - 16) / 16);
    return tensor;
  }

  CudaTrial TrialOf(std::string_view op, const std::vector<DoubleTensor>& in, const std::vector<Type>& out) {
    KernelSpec spec{
        .operands = {}, .results = {}, .attrs = {{"scale", 0.3}, {"causal", of_.causal}, {"ring", false}}};
    const auto block_of = [&](const Type& type, bool is_of_keys) {
      Block block = WholeBlock(type.shape);
      block[1] = is_of_keys ? of_.keys : of_.queries;
      return block;
    };
    std::vector<Bytes> bytes;
    std::vector<Block> in_blocks, out_blocks;
    for (size_t o = 0; o < in.size(); ++o) {
      spec.operands.push_back({in[o].type, in[o].type});
      bytes.push_back(ToBytes(in[o]));
      in_blocks.push_back(block_of(in[o].type, o == 1 || o == 2));
    }
    for (const Type& type : out) {
      spec.results.push_back({type, type});
      out_blocks.push_back(block_of(type, op == "attention_grad_kv"));
    }
    const OpRow& row = GetOp(op);
    std::string name = fmt::format("{} {} {}", op, DTypeName(of_.dtype), of_.name);
    if (tiling_.has_value()) name += fmt::format(", {} by {}", 64 * tiling_->row_tiles, tiling_->others);
    return {
        name,
        &row,
        spec,
        (tiling_.has_value() ? MakeCudaAttention(row, spec, *tiling_) : MakeCudaKernel(row, spec)).value(),
        std::move(bytes),
        std::move(in_blocks),
        std::move(out_blocks)};
  }

  HeadCase of_;
  const std::optional<AttentionTiling> tiling_;
  std::mt19937_64 engine_;
};

TEST(CudaAttentionTest, DeclinesTilingsThatTakeTooMuchSharedMemory) {
  const HeadCase wide{.name = "wide", .dtype = BF16, .b = 1, .s = 1, .t = 1, .h = 1, .d = 128, .e = 128};
  const CudaTrial trial = HeadTrials(wide).Make()[0];
  EXPECT_TRUE(MakeCudaAttention(*trial.row, trial.spec, {1, 32, 32, 1}).has_value());
  EXPECT_FALSE(MakeCudaAttention(*trial.row, trial.spec, {1, 64, 64, 1}).has_value());
}

TEST(CudaAttentionTest, ComputesWhatTheCpuKernelsDo) {
  std::vector<CudaTrial> trials;
  std::vector<CudaKernel> kernels;
  for (const HeadCase& of : HeadCases())
    for (CudaTrial& trial : HeadTrials(of).Make()) trials.push_back(std::move(trial));
  const HeadCase tiled{
      .name = "tiled", .dtype = BF16, .b = 1, .s = 140, .t = 150, .h = 1, .d = 16, .e = 32, .causal = true};
  for (const AttentionTiling& tiling :
       {AttentionTiling{1, 16, 16, 1}, AttentionTiling{1, 64, 32, 3}, AttentionTiling{2, 64, 16, 2}})
    for (CudaTrial& trial : HeadTrials(tiled, tiling).Make()) trials.push_back(std::move(trial));
  for (const CudaTrial& trial : trials) kernels.push_back(trial.kernel);
  const auto played = PlayCuda(CudaSourceOf(kernels));
  ASSERT_TRUE(played.ok()) << played.status();
  for (const CudaTrial& trial : trials) {
    const std::vector<Bytes> expected = RunOnCpu(trial);
    std::vector<Bytes> first;
    for (const uint64_t seed : {1, 2}) {
      (*played)->set_seed(seed);
      // The second time, the offset is not a multiple of a vector's size.
      const absl::StatusOr<std::vector<Bytes>> found = RunPlayed(**played, trial, seed == 1 ? 0 : 8);
      ASSERT_TRUE(found.ok()) << found.status();
      if (seed == 1) {
        first = *found;
        // Weights are rounded to bf16 before the sums over many keys.
        EXPECT_EQ(DifferenceOf(trial, expected, *found, /*exactly=*/false, /*least=*/0.5), "");
      } else {
        EXPECT_TRUE(*found == first) << trial.name << " depends on the order of threads or on addresses";
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::attention_test
