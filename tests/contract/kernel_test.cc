// The laws of kernels on which fusion and coalescing rely (ir/kernel.h), for every row and sample: units write
// their rows of the results and nothing else; these rows read only the corresponding part of an operand; and
// the kernel of stacked instances computes the same as one kernel per instance.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/row_test.h"
#include "gmock/gmock.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/tools/check/double_tensor.h"
#include "meshwork/tools/check/owed.h"
#include "support/sample.h"

namespace meshwork::kernel_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kGuard = 64;  // bytes before and behind a result
constexpr std::byte kFill{0x5a}, kGarbage{0xff};

// A kernel and the operands that it runs on.
struct Trial {
  std::string name;
  Kernel kernel;
  std::vector<Bytes> in;
  std::vector<size_t> out_bytes;
  std::vector<Block> in_blocks, out_blocks;

  // The results with their guards: filled with `fill`, except for the bytes that units [begin, end) write.
  std::vector<Bytes> Run(int64_t begin, int64_t end, const std::vector<Bytes>& operands,
                         std::byte fill = kFill) const {
    std::vector<Bytes> results;
    std::vector<const void*> in_data;
    std::vector<void*> out_data;
    for (const Bytes& operand : operands) in_data.push_back(operand.data());
    for (size_t bytes : out_bytes) results.emplace_back(kGuard + bytes + kGuard, fill);
    for (Bytes& result : results) out_data.push_back(result.data() + kGuard);
    if (begin < end)
      kernel.run({.in = in_data,
                  .out = out_data,
                  .in_blocks = in_blocks,
                  .out_blocks = out_blocks,
                  .begin = begin,
                  .end = end});
    return results;
  }
  std::vector<Bytes> RunWhole() const { return Run(0, kernel.units, in); }
};

KernelSpec SpecOf(const Sample& sample) {
  KernelSpec spec{.operands = {}, .results = {}, .attrs = sample.attrs};
  for (const Type& type : sample.operands) spec.operands.push_back({type, type});
  for (const Type& type : sample.results) spec.results.push_back({type, type});
  return spec;
}

Trial MakeTrial(const Sample& sample, const KernelSpec& spec, std::vector<Bytes> in, std::string_view how) {
  Trial trial{.name = fmt::format("{}{}", sample.ToString(), how),
              .kernel = CpuKernelOf(*sample.row)(spec),
              .in = std::move(in),
              .out_bytes = {},
              .in_blocks = {},
              .out_blocks = {}};
  for (const TensorSpec& operand : spec.operands) trial.in_blocks.push_back(WholeBlock(operand.local.shape));
  for (const TensorSpec& result : spec.results) {
    trial.out_bytes.push_back(static_cast<size_t>(result.local.bytes()));
    trial.out_blocks.push_back(WholeBlock(result.local.shape));
  }
  return trial;
}

// Values of many magnitudes, whose sums depend on the order of the terms.
Sampler ManyLevels() { return Sampler(8); }

Trial MakeTrial(const Sample& sample) {
  Sampler sampler = ManyLevels();
  std::vector<Bytes> in;
  for (const Type& type : sample.operands) in.push_back(ToBytes(sampler.Draw(type, *sample.row)));
  return MakeTrial(sample, SpecOf(sample), std::move(in), "");
}

// The byte range of parts [begin, end), of `count` equal parts of `bytes` bytes.
std::pair<size_t, size_t> PartAt(size_t bytes, int64_t begin, int64_t end, int64_t count) {
  const size_t part = bytes / static_cast<size_t>(count);
  return {static_cast<size_t>(begin) * part, static_cast<size_t>(end) * part};
}

// ---- Rows.

// The results if units [begin, end) write the same bytes as in `whole`, and nothing else.
std::vector<Bytes> Rows(const Trial& trial, const std::vector<Bytes>& whole, int64_t begin, int64_t end) {
  std::vector<Bytes> rows;
  for (size_t r = 0; r < whole.size(); ++r) {
    rows.emplace_back(whole[r].size(), kFill);
    const auto [first, last] = PartAt(trial.out_bytes[r], begin, end, trial.kernel.units);
    std::copy(whole[r].begin() + kGuard + first, whole[r].begin() + kGuard + last,
              rows[r].begin() + kGuard + first);
  }
  return rows;
}

void ExpectUnitsWriteTheirRows(const Trial& trial) {
  const int64_t units = trial.kernel.units;
  if (!trial.kernel.by_rows || units == 0) return;
  for (size_t bytes : trial.out_bytes)
    ASSERT_EQ(bytes % static_cast<size_t>(units), 0u)
        << trial.name << ": rows are equal parts of every result";
  const std::vector<Bytes> whole = trial.RunWhole();
  std::set<int64_t> cuts = {0, 1, units / 3, units / 2, units - 1, units};
  for (auto at = cuts.begin(); at != cuts.end();)
    at = trial.kernel.MayCutAt(*at) ? std::next(at) : cuts.erase(at);
  for (int64_t begin : cuts) {
    for (int64_t end : cuts) {
      if (begin > end) continue;
      EXPECT_TRUE(trial.Run(begin, end, trial.in) == Rows(trial, whole, begin, end))
          << trial.name << ", units " << begin << " to " << end << " of " << units;
    }
  }
}

// ---- Parts.

// Returns how often rows were computed from a part of an operand.
int TryParts(const Trial& trial) {
  const int64_t units = trial.kernel.units;
  if (!trial.kernel.by_rows || units == 0) return 0;
  const std::vector<Bytes> whole = trial.RunWhole();
  int tried = 0;
  for (size_t o = 0; o < trial.in.size(); ++o) {
    const int64_t parts = trial.kernel.PartsOf(o), most = std::gcd(parts, units);
    if (parts <= 1) continue;
    EXPECT_EQ(trial.in[o].size() % static_cast<size_t>(parts), 0u) << trial.name << ", operand " << o;
    for (int64_t count = 2; count <= most; ++count) {
      if (most % count != 0 || (count > 12 && count < most) || count > 128) continue;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = units / count * i, end = units / count * (i + 1);
        if (!trial.kernel.MayCutAt(begin) || !trial.kernel.MayCutAt(end)) continue;
        std::vector<Bytes> in = trial.in;
        const auto [first, last] = PartAt(in[o].size(), i, i + 1, count);
        std::fill(in[o].begin(), in[o].begin() + first, kGarbage);
        std::fill(in[o].begin() + last, in[o].end(), kGarbage);
        EXPECT_TRUE(trial.Run(begin, end, in) == Rows(trial, whole, begin, end))
            << trial.name << ": part " << i << " of " << count << " needs more of operand " << o;
        ++tried;
      }
    }
  }
  return tried;
}

// ---- Stacks.

constexpr int64_t kSizes[] = {2, 3};

// The position of an operand's instance for index `at` of the dims.
size_t InstanceAt(const StackDims& dims, size_t operand, const int64_t (&at)[2]) {
  size_t place = 0;
  for (size_t d = 0; d < 2; ++d)
    if (dims[d].varies[operand])
      place = place * static_cast<size_t>(dims[d].size) + static_cast<size_t>(at[d]);
  return place;
}

// The position of a result's instance.
size_t ResultAt(const StackDims& dims, const int64_t (&at)[2]) {
  size_t place = 0;
  for (size_t d = 0; d < 2; ++d)
    if (!dims[d].reduced) place = place * static_cast<size_t>(dims[d].size) + static_cast<size_t>(at[d]);
  return place;
}

std::string ToString(const StackDims& dims) {
  std::string text = " stacked along";
  for (const StackDim& dim : dims) {
    text += fmt::format(" {}:", dim.size);
    for (bool varies : dim.varies) text += varies ? 'v' : '-';
    if (dim.reduced) text += fmt::format(" {}", ReduceOpName(*dim.reduced));
  }
  return text;
}

// The instances of an op, and the stacked kernel that computes all of them.
class StackedTrial {
 public:
  StackedTrial(const Sample& sample, const StackDims& dims, const KernelSpec& spec)
      : sample_(sample), dims_(dims) {
    Sampler sampler = ManyLevels();
    std::vector<Bytes> stacked;
    for (size_t o = 0; o < sample.operands.size(); ++o) {
      int64_t count = 1;
      for (const StackDim& dim : dims) count *= dim.varies[o] ? dim.size : 1;
      instances_.emplace_back();
      stacked.emplace_back();
      for (int64_t i = 0; i < count; ++i) {
        instances_[o].push_back(ToBytes(sampler.Draw(sample.operands[o], *sample.row)));
        stacked[o].insert(stacked[o].end(), instances_[o].back().begin(), instances_[o].back().end());
      }
    }
    trial_ = MakeTrial(sample, spec, std::move(stacked), ToString(dims));
  }

  const Trial& trial() const { return trial_; }

  // Instance after instance of each result; those of reduced dims in double.
  std::vector<std::vector<DoubleTensor>> OneByOne() const {
    std::vector<std::vector<DoubleTensor>> results(sample_.results.size());
    for (int64_t i = 0; i < dims_[0].size; ++i)
      for (int64_t j = 0; j < dims_[1].size; ++j) Add({i, j}, results);
    return results;
  }

  // The results of the stacked kernel.
  std::vector<std::vector<DoubleTensor>> Stacked() const {
    const std::vector<Bytes> whole = trial_.RunWhole();
    std::vector<std::vector<DoubleTensor>> results(whole.size());
    for (size_t r = 0; r < whole.size(); ++r) {
      const Type& type = sample_.results[r];
      for (size_t i = 0; i < trial_.out_bytes[r]; i += static_cast<size_t>(type.bytes()))
        results[r].push_back(FromBytes(type, whole[r].data() + kGuard + i));
    }
    return results;
  }

 private:
  void Add(const int64_t (&at)[2], std::vector<std::vector<DoubleTensor>>& results) const {
    std::vector<Bytes> in;
    for (size_t o = 0; o < instances_.size(); ++o) in.push_back(instances_[o][InstanceAt(dims_, o, at)]);
    const std::vector<Bytes> out = MakeTrial(sample_, SpecOf(sample_), std::move(in), "").RunWhole();
    const size_t place = ResultAt(dims_, at);
    const auto op = dims_[0].reduced ? dims_[0].reduced : dims_[1].reduced;
    for (size_t r = 0; r < out.size(); ++r) {
      DoubleTensor one = FromBytes(sample_.results[r], out[r].data() + kGuard);
      if (place == results[r].size()) {
        results[r].push_back(std::move(one));
        continue;
      }
      DoubleTensor& all = results[r][place];
      for (size_t e = 0; e < all.values.size(); ++e)
        all.values[e] = Reduced(all.type.dtype, *op, all.values[e], one.values[e]);
    }
  }

  const Sample& sample_;
  const StackDims& dims_;
  std::vector<std::vector<Bytes>> instances_;  // per operand
  Trial trial_;
};

// Calls f(dims, spec) for every stack of two dims that the row has, where at least one operand varies along each
// dim. With `op`, only stacks with a dim that is reduced by `op`; without, only stacks without reduced dims.
template <typename F>
void ForEachStack(const Sample& sample, std::optional<ReduceOp> op, F&& f) {
  if (sample.row->stack == nullptr) return;
  const uint64_t operands = sample.operands.size(), masks = uint64_t{1} << operands;
  for (uint64_t varies = 1 + masks; varies < masks * masks; ++varies) {
    if (varies % masks == 0) continue;
    for (int reduced = op ? 1 : 0; reduced < (op ? 4 : 1); ++reduced) {
      StackDims dims;
      for (int d = 0; d < 2; ++d) {
        const uint64_t mask = d == 0 ? varies / masks : varies % masks;
        StackDim dim{.size = kSizes[d]};
        for (uint64_t o = 0; o < operands; ++o) dim.varies.push_back((mask >> o & 1) != 0);
        if ((reduced >> d & 1) != 0) dim.reduced = op;
        dims.push_back(std::move(dim));
      }
      if (const std::optional<KernelSpec> spec = sample.row->stack(SpecOf(sample), dims)) f(dims, *spec);
    }
  }
}

// ---- For every row.

class KernelTest : public RowTest {};

// Only large products are cut. Only in the common dtype (f32): the others take long.
Sample Large(const Sample& sample) {
  if (sample.results[0].dtype != F32) return sample;
  std::vector<int64_t> sizes;
  for (const Letter& letter : sample.rule().letters) sizes.push_back(letter.size);
  std::vector<int64_t> large = sizes;
  for (size_t l = sizes.size() - std::min<size_t>(sizes.size(), 3); l < sizes.size(); ++l) large[l] *= 32;
  return Resized(sample, large).value_or(sample);
}

TEST_P(KernelTest, UnitsWriteTheirRowsOfEveryResultAndNothingElse) {
  for (const Sample& sample : Samples()) {
    ExpectUnitsWriteTheirRows(MakeTrial(sample));
    if (row().is_product) ExpectUnitsWriteTheirRows(MakeTrial(Large(sample)));
    ForEachStack(sample, std::nullopt, [&](const StackDims& dims, const KernelSpec& spec) {
      ExpectUnitsWriteTheirRows(StackedTrial(sample, dims, spec).trial());
    });
  }
}

// A sum over no elements is 0; it does not keep the previous content of the memory.
TEST_P(KernelTest, OfEmptyDimsWriteEveryElement) {
  for (const Sample& sample : Samples()) {
    const std::vector<Letter> letters = sample.rule().letters;
    for (size_t empty = 0; empty < letters.size(); ++empty) {
      std::vector<int64_t> sizes;
      for (size_t l = 0; l < letters.size(); ++l) sizes.push_back(l == empty ? 0 : letters[l].size);
      const std::optional<Sample> without = Resized(sample, sizes);
      if (!without.has_value()) continue;
      const Trial trial = MakeTrial(*without);
      const int64_t units = trial.kernel.units;
      const std::vector<Bytes> found = trial.RunWhole(), again = trial.Run(0, units, trial.in, kGarbage);
      for (size_t r = 0; r < found.size(); ++r)
        EXPECT_TRUE(std::equal(found[r].begin() + kGuard, found[r].end() - kGuard, again[r].begin() + kGuard))
            << trial.name << ": result " << r << " holds what its memory held";
    }
  }
}

TEST_P(KernelTest, RowsNeedOnlyTheirPartOfAnOperand) {
  int tried = 0;
  bool stacks = false;
  for (const Sample& sample : Samples()) {
    tried += TryParts(MakeTrial(sample));
    if (row().is_product) tried += TryParts(MakeTrial(Large(sample)));
    ForEachStack(sample, std::nullopt, [&](const StackDims& dims, const KernelSpec& spec) {
      const StackedTrial trial(sample, dims, spec);
      tried += TryParts(trial.trial());
      stacks |= trial.trial().kernel.by_rows;
    });
  }
  EXPECT_TRUE(tried > 0 || !stacks) << "what can be stacked falls into parts along the stack";
}

TEST_P(KernelTest, StackedInstancesAreThoseComputedOneByOne) {
  for (const Sample& sample : Samples()) {
    ForEachStack(sample, std::nullopt, [&](const StackDims& dims, const KernelSpec& spec) {
      const StackedTrial trial(sample, dims, spec);
      const auto expected = trial.OneByOne(), found = trial.Stacked();
      for (size_t r = 0; r < expected.size(); ++r) {
        ASSERT_EQ(found[r].size(), expected[r].size()) << trial.trial().name;
        for (size_t i = 0; i < expected[r].size(); ++i) {
          const std::vector<double>&a = found[r][i].values, &b = expected[r][i].values;
          EXPECT_TRUE(row().is_product ? Agree(sample.results[r].dtype, a, b)
                                       : ToBytes(found[r][i]) == ToBytes(expected[r][i]))
              << trial.trial().name << ", instance " << i << " of result " << r;
        }
      }
    });
  }
}

// The reductions that a row's stacked kernel makes while it computes the instances.
const std::map<std::string_view, ReduceOp>& ReducingRows() {
  static const auto* rows = new std::map<std::string_view, ReduceOp>{
      {"matmul", ReduceOp::kSum},       {"conv_filter_grad", ReduceOp::kSum}, {"reduce_sum", ReduceOp::kSum},
      {"reduce_mean", ReduceOp::kSum},  {"reduce_max", ReduceOp::kMax},       {"reduce_min", ReduceOp::kMin},
      {"reduce_prod", ReduceOp::kProd}, {"reduce_all", ReduceOp::kAnd},       {"reduce_any", ReduceOp::kOr},
      {"scatter_add", ReduceOp::kSum},  {"matmul_q", ReduceOp::kSum},
  };
  return *rows;
}

TEST_P(KernelTest, ReducedInstancesAreTheReductionOfThoseComputedOneByOne) {
  std::set<ReduceOp> reductions;
  for (const Sample& sample : Samples()) {
    for (ReduceOp op : kAllReduceOps) {
      if (!MayOwe(sample.results[0].dtype, op)) continue;
      ForEachStack(sample, op, [&](const StackDims& dims, const KernelSpec& spec) {
        reductions.insert(op);
        const StackedTrial trial(sample, dims, spec);
        ExpectUnitsWriteTheirRows(trial.trial());
        TryParts(trial.trial());
        const auto expected = trial.OneByOne(), found = trial.Stacked();
        for (size_t r = 0; r < expected.size(); ++r) {
          ASSERT_EQ(found[r].size(), expected[r].size()) << trial.trial().name;
          for (size_t i = 0; i < expected[r].size(); ++i)
            EXPECT_TRUE(Agree(sample.results[r].dtype, found[r][i].values, expected[r][i].values))
                << trial.trial().name << ", instance " << i << " of result " << r;
        }
      });
    }
  }
  std::set<ReduceOp> expected;
  if (const auto it = ReducingRows().find(row().name); it != ReducingRows().end())
    expected.insert(it->second);
  EXPECT_TRUE(reductions == expected) << row().name;
}

INSTANTIATE_TEST_SUITE_P(Rows, KernelTest, testing::ValuesIn(RowsUnderContract()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace meshwork::kernel_test
