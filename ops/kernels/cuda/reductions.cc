// Reductions over dims, except those of rows (rows.cc) and of columns by fours (column_folds.cc). n threads of one
// block fold a result: each folds every n-th element, then the threads' values are folded in halves. The order depends
// on the shape alone.
//
//   f32[512,7001] over dims 0   a block has 32 results, side by side in memory, with 32 threads each
//   f32[8192,701] over dims 0   has too few results for all of a GPU: 32 parts of 256 elements of each result are
//                               folded to f32[32,701], and that by a second kernel
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/folds.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kThreads = 256, kMostThreads = 1024;
constexpr int64_t kBlocksOfGpu = 132;  // an H100 has so many multiprocessors
constexpr int64_t kSector = 32;        // bytes
constexpr int64_t kTile = 32;          // results side by side
// A second kernel does not pay for fewer elements or fewer parts. A part of a run has kRunOfPart elements.
constexpr int64_t kFewElements = int64_t{1} << 17, kFewSplits = 4, kRunOfPart = 4096;

// `text` has names p0, … for places; those of two walks in one scope differ.
std::string Renamed(std::string text, char prefix) {
  for (size_t at = text.find('p'); at != std::string::npos; at = text.find('p', at + 1)) text[at] = prefix;
  return text;
}

class ReductionText {
 public:
  // Reduces over the dims of an operand of `type`, or over parts of them.
  ReductionText(std::string_view name, const Type& type, const std::vector<bool>& reduces, const Fold& fold,
                int64_t splits)
      : type_(type),
        fold_(fold),
        kept_(WalkAlong(type.shape, reduces, false)),
        folded_(WalkAlong(type.shape, reduces, true)) {
    text_.name = name;
    results_ = SizeOf(kept_);
    count_ = SizeOf(folded_);
    length_ = (count_ + splits - 1) / splits;
    threads_of_ = results_ * splits;
    is_run_ = !folded_.dims.empty() && folded_.dims.back().strides[0] == 1;
    ChooseLanes();
  }

  // `result`: an expression of `all`.
  CudaKernel Make(const Type& to, std::string_view result) && {
    text_.in = {type_};
    text_.out = {to};
    text_.threads = lanes_ * per_block_;
    text_.blocks = (threads_of_ + per_block_ - 1) / per_block_;
    text_.most_elements = type_.num_elements() + threads_of_ + 4 * kMostThreads;
    const bool is_split = threads_of_ != results_;
    std::string lines =
        fmt::format("const Index thread = (Index)threadIdx.x;\nconst Index lane = {}, slot = {};\n",
                    is_run_ ? fmt::format("thread % {}", lanes_) : fmt::format("thread / {}", per_block_),
                    is_run_ ? fmt::format("thread / {}", lanes_) : fmt::format("thread % {}", per_block_));
    lines += fmt::format("const Index own = (Index)blockIdx.x * {} + slot;\n{} all = {};\nif (own < {}) {{\n",
                         per_block_, fold_.type, fold_.identity, Whole(threads_of_));
    std::string inner = Renamed(folded_.Places("j"), 'q');
    inner += fmt::format("const Index at = base + {};\nconst {} a = all, b = {};\nall = {};\n",
                         Renamed(folded_.Offset(0, "j"), 'q'), fold_.type, fold_.element, fold_.combined);
    std::string begin = "lane", end = Whole(count_), own = "const Index result = own;\n";
    if (is_split) {
      own = fmt::format(
          "const Index result = own % {0}, first = own / {0} * {1}, behind = first + {1} < {2} ? first + {1} : {2};\n",
          Whole(results_), Whole(length_), Whole(count_));
      begin = "first + lane";
      end = "behind";
    }
    lines += Indented(fmt::format(
        "{}{}const Index base = {};\n#pragma unroll 4\nfor (Index j = {}; j < {}; j += {}) {{\n{}}}\n", own,
        kept_.Places("result"), kept_.Offset(0, "result"), begin, end, lanes_, Indented(inner)));
    lines += "}\n";
    if (lanes_ > 1) {
      lines += fmt::format(
          "__shared__ {0} partial[{1}];\npartial[thread] = all;\n__syncthreads();\n"
          "for (int half = {2}; half > 0; half /= 2) {{\n"
          "  if (lane < half) {{\n    const {0} a = partial[thread], b = partial[thread + half * {3}];\n"
          "    partial[thread] = {4};\n  }}\n  __syncthreads();\n}}\nall = partial[thread];\n",
          fold_.type, text_.threads, lanes_ / 2, is_run_ ? 1 : per_block_, fold_.combined);
    }
    lines += fmt::format("if (lane == 0 && own < {}) r0[own] = {};\n", Whole(threads_of_), result);
    text_.body = Indented(lines);
    return Finish(text_);
  }

 private:
  // Either the elements of a result are contiguous in memory, or neighbouring results are.
  void ChooseLanes() {
    int64_t most = kThreads;
    if (!is_run_) {
      // If there are few results, a block has more threads for each, and only as many results as one memory access
      // reads.
      const int64_t size = DTypeSize(type_.dtype);
      per_block_ = kTile;
      if (threads_of_ < kBlocksOfGpu * per_block_) {
        while (per_block_ * size > kSector && threads_of_ < kBlocksOfGpu * per_block_) per_block_ /= 2;
        most = kMostThreads;
      }
      most /= per_block_;
    }
    while (lanes_ < most && 4 * lanes_ <= length_) lanes_ *= 2;
    per_block_ = std::max(per_block_, kThreads / lanes_);
  }

  const Type type_;
  const Fold fold_;
  const Walk kept_, folded_;
  KernelText text_{.name = {}, .in = {}, .out = {}, .body = {}};
  int64_t results_ = 0, count_ = 0;      // elements of each result
  int64_t length_ = 0, threads_of_ = 0;  // elements of a part, and parts of all results
  int64_t lanes_ = 1, per_block_ = 1;    // threads of a part, parts of a block
  bool is_run_ = false;
};

CudaKernel Reduction(const OpRow& row, const KernelSpec& spec, const std::vector<bool>& reduces,
                     const Fold& fold) {
  const Type &from = spec.operands[0].local, &to = spec.results[0].local;
  const Walk folded = WalkAlong(from.shape, reduces, true);
  const int64_t results = to.num_elements(), count = SizeOf(folded);
  const bool is_run = !folded.dims.empty() && folded.dims.back().strides[0] == 1;
  const int64_t splits = fold.dtype.has_value() ? SplitsOf(results, count, is_run) : 1;
  if (splits == 1) return ReductionText(row.name, from, reduces, fold, 1).Make(to, fold.result);
  const Type scratch{*fold.dtype, {splits, results}};
  CudaKernel first = ReductionText(row.name, from, reduces, fold, splits).Make(scratch, "all");
  Fold rest = fold;
  rest.element = "a0[at]";
  first.second = std::make_shared<const CudaKernel>(
      ReductionText(row.name, scratch, {true, false}, rest, 1).Make(to, fold.result));
  first.scratch_bytes = scratch.bytes();
  return first;
}

// A fold in the type to compute with; bools are folded as bytes.
Fold FoldInType(DType dtype, std::string_view identity, std::string_view combined) {
  const DType of = dtype == BOOL ? U8 : dtype;
  const std::string type(ComputeName(of));
  return {type,
          fmt::format(fmt::runtime(identity), type),
          std::string(combined),
          Loaded(of, "a0[at]"),
          Rounded(of, "all"),
          of == BF16 || of == F16 ? F32 : of};
}

CudaKernel Folded(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  if (IsCudaColumnFold(row, spec)) {
    const CudaChainOp op{&row, &spec, {{false, 0}}};
    constexpr int kFirst[] = {0};
    return MakeCudaColumns({&op, 1}, kFirst, alignment);
  }
  return Reduction(row, spec, ReducedDims(spec), FoldOf(row, spec).value());
}

CudaKernel Arg(const OpRow& row, const KernelSpec& spec, bool largest) {
  std::vector<bool> reduces(spec.operands[0].local.shape.size(), false);
  reduces[spec.attrs.Get<int64_t>("dim")] = true;
  const DType dtype = spec.operands[0].local.dtype;
  const std::string type = fmt::format("Indexed<{}>", ComputeName(dtype));
  return Reduction(row, spec, reduces,
                   {type, fmt::format("{}{{0, -1}}", type), fmt::format("Foremost<{}>(a, b)", largest),
                    fmt::format("{}{{{}, (int)j}}", type, Loaded(dtype, "a0[at]")), "all.at"});
}
CudaKernel ArgMax(const OpRow& row, const KernelSpec& spec) { return Arg(row, spec, true); }
CudaKernel ArgMin(const OpRow& row, const KernelSpec& spec) { return Arg(row, spec, false); }

}  // namespace

Walk WalkAlong(const Shape& shape, const std::vector<bool>& reduces, bool which) {
  const Shape dense = RowMajorStrides(shape);
  Shape sizes, strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (reduces[d] != which) continue;
    sizes.push_back(shape[d]);
    strides.push_back(dense[d]);
  }
  return Walk::Of(sizes, {&strides, 1});
}

int64_t SizeOf(const Walk& walk) {
  int64_t size = 1;
  for (const Walk::Dim& dim : walk.dims) size *= dim.size;
  return size;
}

int64_t SplitsOf(int64_t results, int64_t elements, bool is_run) {
  if (results == 0 || results * elements < kFewElements) return 1;
  const int64_t blocks = is_run ? results : (results + kTile - 1) / kTile;
  const int64_t wanted = kBlocksOfGpu * kMostThreads * 2 / kThreads / blocks;
  const int64_t splits = std::min(wanted, elements / (is_run ? kRunOfPart : kThreads));
  return splits < kFewSplits ? 1 : splits;
}

std::vector<bool> ReducedDims(const KernelSpec& spec) {
  std::vector<bool> reduces(spec.operands[0].local.shape.size(), false);
  for (int64_t d : spec.attrs.Get<Ints>("dims")) reduces[d] = true;
  return reduces;
}

std::optional<Fold> FoldOf(const OpRow& row, const KernelSpec& spec) {
  if (row.name.substr(0, 7) != "reduce_") return std::nullopt;
  const DType dtype = spec.results[0].local.dtype;
  if (row.name == "reduce_sum") return FoldInType(dtype, "0", "Sum(a, b)");
  if (row.name == "reduce_prod") return FoldInType(dtype, "1", "Product(a, b)");
  if (row.name == "reduce_max") return FoldInType(dtype, "Limits<{}>::Least()", "Larger(a, b)");
  if (row.name == "reduce_min") return FoldInType(dtype, "Limits<{}>::Most()", "Smaller(a, b)");
  if (row.name == "reduce_all") return FoldInType(BOOL, "1", "(unsigned char)(a & b)");
  if (row.name == "reduce_any") return FoldInType(BOOL, "0", "(unsigned char)(a | b)");
  if (row.name != "reduce_mean") return std::nullopt;
  // A mean divides by the number of elements of the global dims, so that partial means add up to it.
  double count = 1;
  for (int64_t d : spec.attrs.Get<Ints>("dims"))
    count *= static_cast<double>(spec.operands[0].global.shape[d]);
  Fold fold = FoldInType(dtype, "0", "Sum(a, b)");
  if (count != 1) fold.result = Rounded(dtype, fmt::format("all / {}", Number(dtype, count)));
  return fold;
}

std::span<const Generator> ReductionKernels() {
  static constexpr Generator kGenerators[] = {
      {"reduce_sum", nullptr, Folded},
      {"reduce_mean", nullptr, Folded},
      {"reduce_max", nullptr, Folded},
      {"reduce_min", nullptr, Folded},
      {"reduce_prod", nullptr, Folded},
      {"reduce_all", nullptr, Folded},
      {"reduce_any", nullptr, Folded},
      {"argmax", ArgMax},
      {"argmin", ArgMin},
  };
  return kGenerators;
}

}  // namespace meshwork::cuda
