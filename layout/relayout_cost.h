// What a relayout costs: bytes on the wire, or time by the α–β model of a Topology.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "meshwork/layout/layout.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/layout/traffic.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// What a plan costs; compared in this order.
struct RelayoutCost {
  double seconds = 0;  // stays 0 if the topology is assumed: then the elements sent decide
  int64_t wire_elements = 0;
  int collectives = 0;
  int exchanges = 0;  // the all_to_all_v among the collectives; at equal cost, others are preferred
  int steps = 0;

  auto operator<=>(const RelayoutCost&) const = default;  // NOLINT(modernize-use-nullptr): it misreads <=>
  bool operator==(const RelayoutCost&) const = default;
  RelayoutCost operator+(const RelayoutCost& other) const {
    return {seconds + other.seconds, wire_elements + other.wire_elements, collectives + other.collectives,
            exchanges + other.exchanges, steps + other.steps};
  }
};
// More than any plan costs.
inline constexpr RelayoutCost kNoCost = {.seconds = std::numeric_limits<double>::infinity()};

// (n-1)/n of `amount`, rounded down, without overflow: what a device of a group of n sends in a ring.
constexpr int64_t ShareOfOthers(int64_t amount, int64_t n) { return amount - (amount + n - 1) / n; }

// The elements that a device sends in one step from a layout whose block has `before` elements to one with
// `after`, in groups of n. Not for all_to_all_v.
int64_t WireElementsOf(RelayoutKind kind, int64_t before, int64_t after, int64_t n);

// How many messages a device sends one after the other in groups of n: trees for reductions and gathers
// (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005), a
// message to every other device for all_to_all and, at most, all_to_all_v.
int64_t MessagesOf(RelayoutKind kind, int64_t n);

// Whether a step's group follows from the layouts before and after: its devices differ on the MovedAxes.
constexpr bool MovesByLayouts(RelayoutKind kind) {
  return kind == RelayoutKind::kCollectivePermute || kind == RelayoutKind::kAllToAllV;
}

// The axes along which blocks change places from one layout to another. `from`, `to`: the axes of each dim.
AxisList MovedAxes(std::span<const AxisList> from, std::span<const AxisList> to);

// The elements that an all_to_all_v of a tensor of `shape` moves. Each device takes the elements that its
// block lacks from the device that holds them and has the same coordinates as itself on all axes that do not
// cut `from`. Padding is not sent. In groups of more than 64 devices only some devices are looked at: the
// outer ones and those in the middle of an axis.
Traffic AllToAllVTraffic(const Mesh& mesh, std::span<const AxisList> from, std::span<const AxisList> to,
                         const Shape& shape);

// The time of one kind of step in one group, by what it sends.
struct GroupSeconds {
  Link link;
  int64_t messages;
  double element_bytes;

  double Seconds(int64_t wire_elements) const {
    return link.Seconds(messages, static_cast<double>(wire_elements) * element_bytes);
  }
};

// Costs of steps on one mesh.
class RelayoutCosts {
 public:
  RelayoutCosts(const Mesh& mesh, const Topology& topology, int64_t element_bytes);

  // The cost of one step. `axes`: of the group.
  RelayoutCost Of(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const;
  // The cost of all steps, the first of which begins at `from`.
  RelayoutCost Of(const Layout& from, const std::vector<RelayoutStep>& steps) const;
  // `axes`: not none.
  GroupSeconds InGroup(RelayoutKind kind, const AxisList& axes) const;
  bool is_by_time() const { return by_time_; }  // rather than by elements
  // By the topology, even an assumed one.
  double Seconds(RelayoutKind kind, const AxisList& axes, int64_t wire_elements) const;
  double Seconds(const Layout& from, const std::vector<RelayoutStep>& steps) const;

  bool operator==(const RelayoutCosts&) const = default;

 private:
  Mesh mesh_;
  std::vector<Link> links_;  // per axis
  double element_bytes_;
  bool by_time_;
};

// The most elements that a device holds while one of the steps runs, operand and result together.
int64_t PeakOf(const Layout& from, const std::vector<RelayoutStep>& steps, const Shape& shape);

}  // namespace meshwork
