#include "meshwork/ops/blockwise.h"

#include <algorithm>
#include <limits>

#include "meshwork/base/status.h"

namespace meshwork {

Blocks::Blocks(const BlockwiseView& view, const Value& x, int64_t dim)
    : graph_(x.graph()),
      dim_(dim),
      n_(x.shape()[dim]),
      count_(view.count),
      size_((n_ + count_ - 1) / count_),
      cut_(view.cut) {}

LayoutSpec Blocks::Spec(const Value& x, const DimSpec& cut) const {
  LayoutSpec spec(static_cast<size_t>(x.rank()), MATCH);
  spec[static_cast<size_t>(dim_)] = cut;
  return spec;
}

Value Blocks::Split(const Value& x, double fill) const {
  const int64_t padding = count_ * size_ - n_;
  std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
  high[static_cast<size_t>(dim_)] = padding;
  Shape shape = x.shape();
  shape[dim_] = count_;
  shape.insert(shape.begin() + dim_ + 1, size_);
  const Value blocks = Reshape(padding == 0 ? x : Pad(x, low, high, fill), shape);
  LayoutSpec spec = Spec(blocks, cut_);
  spec[static_cast<size_t>(dim_) + 1] = UNSHARDED;
  return Relayout(blocks, spec);
}

Value Blocks::Join(const Value& x) const {
  Shape shape = x.shape();
  shape[dim_] *= shape[dim_ + 1];
  shape.erase(shape.begin() + dim_ + 1);
  const Value joined = Reshape(x, shape);
  return shape[dim_] == n_ ? joined : SliceDim(joined, dim_, 0, n_);
}

Value Blocks::Gathered(const Value& summaries) const {
  return Relayout(summaries, Spec(summaries, UNSHARDED));
}
Value Blocks::Scattered(const Value& summaries) const { return Relayout(summaries, Spec(summaries, cut_)); }

Value Blocks::Starts(const Value& summaries) const {
  return Mul(Iota(*graph_, {I32, summaries.shape()}, dim_), static_cast<double>(size_));
}

double LowestOf(DType dtype) {
  if (IsFloat(dtype)) return -std::numeric_limits<double>::infinity();
  return dtype == I32 ? static_cast<double>(std::numeric_limits<int32_t>::min())
                      : static_cast<double>(std::numeric_limits<int64_t>::min());
}

double HighestOf(DType dtype) {
  if (IsFloat(dtype)) return std::numeric_limits<double>::infinity();
  return dtype == I32 ? static_cast<double>(std::numeric_limits<int32_t>::max()) : 0;
}

bool HasBlockwise(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return BlockwiseAt(graph, node).has_value(); });
}

std::vector<Value> AddBlockwise(const Node& node, std::span<const Value> operands, int64_t count,
                                const DimSpec& cut, std::span<const Layout> layouts) {
  // Blocks of one size may need padding beyond what a tensor may have.
  for (const Value& x : operands)
    for (size_t d = 0; d < x.shape().size(); ++d) {
      Type padded = x.type();
      padded.shape[d] = (padded.shape[d] + count - 1) / count * count;
      if (!CheckSize(padded).ok()) return {};
    }
  const LocationScope scope(*operands[0].graph(), node.location);
  return node.row->blockwise({operands, node.attrs, count, cut, layouts});
}

std::optional<OperandDim> BlockwiseAt(const Graph& graph, const Node& node) {
  if (node.row->blockwise == nullptr) return std::nullopt;
  if (node.row->blockwise_at != nullptr) return node.row->blockwise_at(node.attrs);
  const Rule rule = RuleOf(graph, node);
  for (size_t d = 0; d < rule.operands[0].size(); ++d)
    if (rule.operands[0][d] != kNoLetter && rule.letters[rule.operands[0][d]].carried)
      return OperandDim{.operand = 0, .dim = static_cast<int>(d)};
  return std::nullopt;
}

}  // namespace meshwork
