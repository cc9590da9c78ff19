#include "meshwork/layout/relayout_cost.h"

#include <algorithm>
#include <bit>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The axes of the group of a step on a value laid out as `from`.
AxisList GroupOf(const Layout& from, const RelayoutStep& step) {
  return MovesByLayouts(step.kind) ? MovedAxes(from.dims(), step.result.dims()) : step.axes;
}

// In groups up to this size, the traffic of every device is counted.
constexpr int64_t kMaxCounted = 64;
// In larger groups, the traffic of at most so many devices.
constexpr int64_t kMostLookedAt = 256;

int64_t CommonSize(const Extent& a, const Extent& b) {
  return std::max<int64_t>(0, std::min(a.start + a.size, b.start + b.size) - std::max(a.start, b.start));
}

// Counts what the devices of one group send: the part that each of them has, and the part that each needs, of the
// dims whose axes change.
class ExchangeCounter {
 public:
  ExchangeCounter(const Mesh& mesh, std::span<const AxisList> from, std::span<const AxisList> to,
                  const Shape& shape, const AxisList& moved)
      : group_(mesh, moved) {
    AxisSet kept(moved);  // a device takes from devices with its own coordinates on these axes
    for (size_t d = 0; d < from.size(); ++d) {
      kept = kept.Minus(AxisSet(from[d]));
      if (from[d] != to[d]) changed_.push_back(d);
      else others_ *= BlockSize(mesh, from[d], shape[d]);
    }
    const AxisGroup like(mesh, kept.ToList());
    for (int64_t m = 0; m < group_.size(); ++m) {
      const int64_t device = group_.Member(0, m);
      likes_.push_back(like.RankOf(device));
      for (size_t d : changed_) {
        has_.push_back(ExtentOf(mesh, from[d], shape[d], device));
        needs_.push_back(ExtentOf(mesh, to[d], shape[d], device));
      }
    }
  }

  Traffic Most() const {
    PerMember sent(group_.size(), 0), received(group_.size(), 0);
    const int64_t count = group_.size();
    const auto dims = static_cast<int64_t>(changed_.size());
    const int64_t* likes = likes_.data();
    for (int64_t source = 0; source < count; ++source) {
      const Extent* has = has_.data() + source * dims;
      for (int64_t device = 0; device < count; ++device) {
        if (device == source || likes[device] != likes[source]) continue;
        const Extent* needs = needs_.data() + device * dims;
        int64_t common = 1;
        for (int64_t d = 0; d < dims && common > 0; ++d) common *= CommonSize(has[d], needs[d]);
        sent[source] += common;
        received[device] += common;
      }
    }
    const Traffic most{*std::max_element(sent.begin(), sent.end()),
                       *std::max_element(received.begin(), received.end())};
    return most * others_;
  }

 private:
  using PerMember = absl::InlinedVector<int64_t, 8>;

  const AxisGroup group_;
  absl::InlinedVector<size_t, 4> changed_;
  int64_t others_ = 1;  // elements along the other dims
  PerMember likes_;
  absl::InlinedVector<Extent, 16> has_, needs_;  // per member and changed dim
};

// The elements that one device takes from others, and those that others take from it. They are counted dim by dim,
// without a loop over the other devices.
class DeviceTraffic {
 public:
  DeviceTraffic(const Mesh& mesh, std::span<const AxisList> from, std::span<const AxisList> to,
                const Shape& shape)
      : mesh_(mesh), from_(from), to_(to), shape_(shape) {
    AxisSet cuts_to;
    for (size_t d = 0; d < from.size(); ++d) {
      asking_ = asking_.Union(AxisSet(from[d]));
      cuts_to = cuts_to.Union(AxisSet(to[d]));
    }
    alike_ = mesh.GroupSize(asking_.Minus(cuts_to).ToList());
  }

  Traffic Of(int64_t device) const {
    int64_t needed = 1, own = 1, asked = alike_;
    for (size_t d = 0; d < from_.size(); ++d) {
      const Extent has = ExtentOf(mesh_, from_[d], shape_[d], device);
      const Extent needs = ExtentOf(mesh_, to_[d], shape_[d], device);
      needed *= needs.size;
      own *= CommonSize(has, needs);
      asked *= Asked(d, device, has);
    }
    return {.sent = asked - own, .received = needed - own};
  }

 private:
  // The positions of dim d in `has` that are needed, summed over the devices that differ from `device` only on
  // axes of to_[d] that cut `from`.
  int64_t Asked(size_t d, int64_t device, const Extent& has) const {
    AxisList varying;
    for (int axis : to_[d])
      if (asking_.Contains(axis)) varying.push_back(axis);
    if (varying == to_[d]) return has.size;
    const AxisGroup group(mesh_, varying);
    if (group.size() > kMaxCounted)
      return std::min(has.size, BlockSize(mesh_, to_[d], shape_[d])) * group.size();
    int64_t asked = 0;
    for (int64_t m = 0; m < group.size(); ++m)
      asked += CommonSize(has, ExtentOf(mesh_, to_[d], shape_[d], group.Member(device, m)));
    return asked;
  }

  const Mesh& mesh_;
  std::span<const AxisList> from_, to_;
  const Shape& shape_;
  AxisSet asking_;     // the axes that cut `from`
  int64_t alike_ = 1;  // devices on these axes that need the same
};

}  // namespace

int64_t WireElementsOf(RelayoutKind kind, int64_t before, int64_t after, int64_t n) {
  switch (kind) {
    case RelayoutKind::kReshape:
    case RelayoutKind::kShardSlice: return 0;
    case RelayoutKind::kCollectivePermute: return before;
    case RelayoutKind::kAllReduce: return ShareOfOthers(2 * before, n);
    case RelayoutKind::kAllGather: return ShareOfOthers(after, n);
    case RelayoutKind::kAllToAllV: MESHWORK_CHECK(false, "its layouts say what is sent"); break;
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
    case RelayoutKind::kAllToAll:
    case RelayoutKind::kAllToAllV: break;
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

Traffic AllToAllVTraffic(const Mesh& mesh, std::span<const AxisList> from, std::span<const AxisList> to,
                         const Shape& shape) {
  const AxisList moved = MovedAxes(from, to);
  if (mesh.GroupSize(moved) <= kMaxCounted) return ExchangeCounter(mesh, from, to, shape, moved).Most();
  const DeviceTraffic traffic(mesh, from, to, shape);
  Traffic most;
  for (int64_t device : SomeDevices(mesh, moved, kMostLookedAt)) {
    const Traffic of = traffic.Of(device);
    most = {std::max(most.sent, of.sent), std::max(most.received, of.received)};
  }
  return most;
}

RelayoutCosts::RelayoutCosts(const Mesh& mesh, const Topology& topology, int64_t element_bytes)
    : mesh_(mesh),
      links_(topology.LinksOf(mesh)),
      element_bytes_(static_cast<double>(element_bytes)),
      by_time_(!topology.is_assumed()) {}

double RelayoutCosts::Seconds(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const {
  return axes.empty() ? 0 : InGroup(kind, axes).Seconds(wire_elements);
}

GroupSeconds RelayoutCosts::InGroup(RelayoutKind kind, const AxisList& axes) const {
  Link link = links_[axes[0]];
  for (int axis : axes) link = Slowest(link, links_[axis]);
  return {link, MessagesOf(kind, mesh_.GroupSize(axes)), element_bytes_};
}

RelayoutCost RelayoutCosts::Of(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const {
  const bool is_local = kind == RelayoutKind::kShardSlice || kind == RelayoutKind::kReshape;
  return {by_time_ && !is_local ? Seconds(kind, axes, wire_elements) : 0, wire_elements, is_local ? 0 : 1,
          kind == RelayoutKind::kAllToAllV ? 1 : 0, 1};
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
    const bool is_view = step.kind == RelayoutKind::kReshape;
    peak = std::max(peak, is_view ? after : before + after);
    before = after;
  }
  return peak;
}

}  // namespace meshwork
