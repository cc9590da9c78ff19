#include "layout/relayout_cost.h"

#include <algorithm>
#include <bit>

namespace meshwork {
namespace {

// The axes of a step's group; for a permute those along which it moves blocks of a value laid out as `from`.
AxisList GroupOf(const Layout& from, const RelayoutStep& step) {
  return step.kind == RelayoutKind::kCollectivePermute ? MovedAxes(from.dims(), step.result.dims())
                                                       : step.axes;
}

}  // namespace

int64_t WireElementsOf(RelayoutKind kind, int64_t before, int64_t after, int64_t n) {
  switch (kind) {
    case RelayoutKind::kReshape:
    case RelayoutKind::kShardSlice: return 0;
    case RelayoutKind::kCollectivePermute: return before;
    case RelayoutKind::kAllReduce: return ShareOfOthers(2 * before, n);
    case RelayoutKind::kAllGather: return ShareOfOthers(after, n);
    case RelayoutKind::kReduceScatter:
    case RelayoutKind::kAllToAll: break;
  }
  return ShareOfOthers(before, n);
}

int64_t MessagesOf(RelayoutKind kind, int64_t n) {
  const int64_t depth = std::bit_width(static_cast<uint64_t>(n - 1));  // ⌈log2 n⌉
  switch (kind) {
    case RelayoutKind::kReshape:
    case RelayoutKind::kShardSlice: return 0;
    case RelayoutKind::kCollectivePermute: return 1;
    case RelayoutKind::kAllReduce: return 2 * depth;
    case RelayoutKind::kAllGather:
    case RelayoutKind::kReduceScatter: return depth;
    case RelayoutKind::kAllToAll: break;
  }
  return n - 1;
}

AxisList MovedAxes(std::span<const AxisList> from, std::span<const AxisList> to) {
  AxisSet moved;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    moved = moved.Union(AxisSet(from[d])).Union(AxisSet(to[d]));
  }
  return moved.ToList();
}

RelayoutCosts::RelayoutCosts(const Mesh& mesh, const Topology& topology, int64_t element_bytes)
    : mesh_(mesh),
      links_(topology.LinksOf(mesh)),
      element_bytes_(static_cast<double>(element_bytes)),
      by_time_(!topology.is_assumed()) {}

double RelayoutCosts::Seconds(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const {
  if (axes.empty()) return 0;
  Link link = links_[axes[0]];
  for (int axis : axes) link = Slowest(link, links_[axis]);
  return link.Seconds(MessagesOf(kind, mesh_.GroupSize(axes)),
                      static_cast<double>(wire_elements) * element_bytes_);
}

RelayoutCost RelayoutCosts::Of(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const {
  const bool is_local = kind == RelayoutKind::kShardSlice || kind == RelayoutKind::kReshape;
  return {by_time_ && !is_local ? Seconds(kind, axes, wire_elements) : 0, wire_elements, is_local ? 0 : 1, 1};
}

RelayoutCost RelayoutCosts::Of(const Layout& from, const std::vector<RelayoutStep>& steps) const {
  RelayoutCost sum;
  const Layout* at = &from;
  for (const RelayoutStep& step : steps) {
    sum = sum + Of(step.kind, GroupOf(*at, step), step.wire_elements);
    at = &step.result;
  }
  return sum;
}

double RelayoutCosts::Seconds(const Layout& from, const std::vector<RelayoutStep>& steps) const {
  double sum = 0;
  const Layout* at = &from;
  for (const RelayoutStep& step : steps) {
    sum += Seconds(step.kind, GroupOf(*at, step), step.wire_elements);
    at = &step.result;
  }
  return sum;
}

int64_t PeakOf(const Layout& from, const std::vector<RelayoutStep>& steps, const Shape& shape) {
  int64_t before = NumElements(from.LocalShape(shape)), peak = before;
  for (const RelayoutStep& step : steps) {
    const int64_t after = NumElements(step.result.LocalShape(step.shape));
    peak = std::max(peak, before + after);
    before = after;
  }
  return peak;
}

}  // namespace meshwork
