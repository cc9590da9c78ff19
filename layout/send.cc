#include "meshwork/layout/send.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/layout/plain_parts.h"

namespace meshwork {
namespace {

// If a piece has more bytes than this, all processes that hold it send a share.
constexpr int64_t kLargeBytes = int64_t{1} << 18;

// A block of a layout, by its number along each dim of the tensor.
using BlockNumbers = absl::InlinedVector<int64_t, 4>;

// How a layout cuts a tensor, dim by dim. The blocks along a dim are numbered by the coordinates on its axes.
class Cuts {
 public:
  Cuts(const Layout& layout, const Shape& shape) : layout_(layout), shape_(shape) {
    for (int d = 0; d < layout.rank(); ++d) {
      AxisList axes;
      for (const Factor& factor : layout.Factors(d, shape[static_cast<size_t>(d)]))
        axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
      axes_.push_back(axes);
      groups_.emplace_back(layout.mesh(), axes);
    }
  }

  // The block that a device holds.
  BlockNumbers NumbersOf(int64_t device) const {
    BlockNumbers numbers;
    for (const AxisGroup& group : groups_) numbers.push_back(group.RankOf(device));
    return numbers;
  }
  // The lowest device that holds a block.
  int64_t DeviceOf(const BlockNumbers& numbers) const {
    int64_t device = 0;
    for (size_t d = 0; d < groups_.size(); ++d) device = groups_[d].Member(device, numbers[d]);
    return device;
  }
  // The lowest device of a domain that holds the same block as `device`; -1: none does.
  int64_t DeviceIn(const Placement& placement, int64_t domain, int64_t device) const {
    int64_t found = placement.FirstDevice(domain);
    const Mesh& mesh = placement.mesh();
    for (const AxisList& axes : axes_) {
      for (int axis : axes) {
        const int64_t steps = mesh.CoordinateOn(axis, device) - mesh.CoordinateOn(axis, found);
        if (steps != 0 && placement.across().Contains(axis)) return -1;
        found += steps * mesh.stride(axis);
      }
    }
    return found;
  }

  // The intervals of dim d, ascending, with the number of the block of each.
  std::vector<std::pair<Extent, int64_t>> Intervals(int d) const {
    const FactorList factors = layout_.Factors(d, shape_[static_cast<size_t>(d)]);
    size_t first = 0;  // of the dim's factors among all
    for (int before = 0; before < d; ++before)
      first += layout_.Factors(before, shape_[static_cast<size_t>(before)]).size();
    std::vector<std::pair<Extent, int64_t>> intervals;
    const AxisGroup& group = groups_[static_cast<size_t>(d)];
    for (int64_t number = 0; number < group.size(); ++number) {
      const Block block = layout_.BlockOf(shape_, group.Member(0, number));
      const Block extents(block.begin() + static_cast<int64_t>(first),
                          block.begin() + static_cast<int64_t>(first + factors.size()));
      for (const DimPart& part : DimParts(factors, extents)) intervals.emplace_back(part.interval, number);
    }
    std::sort(intervals.begin(), intervals.end(),
              [](const auto& a, const auto& b) { return a.first.start < b.first.start; });
    return intervals;
  }

 private:
  const Layout& layout_;
  const Shape& shape_;
  std::vector<AxisList> axes_;     // per dim of the tensor
  std::vector<AxisGroup> groups_;  // of these axes
};

// An interval of a dim that lies in one block before.
struct Segment {
  Extent extent;
  int64_t from = 0;  // the number of that block
};

// Per dim, and per block that the new layout cuts it into: the segments of the block. Both layouts cut a dim into
// intervals; the segments are the intersections of an old and a new interval.
using Segments = std::vector<std::map<int64_t, std::vector<Segment>>>;

Segments SegmentsOf(const Cuts& from, const Cuts& to, size_t rank) {
  Segments segments(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto before = from.Intervals(static_cast<int>(d)), after = to.Intervals(static_cast<int>(d));
    for (size_t b = 0, a = 0; b < before.size() && a < after.size();) {
      const auto& [old_extent, old_number] = before[b];
      const auto& [extent, number] = after[a];
      const Extent common = Intersect({old_extent}, {extent})[0];
      if (common.size > 0) segments[d][number].push_back({common, old_number});
      const int64_t old_end = old_extent.start + old_extent.size, end = extent.start + extent.size;
      if (old_end <= end) ++b;
      if (end <= old_end) ++a;
    }
  }
  return segments;
}

// Plans the pieces of one tensor.
class SendPlanner {
 public:
  SendPlanner(const Shape& shape, int64_t element_bytes, const SendSide& from, const SendSide& to,
              SentBytes& sent)
      : shape_(shape),
        element_bytes_(element_bytes),
        from_(from),
        to_(to),
        sent_(sent),
        from_cuts_(from.layout, shape),
        to_cuts_(to.layout, shape),
        segments_(SegmentsOf(from_cuts_, to_cuts_, shape.size())) {
    for (int64_t domain = 0; domain < from.placement.num_domains(); ++domain)
      if (from.ProcessOfDomain(domain) != SendSide::kLost)
        domains_of_[from.ProcessOfDomain(domain)].push_back(domain);
  }

  SendPlan Plan() {
    AxisSet within = to_.layout.ShardedAxes();
    for (int axis : to_.placement.across().ToList()) within.Remove(axis);
    const AxisGroup blocks(to_.layout.mesh(), within.ToList());
    std::vector<int64_t> devices;
    for (int64_t domain = 0; domain < to_.placement.num_domains(); ++domain)
      for (int64_t b = 0; b < blocks.size(); ++b)
        devices.push_back(blocks.Member(to_.placement.FirstDevice(domain), b));
    std::sort(devices.begin(), devices.end());
    for (int64_t device : devices) PlanBlock(device);
    return std::move(plan_);
  }

 private:
  // The pieces that make up the block of `device`: each combination of a segment of every dim.
  void PlanBlock(int64_t device) {
    const BlockNumbers numbers = to_cuts_.NumbersOf(device);
    std::vector<const std::vector<Segment>*> dims;
    for (size_t d = 0; d < shape_.size(); ++d) {
      const auto found = segments_[d].find(numbers[d]);
      if (found == segments_[d].end()) return;  // the block is empty
      dims.push_back(&found->second);
    }
    absl::InlinedVector<size_t, 4> at(shape_.size(), 0);
    while (true) {
      Block box;
      BlockNumbers from;
      for (size_t d = 0; d < at.size(); ++d) {
        const Segment& segment = (*dims[d])[at[d]];
        box.push_back(segment.extent);
        from.push_back(segment.from);
      }
      PlanBox(device, box, from);
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == dims[d - 1]->size()) at[--d] = 0;
      if (d == 0) return;
    }
  }

  void PlanBox(int64_t device, const Block& box, const BlockNumbers& from) {
    const int64_t holder = from_cuts_.DeviceOf(from);
    const auto own = domains_of_.find(to_.ProcessOf(device));
    if (own != domains_of_.end()) {
      for (int64_t domain : own->second) {
        const int64_t here = from_cuts_.DeviceIn(from_.placement, domain, holder);
        if (here < 0) continue;
        plan_.pieces.push_back({here, device, box});
        return;
      }
    }
    const std::vector<int64_t>& holders = HoldersOf(from, holder);
    if (holders.empty()) return;
    const int64_t bytes = NumElements(box) * element_bytes_, shares = std::ssize(holders);
    if (shares == 1 || bytes <= kLargeBytes) return Send(device, box, holders);
    for (const Block& share : CutInto(box, shares))
      if (NumElements(share) > 0) Send(device, share, holders);
  }

  // Sends `box` to `device` from the holder whose process has sent least. `holders`: devices.
  void Send(int64_t device, const Block& box, const std::vector<int64_t>& holders) {
    const int64_t least = *std::min_element(holders.begin(), holders.end(), [&](int64_t a, int64_t b) {
      return sent_[from_.ProcessOf(a)] < sent_[from_.ProcessOf(b)];
    });
    sent_[from_.ProcessOf(least)] += NumElements(box) * element_bytes_;
    plan_.pieces.push_back({least, device, box});
  }

  // One device of each process that has the block. If there is none, notes that the block is lost.
  const std::vector<int64_t>& HoldersOf(const BlockNumbers& from, int64_t holder) {
    const auto [found, is_new] = holders_.emplace(from, std::vector<int64_t>());
    if (!is_new) return found->second;
    for (const auto& [process, domains] : domains_of_) {
      for (int64_t domain : domains) {
        const int64_t device = from_cuts_.DeviceIn(from_.placement, domain, holder);
        if (device < 0) continue;
        found->second.push_back(device);
        break;
      }
    }
    if (found->second.empty())
      for (PlainPart& part : PlainParts(from_.layout, shape_, from_.layout.BlockOf(shape_, holder)))
        plan_.lost.push_back(std::move(part.box));
    return found->second;
  }

  const Shape& shape_;
  const int64_t element_bytes_;
  const SendSide &from_, &to_;
  SentBytes& sent_;
  const Cuts from_cuts_, to_cuts_;
  const Segments segments_;
  std::map<int64_t, std::vector<int64_t>> domains_of_;    // of `from`, by process
  std::map<BlockNumbers, std::vector<int64_t>> holders_;  // devices, of blocks that another process needs
  SendPlan plan_;
};

}  // namespace

SendPlan PlanSend(const Shape& shape, int64_t element_bytes, const SendSide& from, const SendSide& to,
                  SentBytes* sent) {
  MESHWORK_CHECK(from.layout.mesh() == from.placement.mesh() && to.layout.mesh() == to.placement.mesh());
  MESHWORK_CHECK(!from.layout.is_partial() && !to.layout.is_partial());
  SentBytes of_this;
  return SendPlanner(shape, element_bytes, from, to, sent == nullptr ? of_this : *sent).Plan();
}

}  // namespace meshwork
