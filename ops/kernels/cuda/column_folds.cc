// Reductions of columns, with the elementwise ops before them (MakeCudaColumns).
//
//   f32[8192,768] over dims 0   a thread has 4 results side by side, and every 8th row of 94; the 88 parts of each result
//                               are folded by a second kernel
//
// The order of a fold depends on the shape alone, so that it does not depend on the ops before it.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/folds.h"

namespace meshwork {
namespace cuda {
namespace {

constexpr int64_t kThreadsOfColumns = 256, kColumns = 4;  // columns of a thread
constexpr int64_t kSlots = 32, kFewestSlots = 8;          // threads side by side
constexpr int64_t kBlocksOfColumns = 132 * 4;             // that an H100 has at once
// A second kernel does not pay for fewer elements, fewer parts or shorter parts.
constexpr int64_t kFewInColumns = int64_t{1} << 17, kFewParts = 3, kMostParts = 512, kRowsOfPart = 64;

class ColumnsText {
 public:
  // The last op is the fold, of an operand of `type`.
  ColumnsText(std::span<const CudaChainOp> ops, std::span<const int> stored, const Type& type,
              const std::vector<bool>& reduces, const Fold& fold, bool may_split, int64_t alignment)
      : ops_(ops.first(ops.size() - 1)),
        of_fold_(ops.back().operands[0]),
        stored_(stored.first(stored.size() - 1)),
        type_(type),
        fold_(fold),
        inputs_(InputsOf(ops)),
        kept_(WalkAlong(type.shape, reduces, false)),
        folded_(WalkAlong(type.shape, reduces, true)) {
    if (ops.size() == 1) {
      const Shape dense = RowMajorStrides(type.shape);
      inputs_ = {{type, Walk::Of(type.shape, {&dense, 1})}};
    }
    text_.name = ops.size() == 1 ? ops[0].row->name : "columns";
    for (const ChainInput& input : inputs_) text_.in.push_back(input.type);
    for (const int op : stored_) text_.out.push_back(TypeOf(op));
    text_.in_place = ops.size() > 1;
    text_.threads = kThreadsOfColumns;
    packs_ = SizeOf(kept_) / kColumns;
    count_ = SizeOf(folded_);
    ChooseParts(may_split);
    is_packed_ = alignment >= 16 && std::all_of(inputs_.begin(), inputs_.end(),
                                                [](const ChainInput& i) { return i.PacksBy(kColumns); });
    if (is_packed_) text_.alignment = 16;
    int64_t words = 0;
    for (const ChainInput& input : inputs_)
      words += ((input.moves() ? kColumns : 1) * DTypeSize(input.type.dtype) + 3) / 4;
    while (at_once_ > 1 && (at_once_ * words > 32 || ops.size() > 8)) at_once_ /= 2;
  }

  int64_t parts() const { return parts_; }

  // `result`: an expression of `all`, of type `to`.
  CudaKernel Make(const Type& to, std::string_view result) && {
    text_.out.push_back(to);
    const int64_t own = packs_ * parts_, length = (count_ + parts_ - 1) / parts_;
    text_.blocks = (own + slots_ - 1) / slots_;
    text_.most_elements =
        type_.num_elements() + kColumns * own + (at_once_ + 1) * kThreadsOfColumns * kColumns;
    std::string lines = fmt::format(
        "const Index thread = (Index)threadIdx.x, lane = thread / {0}, slot = thread % {0};\n"
        "const Index own = (Index)blockIdx.x * {0} + slot;\n"
        "{1} sum[{2}];\n#pragma unroll\nfor (int e = 0; e < {2}; ++e) sum[e] = {3};\n",
        slots_, fold_.type, kColumns, fold_.identity);
    std::string inner = fmt::format(
        "const Index first = own / {} * {}, behind = first + {} < {} ? first + {} : {};\n"
        "const Index result = own % {} * {};\n",
        Whole(packs_), Whole(length), Whole(length), Whole(count_), Whole(length), Whole(count_),
        Whole(packs_), kColumns);
    inner += kept_.Places("result") + fmt::format("const Index base = {};\n", kept_.Offset(0, "result"));
    inner += fmt::format("for (Index j = first + lane; j < behind; j += {}) {{\n{}}}\n", at_once_ * lanes_,
                         Indented(Declarations() + ForRows(Loads()) + ForRows(Elements())));
    lines += fmt::format("if (own < {}) {{\n{}}}\n", Whole(own), Indented(inner)) + Joined();
    const DType dtype = to.dtype;
    const std::string each = fmt::format(
        "#pragma unroll\nfor (int e = 0; e < {}; ++e) {{\n  const {} all = sum[e];\n", kColumns, fold_.type);
    const size_t r = stored_.size();
    const std::string stores =
        is_packed_ ? fmt::format("{0} n{1};\n{2}  n{1}.at[e] = {3};\n}}\n*({0}*)(r{1} + own * {4}) = n{1};\n",
                                 PackName(dtype, kColumns), r, each, result, kColumns)
                   : fmt::format("{}  r{}[own * {} + e] = {};\n}}\n", each, r, kColumns, result);
    lines += fmt::format("if (lane == 0 && own < {}) {{\n{}}}\n", Whole(own), Indented(stores));
    text_.body = Indented(lines);
    return Finish(text_);
  }

 private:
  const Type& TypeOf(int op) const { return ops_[static_cast<size_t>(op)].spec->results[0].local; }

  void ChooseParts(bool may_split) {
    int64_t most = 1;
    if (may_split && packs_ * kColumns * count_ >= kFewInColumns)
      most = std::min({kMostParts, count_ / kRowsOfPart, kBlocksOfColumns * kSlots / packs_});
    if (most >= kFewParts) parts_ = most;
    // If there are few threads, use more lanes.
    slots_ = kSlots;
    while (slots_ > kFewestSlots && packs_ * parts_ < slots_ * kBlocksOfColumns / 4) slots_ /= 2;
    const int64_t length = (count_ + parts_ - 1) / parts_;
    while (lanes_ < kThreadsOfColumns / slots_ && 4 * lanes_ <= length) lanes_ *= 2;
    slots_ = kThreadsOfColumns / lanes_;
  }

  bool IsPack(size_t input) const { return !is_packed_ || inputs_[input].moves(); }

  std::string Declarations() const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const DType dtype = inputs_[o].type.dtype;
      lines += fmt::format("{} m{}[{}];\n", IsPack(o) ? PackName(dtype, kColumns) : StoredName(dtype), o,
                           at_once_);
    }
    return lines;
  }
  // For the rows that a thread takes at once; element i is the first of row k.
  std::string ForRows(const std::string& lines) const {
    // Places of two walks in one scope differ in their names.
    std::string places = folded_.Places("k"), offset = folded_.Offset(0, "k");
    for (std::string* text : {&places, &offset}) std::replace(text->begin(), text->end(), 'p', 'q');
    return fmt::format(
        "#pragma unroll\nfor (int u = 0; u < {}; ++u) {{\n  const Index k = j + u * {};\n  if (k < behind) {{\n"
        "{}    const Index i = base + {};\n{}  }}\n}}\n",
        at_once_, lanes_, Indented(Indented(places)), offset, Indented(Indented(lines)));
  }
  std::string ForColumns(const std::string& lines) const {
    return fmt::format("#pragma unroll\nfor (int e = 0; e < {}; ++e) {{\n{}}}\n", kColumns, Indented(lines));
  }
  std::string Loads() const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const std::string to = fmt::format("m{}[u]", o);
      lines += is_packed_ ? inputs_[o].LinesOfLoad(o, "i", to, kColumns)
                          : inputs_[o].LinesOfLoad(o, "(i + e)", to + ".at[e]", 1);
    }
    return is_packed_ ? lines : ForColumns(lines);
  }
  std::string Elements() const {
    std::string lines, before, behind;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const DType dtype = inputs_[o].type.dtype;
      lines += fmt::format("const {} x{} = {};\n", ComputeName(dtype), o,
                           Loaded(dtype, fmt::format("m{}[u]{}", o, IsPack(o) ? ".at[e]" : "")));
    }
    for (size_t i = 0; i < ops_.size(); ++i) lines += LinesOfOp(ops_[i], i, {"i + e", type_.num_elements()});
    for (size_t r = 0; r < stored_.size(); ++r) {
      const DType dtype = TypeOf(stored_[r]).dtype;
      const std::string number = Rounded(dtype, fmt::format("v{}", stored_[r]));
      if (!is_packed_) {
        lines += fmt::format("r{}[i + e] = {};\n", r, number);
        continue;
      }
      before += fmt::format("{} n{};\n", PackName(dtype, kColumns), r);
      lines += fmt::format("n{}.at[e] = {};\n", r, number);
      behind += fmt::format("*({}*)(r{} + i) = n{};\n", PackName(dtype, kColumns), r, r);
    }
    lines += fmt::format("const {0} a = sum[e], b = ({0}){1}{2};\nsum[e] = {3};\n", fold_.type,
                         of_fold_.is_op ? 'v' : 'x', of_fold_.index, fold_.combined);
    return before + ForColumns(lines) + behind;
  }
  // Folds the lanes' values, so that the first lanes have those of their columns.
  std::string Joined() const {
    if (lanes_ == 1) return "";
    const std::string mine = fmt::format("partial[e * {} + thread]", kThreadsOfColumns);
    std::string lines = fmt::format("__shared__ {} partial[{}];\n", fold_.type, kColumns * kThreadsOfColumns);
    lines += ForColumns(mine + " = sum[e];\n") + "__syncthreads();\n";
    lines += fmt::format(
        "for (int half = {}; half > 0; half /= 2) {{\n  if (lane < half) {{\n{}  }}\n  __syncthreads();\n}}\n",
        lanes_ / 2,
        Indented(Indented(ForColumns(fmt::format(
            "const {0} a = sum[e], b = partial[e * {1} + thread + half * {2}];\nsum[e] = {3};\n{4} = sum[e];\n",
            fold_.type, kThreadsOfColumns, slots_, fold_.combined, mine)))));
    return lines;
  }

  const std::span<const CudaChainOp> ops_;  // before the fold
  const CudaChainOperand of_fold_;
  const std::span<const int> stored_;
  const Type type_;
  const Fold fold_;
  std::vector<ChainInput> inputs_;
  const Walk kept_, folded_;
  KernelText text_{.name = {}, .in = {}, .out = {}, .body = {}};
  int64_t packs_ = 0, count_ = 0;  // of all results, and elements of each
  int64_t parts_ = 1;              // of each result
  int64_t slots_ = 1, lanes_ = 1;  // threads of a block side by side, and of a part
  int64_t at_once_ = 8;            // rows
  bool is_packed_ = false;
};

}  // namespace
}  // namespace cuda

bool IsCudaColumnFold(const OpRow& row, const KernelSpec& spec) {
  const std::optional<cuda::Fold> fold = cuda::FoldOf(row, spec);
  if (!fold.has_value() || !fold->dtype.has_value()) return false;
  const Shape& shape = spec.operands[0].local.shape;
  const cuda::Walk kept = cuda::WalkAlong(shape, cuda::ReducedDims(spec), false);
  return spec.operands[0].local.num_elements() > 0 && !kept.dims.empty() &&
         kept.dims.back().strides[0] == 1 && kept.dims.back().size % cuda::kColumns == 0;
}

CudaKernel MakeCudaColumns(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment) {
  const CudaChainOp& last = ops.back();
  const cuda::Fold fold = cuda::FoldOf(*last.row, *last.spec).value();
  const Type &from = last.spec->operands[0].local, &to = last.spec->results[0].local;
  cuda::ColumnsText text(ops, stored, from, cuda::ReducedDims(*last.spec), fold, /*may_split=*/true,
                         alignment);
  const int64_t parts = text.parts();
  if (parts == 1) return std::move(text).Make(to, fold.result);
  const Type scratch{*fold.dtype, {parts, to.num_elements()}};
  CudaKernel first = std::move(text).Make(scratch, "all");
  const CudaChainOp rest{last.row, last.spec, {{false, 0}}};
  constexpr int kFirst[] = {0};
  first.second = std::make_shared<const CudaKernel>(
      cuda::ColumnsText({&rest, 1}, kFirst, scratch, {true, false}, fold, /*may_split=*/false, alignment)
          .Make(to, fold.result));
  first.scratch_bytes = scratch.bytes();
  return first;
}

}  // namespace meshwork
