// Rows with reductions: softmax, norms, cross-entropies as one kernel (MakeCudaRows).
//
//   softmax f32[512,256]:   stage 0   max of x              a row has 32 threads side by side; a thread has chunks of 4
//                           stage 1   sum of exp(x - max)  elements, every 32nd; it folds its own, in order, then the threads'
//                           stage 2   exp(x - max) / sum   values are folded in halves
//
// Each stage goes over the row once, and computes what it needs of the elements anew. What is read of memory stays in
// registers, or of long rows in shared memory, if it is not too much; otherwise each stage reads it again. All is written in
// the last stage, by the thread that has read the same elements, so that a result may lie where an operand lies.
#include <algorithm>
#include <map>
#include <set>

#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/chain_text.h"
#include "meshwork/kernels/cuda/cuda_kernel.h"
#include "meshwork/kernels/cuda/folds.h"

namespace meshwork {
namespace cuda {
namespace {

constexpr int64_t kThreadsOfRows = 256, kChunk = 4, kWarp = 32;
// A row of so many elements has a block of 512 threads, and larger chunks.
constexpr int64_t kLongRow = 16384, kThreadsOfLongRow = 512, kChunkOfLongRow = 8;
// Words that a thread keeps in registers.
constexpr int64_t kMostKept = 64, kMostKeptOfLongRow = 16;
// What a block keeps in shared memory, at most, so that a multiprocessor of 228 KiB has two: one reads while the other computes.
constexpr int64_t kMostSharedBytes = 112 << 10;
// Chunks that a thread reads at once if it does not keep them in registers.
constexpr int64_t kChunksAtOnce = 4;

// How many threads have a row: a power of two.
int64_t LanesOf(int64_t size) {
  int64_t lanes = 1;
  while (lanes < kWarp && 2 * lanes * kChunk <= size) lanes *= 2;
  if (size >= kLongRow) return kThreadsOfLongRow;
  while (lanes < kThreadsOfRows && 2 * lanes * 2 * kChunk <= size) lanes *= 2;
  return lanes;
}

class RowsText {
 public:
  RowsText(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment,
           int64_t shared_bytes)
      : ops_(ops), stored_(stored), inputs_(InputsOf(ops)), is_wide_input_(inputs_.size(), false) {
    text_.name = ops.size() == 1 ? ops[0].row->name : "rows";
    for (const ChainInput& input : inputs_) text_.in.push_back(input.type);
    for (const int op : stored) text_.out.push_back(TypeOf(op));
    text_.in_place = ops.size() > 1;
    for (const CudaChainOp& op : ops)
      if (const auto rows = CudaRowsOfFold(*op.row, *op.spec)) rows_ = rows->rows, size_ = rows->size;
    lanes_ = LanesOf(size_);
    text_.threads = std::max(lanes_, kThreadsOfRows);
    slots_ = text_.threads / lanes_;
    if (size_ >= kLongRow) chunk_ = kChunkOfLongRow;
    chunks_ = (size_ + lanes_ * chunk_ - 1) / (lanes_ * chunk_);
    for (size_t i = 0; i < ops.size(); ++i) Classify(i);
    // What is one element for each row, or for all, is read once.
    for (size_t o = 0; o < inputs_.size(); ++o) {
      const std::vector<Walk::Dim>& dims = inputs_[o].walk.dims;
      const bool is_one =
          std::all_of(dims.begin(), dims.end(), [](const Walk::Dim& d) { return d.strides[0] == 0; });
      if (!is_wide_input_[o] || !(is_one || IsOfRows(inputs_[o].walk))) continue;
      inputs_[o].walk = Walk::Of({rows_}, std::vector<Shape>{{is_one ? 0 : 1}});
      is_wide_input_[o] = false;
    }
    ChooseLoads(alignment);
    ChooseShared(std::min(shared_bytes, kMostSharedBytes));
  }

  CudaKernel Make() && {
    text_.blocks = (rows_ + slots_ - 1) / slots_;
    text_.most_elements = rows_ * size_ + text_.threads * chunk_;
    std::string body = fmt::format(
        "const Index thread = (Index)threadIdx.x, lane = thread % {0}, own = (Index)blockIdx.x * {1} + thread / {0};\n"
        "{3}",
        lanes_, slots_, Whole(rows_),
        rows_ % slots_ == 0
            ? "const bool is_row = true;\nconst Index row = own;\n"
            : fmt::format("const bool is_row = own < {0};\nconst Index row = is_row ? own : {0} - 1;\n",
                          Whole(rows_)));
    for (size_t o = 0; o < inputs_.size(); ++o)
      if (!is_wide_input_[o]) body += NarrowLoad(o);
    if (is_kept_) body += Declarations(chunks_) + ForChunks("0", chunks_, Loads("k"));
    if (text_.shared_bytes > 0) body += "extern __shared__ Words4 shared[];\n";
    const int last = LastStage();
    bool is_first = true;
    for (int stage = 0; stage <= Stages(); ++stage) {
      for (size_t i = 0; i < ops_.size(); ++i)
        if (kinds_[i] == Kind::kNarrow && stages_[i] == stage) body += LinesOfOp(ops_[i], i, {"row", rows_});
      const std::string lines = Stage(stage, is_first, stage == last);
      is_first = is_first && lines.empty();
      body += lines;
    }
    std::string stores;
    for (size_t r = 0; r < stored_.size(); ++r)
      if (kinds_[static_cast<size_t>(stored_[r])] != Kind::kWide)
        stores += fmt::format("r{}[row] = {};\n", r,
                              Rounded(TypeOf(stored_[r]).dtype, fmt::format("v{}", stored_[r])));
    // Before, threads of other warps may not have read what lies there.
    const bool may_overwrite = text_.in_place && std::find(is_wide_input_.begin(), is_wide_input_.end(),
                                                           false) != is_wide_input_.end();
    if (!stores.empty() && may_overwrite) body += "__syncthreads();\n";
    if (!stores.empty()) body += fmt::format("if (is_row && lane == 0) {{\n{}}}\n", Indented(stores));
    text_.body = Indented(body);
    return Finish(text_);
  }

 private:
  enum class Kind { kWide, kNarrow, kFold };

  const Type& TypeOf(int op) const { return ops_[static_cast<size_t>(op)].spec->results[0].local; }
  bool IsStored(size_t op) const {
    return std::find(stored_.begin(), stored_.end(), static_cast<int>(op)) != stored_.end();
  }
  // The last stage that goes over rows.
  int LastStage() const {
    int last = 0;
    for (size_t i = 0; i < ops_.size(); ++i)
      if (kinds_[i] == Kind::kFold || (kinds_[i] == Kind::kWide && IsStored(i)))
        last = std::max(last, kinds_[i] == Kind::kFold ? stages_[i] - 1 : stages_[i]);
    return last;
  }
  int Stages() const { return *std::max_element(stages_.begin(), stages_.end()); }

  // The stage in which an op is computed; a fold is there for the ops of its stage.
  void Classify(size_t i) {
    const CudaChainOp& op = ops_[i];
    const bool is_fold = !IsCudaElementwise(*op.row);
    const bool is_wide = is_fold || TypeOf(static_cast<int>(i)).num_elements() == rows_ * size_;
    kinds_.push_back(is_fold ? Kind::kFold : is_wide ? Kind::kWide : Kind::kNarrow);
    int stage = 0;
    for (const CudaChainOperand& operand : op.operands) {
      if (operand.is_op) stage = std::max(stage, stages_[static_cast<size_t>(operand.index)]);
      else is_wide_input_[static_cast<size_t>(operand.index)] = is_wide;
    }
    stages_.push_back(stage + (is_fold ? 1 : 0));
  }

  bool IsOfRows(const Walk& walk) const {
    if (walk.dims.empty() || walk.dims.back().strides[0] != 0) return false;
    if (walk.dims.size() == 1) return rows_ == 1;
    return walk.dims.size() == 2 && walk.dims[0].size == rows_ && walk.dims[0].strides[0] == 1;
  }

  // Chunks begin at multiples of 4 elements, so that Packs are aligned if rows are.
  void ChooseLoads(int64_t alignment) {
    int64_t words = 0;
    is_packed_ = alignment >= 16 && size_ % chunk_ == 0;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      if (!is_wide_input_[o]) continue;
      is_packed_ = is_packed_ && inputs_[o].PacksBy(chunk_);
      words += chunks_ * chunk_ * (DTypeSize(inputs_[o].type.dtype) + 3) / 4;
    }
    is_kept_ = chunks_ > 0 && words <= (lanes_ > kThreadsOfRows ? kMostKeptOfLongRow : kMostKept);
    if (is_packed_) text_.alignment = 16;
  }
  // What several stages read of a row that has a block of its own.
  void ChooseShared(int64_t most) {
    if (is_kept_ || LastStage() == 0 || slots_ > 1) return;
    int64_t bytes = 0;
    for (size_t o = 0; o < inputs_.size(); ++o)
      if (is_wide_input_[o] && IsPack(o)) bytes += SharedBytesOf(o);
    int64_t joined = 0;  // see Joined
    for (size_t i = 0; i < ops_.size(); ++i)
      if (kinds_[i] == Kind::kFold)
        joined += text_.threads * std::max<int64_t>(4, DTypeSize(TypeOf(static_cast<int>(i)).dtype));
    if (bytes == 0 || bytes + joined > most) return;
    text_.shared_bytes = bytes;
    text_.blocks_at_once = 2;
  }
  int64_t SharedBytesOf(size_t input) const {
    return chunks_ * lanes_ * chunk_ * DTypeSize(inputs_[input].type.dtype);
  }

  // ---- What is read.

  bool IsPack(size_t input) const { return !is_packed_ || inputs_[input].moves(); }
  std::string NarrowLoad(size_t o) const {
    const DType dtype = inputs_[o].type.dtype;
    return fmt::format("{} y{};\n{}const {} x{} = {};\n", StoredName(dtype), o,
                       inputs_[o].LinesOfLoad(o, "row", fmt::format("y{}", o), 1), ComputeName(dtype), o,
                       Loaded(dtype, fmt::format("y{}", o)));
  }
  std::string Declarations(int64_t count) const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      if (!is_wide_input_[o]) continue;
      const DType dtype = inputs_[o].type.dtype;
      lines +=
          fmt::format("{} m{}[{}];\n", IsPack(o) ? PackName(dtype, chunk_) : StoredName(dtype), o, count);
    }
    return lines;
  }
  // The chunks of shared memory where each thread keeps its own.
  std::string SharedLines(bool stores) const {
    std::string lines;
    int64_t begin = 0;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      if (!is_wide_input_[o] || !IsPack(o)) continue;
      const std::string pack = PackName(inputs_[o].type.dtype, chunk_);
      const std::string at = fmt::format("(({}*)(shared + {}))[k * {} + lane]", pack, begin / 16, lanes_);
      const std::string mine = fmt::format("m{}[k - first]", o);
      lines += stores ? fmt::format("{} = {};\n", at, mine) : fmt::format("{} = {};\n", mine, at);
      begin += SharedBytesOf(o);
    }
    return lines;
  }
  // Of the chunk at `column`, to place `at` of the registers.
  std::string Loads(std::string_view at, bool is_narrow = false) const {
    std::string lines;
    for (size_t o = 0; o < inputs_.size(); ++o) {
      if (!is_wide_input_[o] || (is_narrow && IsPack(o))) continue;
      const std::string to = fmt::format("m{}[{}]", o, at);
      lines += is_packed_ ? inputs_[o].LinesOfLoad(o, "i", to, chunk_)
                          : inputs_[o].LinesOfLoad(o, "(i + e)", to + ".at[e]", 1);
    }
    return is_packed_ ? lines : ForElements(lines);
  }

  // ---- Loops.

  // `count` chunks from number `first` on.
  std::string ForChunks(std::string_view first, int64_t count, const std::string& lines) const {
    return fmt::format(
        "#pragma unroll\nfor (int k = {0}; k < {0} + {1}; ++k) {{\n  const Index column = (lane + k * {2}) * {3};\n"
        "  if (column < {4}) {{\n    const Index i = row * {4} + column;\n{5}  }}\n}}\n",
        first, count, lanes_, chunk_, Whole(size_), Indented(Indented(lines)));
  }
  // All of a thread, some at once, unless registers keep them. `is_first`: no stage before has read them.
  std::string ForAllChunks(const std::string& lines, bool is_first) const {
    if (is_kept_) return ForChunks("0", chunks_, lines);
    const bool is_shared = text_.shared_bytes > 0 && !is_first;
    const int64_t at_once = is_shared ? 1 : kChunksAtOnce;
    const std::string loads =
        is_shared ? SharedLines(false) + Loads("k - first", /*is_narrow=*/true) : Loads("k - first");
    const std::string keeps = text_.shared_bytes > 0 && is_first ? SharedLines(true) : "";
    return fmt::format("for (int first = 0; first < {}; first += {}) {{\n{}}}\n", chunks_, at_once,
                       Indented(Declarations(at_once) + ForChunks("first", at_once, loads) +
                                ForChunks("first", at_once, keeps + lines)));
  }
  std::string ForElements(const std::string& lines) const {
    const bool is_even = size_ % chunk_ == 0;
    return fmt::format(
        "#pragma unroll\nfor (int e = 0; e < {}; ++e) {{\n{}}}\n", chunk_,
        Indented(is_even ? lines
                         : fmt::format("if (column + e < {}) {{\n{}}}\n", Whole(size_), Indented(lines))));
  }

  // ---- Stages.

  // Adds the wide ops and inputs that the number of `operand` follows from.
  void Need(const CudaChainOperand& operand, std::set<size_t>& ops, std::set<size_t>& inputs) const {
    const auto at = static_cast<size_t>(operand.index);
    if (!operand.is_op) {
      if (is_wide_input_[at]) inputs.insert(at);
      return;
    }
    if (kinds_[at] != Kind::kWide || !ops.insert(at).second) return;
    for (const CudaChainOperand& of : ops_[at].operands) Need(of, ops, inputs);
  }

  // In its row, if the op's last dim divides rows.
  ElementPlace PlaceFor(size_t op) const {
    const Shape& shape = TypeOf(static_cast<int>(op)).shape;
    const bool is_in_row = !shape.empty() && size_ % shape.back() == 0;
    return is_in_row ? ElementPlace{"column + e", size_} : ElementPlace{"i + e", rows_ * size_};
  }

  std::string Stage(int stage, bool is_first, bool is_last) const {
    std::vector<size_t> folds, results;
    std::set<size_t> ops, inputs;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (kinds_[i] != Kind::kFold || stages_[i] != stage + 1) continue;
      folds.push_back(i);
      Need(ops_[i].operands[0], ops, inputs);
    }
    for (size_t r = 0; is_last && r < stored_.size(); ++r) {
      if (kinds_[static_cast<size_t>(stored_[r])] != Kind::kWide) continue;
      results.push_back(r);
      Need({true, stored_[r]}, ops, inputs);
    }
    if (folds.empty() && results.empty()) return "";
    const std::string_view at = is_kept_ ? "k" : "k - first";
    std::string of_element;
    for (const size_t o : inputs) {
      const DType dtype = inputs_[o].type.dtype;
      of_element += fmt::format("const {} x{} = {};\n", ComputeName(dtype), o,
                                Loaded(dtype, fmt::format("m{}[{}]{}", o, at, IsPack(o) ? ".at[e]" : "")));
    }
    for (const size_t op : ops) of_element += LinesOfOp(ops_[op], op, PlaceFor(op));
    std::string before, behind, all;
    for (const size_t f : folds) {
      const Fold fold = FoldOf(*ops_[f].row, *ops_[f].spec).value();
      const CudaChainOperand& operand = ops_[f].operands[0];
      all += fmt::format("{} all{} = {};\n", fold.type, f, fold.identity);
      of_element += fmt::format("{{\n  const {0} a = all{1}, b = ({0}){2}{3};\n  all{1} = {4};\n}}\n",
                                fold.type, f, operand.is_op ? 'v' : 'x', operand.index, fold.combined);
    }
    for (const size_t r : results) {
      const DType dtype = TypeOf(stored_[r]).dtype;
      const std::string number = Rounded(dtype, fmt::format("v{}", stored_[r]));
      if (!is_packed_) {
        of_element += fmt::format("if (is_row) r{}[i + e] = {};\n", r, number);
        continue;
      }
      before += fmt::format("{} n{};\n", PackName(dtype, chunk_), r);
      of_element += fmt::format("n{}.at[e] = {};\n", r, number);
      behind += fmt::format("if (is_row) *({0}*)(r{1} + i) = n{1};\n", PackName(dtype, chunk_), r);
    }
    std::string lines = all;
    lines += ForAllChunks(before + ForElements(of_element) + behind, is_first);
    for (const size_t f : folds) lines += Joined(f);
    return lines;
  }

  // Folds the threads' values, so that all have that of their row as v<f>.
  std::string Joined(size_t f) const {
    const Fold fold = FoldOf(*ops_[f].row, *ops_[f].spec).value();
    const DType dtype = TypeOf(static_cast<int>(f)).dtype;
    std::string lines = fmt::format("{} v{};\n{{\n  {} all = all{};\n", ComputeName(dtype), f, fold.type, f);
    if (lanes_ > kWarp) {
      // Each warp folds what the row's threads have put down.
      lines += fmt::format(
          "  __shared__ {0} partial[{1}];\n  partial[thread] = all;\n  __syncthreads();\n"
          "  {0} part[{2}];\n  #pragma unroll\n"
          "  for (int j = 0; j < {2}; ++j) part[j] = partial[thread / {3} * {3} + thread % {4} + j * {4}];\n",
          fold.type, text_.threads, lanes_ / kWarp, lanes_, kWarp);
      for (int64_t half = lanes_ / kWarp / 2; half > 0; half /= 2)
        lines += fmt::format(
            "  #pragma unroll\n  for (int j = 0; j < {0}; ++j) {{\n"
            "    const {1} a = part[j], b = part[j + {0}];\n    part[j] = {2};\n  }}\n",
            half, fold.type, fold.combined);
      lines += "  all = part[0];\n";
    }
    const int64_t in_warp = std::min(lanes_, kWarp);
    if (in_warp > 1)
      lines += fmt::format(
          "  #pragma unroll\n  for (int half = {0}; half > 0; half /= 2) {{\n"
          "    const {1} a = all, b = ({1})__shfl_down_sync(0xffffffffu, all, half);\n    all = {2};\n  }}\n"
          "  all = ({1})__shfl_sync(0xffffffffu, all, (int)(thread % {3} / {4} * {4}));\n",
          in_warp / 2, fold.type, fold.combined, kWarp, in_warp);
    return lines + fmt::format("  v{} = {};\n}}\n", f, Loaded(dtype, fold.result));
  }

  std::span<const CudaChainOp> ops_;
  std::span<const int> stored_;
  std::vector<ChainInput> inputs_;
  std::vector<bool> is_wide_input_;  // has elements of rows; otherwise one for each row
  std::vector<Kind> kinds_;          // per op
  std::vector<int> stages_;
  KernelText text_{.name = {}, .in = {}, .out = {}, .body = {}};
  int64_t rows_ = 0, size_ = 0;
  int64_t chunk_ = kChunk;
  int64_t lanes_ = 1;   // threads of a row
  int64_t slots_ = 1;   // rows of a block
  int64_t chunks_ = 0;  // of a thread
  bool is_packed_ = false, is_kept_ = false;
};

}  // namespace
}  // namespace cuda

std::optional<CudaRowsOf> CudaRowsOfFold(const OpRow& row, const KernelSpec& spec) {
  if (!cuda::FoldOf(row, spec).has_value()) return std::nullopt;
  const Shape& shape = spec.operands[0].local.shape;
  const std::vector<bool> reduces = cuda::ReducedDims(spec);
  CudaRowsOf rows{1, 1};
  bool is_kept = false;
  for (size_t d = shape.size(); d-- > 0;) {
    if (reduces[d] && is_kept && shape[d] != 1) return std::nullopt;
    is_kept = is_kept || (!reduces[d] && shape[d] != 1);
    (reduces[d] ? rows.size : rows.rows) *= shape[d];
  }
  return cuda::SplitsOf(rows.rows, rows.size, /*is_run=*/true) == 1 ? std::optional(rows) : std::nullopt;
}

CudaKernel MakeCudaRows(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment,
                        int64_t shared_bytes) {
  return cuda::RowsText(ops, stored, alignment, shared_bytes).Make();
}

}  // namespace meshwork
