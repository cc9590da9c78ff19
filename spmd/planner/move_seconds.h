// The time to bring a value into another layout: either its blocks move, or the blocks of the values that it
// is computed from, if these are fewer bytes.
//
//   %c = cast %b dtype=f32   bf16 -> f32     gather %b, then cast: half the bytes
//   %o = one_hot %i          i32[n] -> [n,k] gather the indices
//
// An op may run elsewhere in this way if it computes each element from the operands' elements there, sums
// nothing, and reads less than it gives: then fewer bytes are sent, and little is computed twice.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/work.h"

namespace meshwork {

// A time counts as less than another one if it is less than this part of it: sums in another order differ by less.
inline constexpr double kLess = 1 - 1e-9;

// The time to bring a value of this type from one layout to another, in seconds. With the assumed topology,
// latencies do not count. A bf16 value that owes a sum is sent as f32, unless it is picked (OnlyMoves).
double RelayoutSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                       bool is_picked = false);
// As above, by the plan that Localize writes. If the greedy plan has several steps, that may be another plan.
// work: takes what the search for the plan looks at.
double LeastSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology,
                    SearchWork* work = nullptr);
// As above, by a plan that is not searched for. LeastSeconds may be less.
double RoughSeconds(const Layout& from, const Layout& to, const Type& type, const Topology& topology);
// The number of collectives in that plan, with the assumed topology. Those of the kind `but` do not count.
int CountCollectives(const Layout& from, const Layout& to, const Type& type,
                     std::optional<RelayoutKind> but = {});
// The time of each collective in addition to what it sends. Collectives of the kind `but` are free, because several of
// them may run as one.
struct CollectivePrice {
  double seconds = 0;
  std::optional<RelayoutKind> but = {};
};
// The time that a step takes to send. With the assumed topology: that of the bytes, without latency.
double LinkSeconds(const StepCost& cost, const Topology& topology);

// At most so many ops before a value are looked at. Chains of casts and comparisons are no longer.
inline constexpr int kMaxElsewhere = 3;

// The layouts of the operands of `node` if its one result has layout `to`; nothing if it may not run
// elsewhere.
std::optional<std::vector<Layout>> OperandsElsewhere(const Graph& graph, const Node& node, const Layout& to);

// The time to run the op that computes `id` elsewhere, so that its result has layout `to`; nothing if it may
// not.
std::optional<double> ElsewhereSeconds(const Graph& graph, ValueId id, const Layout& to,
                                       const Topology& topology);

// The time to bring `id` from its layout in the graph to `to`, in the cheaper way. Arithmetic counts.
double MoveSeconds(const Graph& graph, ValueId id, const Layout& to, const Topology& topology);

}  // namespace meshwork
