// Rows with reductions: softmax, norms, cross-entropies as one kernel (MakeCudaRows).
//
//   softmax f32[512,256]:   stage 0   max of x              a row has 32 threads side by side; a thread has chunks of 4
//                           stage 1   sum of exp(x - max)  elements, every 32nd; it folds its own, in order, then the threads'
//                           stage 2   exp(x - max) / sum   values are folded in halves
//
// Each stage goes over the row once, and recomputes the values of elements that it needs. Elements that were read from
// memory stay in registers, or in shared memory if a row has a block of its own, unless there are too many; otherwise
// each stage reads them again. Results are written in the last stage, each element by the thread that has read the same
// elements, so that a result may lie where an operand lies.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/folds.h"
#include "meshwork/ops/kernels/cuda/rows_chunks.h"
#include "meshwork/ops/kernels/cuda/rows_plan.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork {
namespace cuda {
namespace {

class RowsText {
 public:
  explicit RowsText(RowsPlan plan) : plan_(std::move(plan)) {}

  CudaKernel Make() const {
    KernelText text = plan_.text;
    text.blocks = (plan_.rows + plan_.slots - 1) / plan_.slots;
    text.most_elements = plan_.rows * plan_.size + plan_.text.threads * plan_.chunk;
    std::string body = fmt::format(
        "const Index thread = (Index)threadIdx.x, lane = thread % {0}, own = (Index)blockIdx.x * {1} + thread / {0};\n"
        "{3}",
        plan_.lanes, plan_.slots, Whole(plan_.rows),
        plan_.rows % plan_.slots == 0
            ? "const bool is_row = true;\nconst Index row = own;\n"
            : fmt::format("const bool is_row = own < {0};\nconst Index row = is_row ? own : {0} - 1;\n",
                          Whole(plan_.rows)));
    for (size_t o = 0; o < plan_.inputs.size(); ++o)
      if (!plan_.is_wide_input[o]) body += chunks_.NarrowLoad(o);
    if (plan_.is_kept) body += chunks_.KeptLoads();
    if (plan_.text.shared_bytes > 0) body += "extern __shared__ Words4 shared[];\n";
    const int last = plan_.LastStage();
    bool is_first = true;
    for (int stage = 0; stage <= plan_.Stages(); ++stage) {
      for (size_t i = 0; i < plan_.ops.size(); ++i)
        if (plan_.kinds[i] == RowsPlan::Kind::kNarrow && plan_.stages[i] == stage)
          body += LinesOfOp(plan_.ops[i], i, {"row", plan_.rows});
      const std::string lines = Stage(stage, is_first, stage == last);
      is_first = is_first && lines.empty();
      body += lines;
    }
    std::string stores;
    for (size_t r = 0; r < plan_.stored.size(); ++r)
      if (plan_.kinds[static_cast<size_t>(plan_.stored[r])] != RowsPlan::Kind::kWide)
        stores +=
            fmt::format("r{}[row] = {};\n", r,
                        Rounded(plan_.TypeOf(plan_.stored[r]).dtype, fmt::format("v{}", plan_.stored[r])));
    // Before the barrier, threads of other warps may not have read the elements that are written over.
    const bool may_overwrite =
        plan_.text.in_place &&
        std::find(plan_.is_wide_input.begin(), plan_.is_wide_input.end(), false) != plan_.is_wide_input.end();
    if (!stores.empty() && may_overwrite) body += "__syncthreads();\n";
    if (!stores.empty()) body += fmt::format("if (is_row && lane == 0) {{\n{}}}\n", Indented(stores));
    text.body = Indented(body);
    return Finish(text);
  }

 private:
  // Adds the wide ops and inputs that the number of `operand` follows from.
  void Need(const CudaChainOperand& operand, std::set<size_t>& ops, std::set<size_t>& inputs) const {
    const auto at = static_cast<size_t>(operand.index);
    if (!operand.is_op) {
      if (plan_.is_wide_input[at]) inputs.insert(at);
      return;
    }
    if (plan_.kinds[at] != RowsPlan::Kind::kWide || !ops.insert(at).second) return;
    for (const CudaChainOperand& of : plan_.ops[at].operands) Need(of, ops, inputs);
  }

  // In its row, if the op's last dim divides rows.
  ElementPlace PlaceFor(size_t op) const {
    const Shape& shape = plan_.TypeOf(static_cast<int>(op)).shape;
    const bool is_in_row = !shape.empty() && plan_.size % shape.back() == 0;
    return is_in_row ? ElementPlace{"column + e", plan_.size}
                     : ElementPlace{"i + e", plan_.rows * plan_.size};
  }

  std::string Stage(int stage, bool is_first, bool is_last) const {
    std::vector<size_t> folds, results;
    std::set<size_t> ops, inputs;
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      if (plan_.kinds[i] != RowsPlan::Kind::kFold || plan_.stages[i] != stage + 1) continue;
      folds.push_back(i);
      Need(plan_.ops[i].operands[0], ops, inputs);
    }
    for (size_t r = 0; is_last && r < plan_.stored.size(); ++r) {
      if (plan_.kinds[static_cast<size_t>(plan_.stored[r])] != RowsPlan::Kind::kWide) continue;
      results.push_back(r);
      Need({true, plan_.stored[r]}, ops, inputs);
    }
    if (folds.empty() && results.empty()) return "";
    std::string of_element;
    for (const size_t o : inputs) {
      const DType dtype = plan_.inputs[o].type.dtype;
      of_element += fmt::format(
          "const {} x{} = {};\n", ComputeName(dtype), o,
          Loaded(dtype, fmt::format("m{}[{}]{}", o, chunks_.At(), plan_.IsPack(o) ? ".at[e]" : "")));
    }
    for (const size_t op : ops) of_element += LinesOfOp(plan_.ops[op], op, PlaceFor(op));
    std::string before, behind, all;
    for (const size_t f : folds) {
      const Fold fold = FoldOf(*plan_.ops[f].row, *plan_.ops[f].spec).value();
      const CudaChainOperand& operand = plan_.ops[f].operands[0];
      all += fmt::format("{} all{} = {};\n", fold.type, f, fold.identity);
      of_element += fmt::format("{{\n  const {0} a = all{1}, b = ({0}){2}{3};\n  all{1} = {4};\n}}\n",
                                fold.type, f, operand.is_op ? 'v' : 'x', operand.index, fold.combined);
    }
    for (const size_t r : results) {
      const DType dtype = plan_.TypeOf(plan_.stored[r]).dtype;
      const std::string number = Rounded(dtype, fmt::format("v{}", plan_.stored[r]));
      if (!plan_.is_packed) {
        of_element += fmt::format("if (is_row) r{}[i + e] = {};\n", r, number);
        continue;
      }
      before += fmt::format("{} n{};\n", PackName(dtype, plan_.chunk), r);
      of_element += fmt::format("n{}.at[e] = {};\n", r, number);
      behind += fmt::format("if (is_row) *({0}*)(r{1} + i) = n{1};\n", PackName(dtype, plan_.chunk), r);
    }
    std::string lines = all;
    lines += chunks_.ForAllChunks(before + chunks_.ForElements(of_element) + behind, is_first);
    for (const size_t f : folds) lines += Joined(f);
    return lines;
  }

  // Folds the threads' values, so that all threads have the value of their row as v<f>.
  std::string Joined(size_t f) const {
    const Fold fold = FoldOf(*plan_.ops[f].row, *plan_.ops[f].spec).value();
    const DType dtype = plan_.TypeOf(static_cast<int>(f)).dtype;
    std::string lines = fmt::format("{} v{};\n{{\n  {} all = all{};\n", ComputeName(dtype), f, fold.type, f);
    if (plan_.lanes > RowsPlan::kWarp) {
      // Each warp folds what the row's threads have put down.
      lines += fmt::format(
          "  __shared__ {0} partial[{1}];\n  partial[thread] = all;\n  __syncthreads();\n"
          "  {0} part[{2}];\n  #pragma unroll\n"
          "  for (int j = 0; j < {2}; ++j) part[j] = partial[thread / {3} * {3} + thread % {4} + j * {4}];\n",
          fold.type, plan_.text.threads, plan_.lanes / RowsPlan::kWarp, plan_.lanes, RowsPlan::kWarp);
      for (int64_t half = plan_.lanes / RowsPlan::kWarp / 2; half > 0; half /= 2)
        lines += fmt::format(
            "  #pragma unroll\n  for (int j = 0; j < {0}; ++j) {{\n"
            "    const {1} a = part[j], b = part[j + {0}];\n    part[j] = {2};\n  }}\n",
            half, fold.type, fold.combined);
      lines += "  all = part[0];\n";
    }
    const int64_t in_warp = std::min(plan_.lanes, RowsPlan::kWarp);
    if (in_warp > 1)
      lines += fmt::format(
          "  #pragma unroll\n  for (int half = {0}; half > 0; half /= 2) {{\n"
          "    const {1} a = all, b = ({1})__shfl_down_sync(0xffffffffu, all, half);\n    all = {2};\n  }}\n"
          "  all = ({1})__shfl_sync(0xffffffffu, all, (int)(thread % {3} / {4} * {4}));\n",
          in_warp / 2, fold.type, fold.combined, RowsPlan::kWarp, in_warp);
    return lines + fmt::format("  v{} = {};\n}}\n", f, Loaded(dtype, fold.result));
  }

  const RowsPlan plan_;
  const RowsChunks chunks_{plan_};
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
  return cuda::RowsText(cuda::RowsPlan(ops, stored, alignment, shared_bytes)).Make();
}

}  // namespace meshwork
