#include "meshwork/spmd/rewrite/carry_summaries.h"

#include <optional>

#include "fmt/format.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/values.h"
#include "meshwork/ops/blockwise.h"

namespace meshwork {
namespace {

// Whether the dim of a tensor of `operand` is one of `result`, too.
bool HasDim(const Shape& result, const Shape& operand, int dim) {
  return result.size() == operand.size() && result[dim] == operand[dim];
}

// Summaries [a,count,b], one per block, are gathered for a result of [a,b]. If the result lies in blocks over
// axes that cut the dim, each device gets only the summaries of its own block. `first`: the first node of the
// form.
void GatherForBlocks(int first, int dim, const AxisList& cut, const ValueInfo& result, Graph& to) {
  for (int n = first; n < static_cast<int>(to.nodes().size()); ++n) {
    const Node& node = to.nodes()[n];
    if (node.row->name != "relayout") continue;
    const Shape& summaries = to.value(node.results[0]).type.shape;
    LayoutPin pin = node.attrs.Get<LayoutPin>("layout");
    const bool gathers = pin.Has(DimMode::kMatch) && pin.mode(dim) == DimMode::kLocked &&
                         pin.layout.dim(dim).empty() && pin.layout.rank() == result.type.rank() + 1;
    for (int r = 0; gathers && r < result.type.rank(); ++r) {
      const int d = r < dim ? r : r + 1;
      if (summaries[d] != result.type.shape[r] || result.layout->IsStrided(r) ||
          !AxisSet(result.layout->dim(r)).Intersects(AxisSet(cut)))
        continue;
      pin.layout = pin.layout.WithDim(d, result.layout->dim(r));
      pin.modes[d] = DimMode::kLocked;
    }
    to.mutable_node(n).attrs.Set("layout", std::move(pin));
  }
}

// The blockwise form of the node on mapped operands; empty if it stays as it is.
std::vector<Value> Expand(const Graph& pinned, const Graph& propagated, const Node& node,
                          Rewriter& rewriter) {
  const std::optional<OperandDim> at = BlockwiseAt(pinned, node);
  if (!at.has_value()) return {};
  std::vector<Layout> layouts;
  for (ValueId id : node.operands) layouts.push_back(*propagated.value(id).layout);
  const Layout& layout = layouts[static_cast<size_t>(at->operand)];
  if (layout.IsStrided(at->dim) || layout.NumShards(at->dim) < 2) return {};
  const auto first = static_cast<int>(rewriter.to().nodes().size());
  const std::vector<Value> results =
      AddBlockwise(node, ValuesOf(rewriter.to(), rewriter.Map(node.operands)), layout.NumShards(at->dim),
                   SpecOf(layout)[static_cast<size_t>(at->dim)], layouts);
  const ValueInfo& result = propagated.value(node.results[0]);
  const Shape& shape = propagated.value(node.operands[static_cast<size_t>(at->operand)]).type.shape;
  if (!results.empty() && node.row->blockwise_at == nullptr && !HasDim(result.type.shape, shape, at->dim))
    GatherForBlocks(first, at->dim, layout.dim(at->dim), result, rewriter.to());
  return results;
}

// "runs on blocks of dim 0 and gathers what each amounts to".
std::string Decision(const OpRow& row, const OperandDim& at) {
  if (row.blockwise_at == nullptr)
    return fmt::format("runs on blocks of dim {} and gathers what each amounts to", at.dim);
  return fmt::format("runs on blocks of dim {} of operand {}, which are not gathered", at.dim, at.operand);
}

// Gives the value that stands for a result what the user says of the result: its name, its pin and its mark.
void Stand(const ValueInfo& for_result, ValueInfo& value) {
  value.name = for_result.name;
  value.layout = for_result.layout;
  value.modes = for_result.modes;
  value.gather = for_result.gather;
}

}  // namespace

std::optional<CarriedSummaries> CarrySummaries(const Graph& pinned, const Graph& propagated) {
  if (!HasBlockwise(pinned)) return std::nullopt;
  Rewriter rewriter(pinned);
  std::vector<std::string> decisions;
  for (const Node& node : pinned.nodes()) {
    const std::vector<Value> results = Expand(pinned, propagated, node, rewriter);
    if (results.empty()) {
      rewriter.Copy(node);
      continue;
    }
    for (size_t r = 0; r < results.size(); ++r) {
      Stand(pinned.value(node.results[r]), rewriter.to().mutable_value(results[r].id()));
      rewriter.Set(node.results[r], results[r].id());
    }
    decisions.push_back(fmt::format("{}: {}", pinned.Describe(node.row->name, node.location),
                                    Decision(*node.row, *BlockwiseAt(pinned, node))));
  }
  if (decisions.empty()) return std::nullopt;
  return CarriedSummaries{std::move(rewriter).Finish(), std::move(decisions)};
}

}  // namespace meshwork
