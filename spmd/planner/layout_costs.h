// What it takes, in seconds, to hold values and to run ops in one way or another: the tables of SolveLayouts
// (solve_layouts.h). Internal to the planner.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/fold_counts.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/held_values.h"
#include "meshwork/spmd/planner/layout_space.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/solver/min_sum.h"

namespace meshwork {

// Costs are per state of what is asked of, rows first; infinite where it may not be. Values are those that stand for others
// or for themselves, nodes are numbers of classes.
class LayoutCosts {
 public:
  // All must outlive this.
  LayoutCosts(const Graph& pinned, const FoldedNodes& nodes, const FoldCounts& counts,
              const Topology& topology, const Replication& replication, LayoutSpace& space,
              const HeldValues& held);

  // Of a gather that is refused: more than the rest of any step that is looked at.
  double refused_seconds() const { return refused_seconds_; }

  // [states of the value, ways to run the op], of its operand `i`. What enters a body is moved before the loop.
  CostList Reads(int n, size_t i, ValueId id, double times);
  // [ways to run the op, states of the value], of its result `r`.
  CostList Leaves(int n, size_t r, ValueId id);
  // [ways to run the op]. may_compute_more: a product may run on fewer devices than in the first way.
  std::vector<double> Arithmetic(int n, bool may_compute_more) const;
  // [states of the argument]: to make its second form, and to have the whole of it on every device though it lay in blocks,
  // as of the gather that is spared. What an op leaves is in Leaves.
  std::vector<double> Argument(ValueId id);
  // [states of the value]: of what a device holds, both forms, at a price per byte.
  std::vector<double> Memory(ValueId id, double byte_seconds);
  // [states of the value, states of the variable that gets it].
  std::vector<double> Update(ValueId value, ValueId variable, double times);
  // [states of a, states of b]: both lie alike.
  std::vector<double> Alike(ValueId a, ValueId b) const;

 private:
  // What a value is moved for: an op, and the axes that cut its letters then; or an update.
  struct Mover {
    std::span<const ValueId> results;  // of the op, or the variable
    const Node* node = nullptr;
    AxisSet axes = {};
    bool may_be_refused =
        true;  // not of values that are never refused, nor what the user asks for: a relayout
  };

  double Move(ValueId id, int from, int to, const Mover& mover);
  double RefusedSeconds(ValueId id, int from, int to, const Mover& mover);
  double Read(ValueId id, const Held& held, int to, const Mover& mover);
  double Leave(ValueId id, int left, const Held& held, const Mover& mover);
  double Whole(ValueId id, int left, int before, const Node& node);
  // As made before for an op that is alike: of the op's tensor `i`.
  template <typename Make>
  CostList Known(int n, size_t i, ValueId id, double times, Make&& make);

  const Graph& pinned_;
  const FoldedNodes& nodes_;
  const FoldCounts& counts_;
  const Topology& topology_;
  const Replication& replication_;
  LayoutSpace& space_;
  const HeldValues& held_;
  double refused_seconds_;
  // By what costs depend on: the ways to run the op, its tensor, the states of the value, how often.
  std::map<std::tuple<int, int, int, double, std::vector<uint64_t>>, CostList> known_;
};

}  // namespace meshwork
