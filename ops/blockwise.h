// Ops that run along a sharded dim block by block: cumsum, argmax and top_k carry summaries between the
// blocks; in attention, blocks go round or results are merged (ops/ring_attention.h). A row writes this form
// in terms of other rows (OpRow::blockwise): a dim of n elements that is cut into `count` blocks becomes
// [count, size], and the blocks are sharded as the dim was. Only one summary per block is gathered.
//
//   cumsum of [n]: c = cumsum of each block; t = the sum of each block, gathered; c + exclusive cumsum of t
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

// The dim of an op that is cut, its blocks, and their sharding.
class Blocks {
 public:
  // x: [a,n,b] at dim -> blocks of it.
  Blocks(const BlockwiseView& view, const Value& x, int64_t dim);

  int64_t count() const { return count_; }
  int64_t size() const { return size_; }  // ⌈n / count⌉
  // Whether Split can fill the elements beyond n with the least or the largest element of `dtype`: the
  // largest i64 has no exact double, and so no attribute.
  bool CanFill(DType dtype, bool largest) const { return dtype != I64 || !largest || count_ * size_ == n_; }
  // x: [a,n,b] -> [a,count,size,b], sharded along count; the elements beyond n are `fill`.
  Value Split(const Value& x, double fill) const;
  // The inverse, without the elements beyond n.
  Value Join(const Value& x) const;
  // summaries: [a,count,..] -> the same, whole on every device.
  Value Gathered(const Value& summaries) const;
  // The same, sharded along count again.
  Value Scattered(const Value& summaries) const;
  // The index in the dim at which each block starts, for summaries of `shape`, as i32.
  Value Starts(const Value& summaries) const;

 private:
  LayoutSpec Spec(const Value& x, const DimSpec& cut) const;

  Graph* graph_;
  int64_t dim_, n_, count_, size_;
  DimSpec cut_;
};

// The least and the largest element of a dtype of numbers; infinite where there is infinity.
double LowestOf(DType dtype);
double HighestOf(DType dtype);

// Appends the blockwise form of `node` on these values, which have the layouts `layouts`; returns the values
// that stand for the node's results. Empty if the form would not send or hold less. Without `layouts`,
// appends every form that the node may have, and returns their results one form after the other. REQUIRES:
// the node has a blockwise form.
std::vector<Value> AddBlockwise(const Node& node, std::span<const Value> operands, int64_t count,
                                const DimSpec& cut, std::span<const Layout> layouts = {});

// Whether some op of the program has a blockwise form.
bool HasBlockwise(const Graph& graph);

// The dim of an operand of the node along which it has a blockwise form.
std::optional<OperandDim> BlockwiseAt(const Graph& graph, const Node& node);

}  // namespace meshwork
