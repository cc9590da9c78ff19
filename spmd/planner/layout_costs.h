// The costs, in seconds, of each way to hold a value and of each way to run an op: the tables of SolveLayouts
// (solve_layouts.h). Internal to the planner.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <utility>
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

// When a product may run on fewer devices than in its first way: never; if it then runs on what its operands owe, once
// for each term of their sum, as its result may be far smaller than they are; always.
enum class MoreArithmetic : uint8_t { kNone, kForOwed, kAny };

// Lists of costs are row-major, of the shape that the comment gives in brackets; infinite if a combination is
// forbidden. Values are those that stand for themselves (Fold::value_of); nodes are numbers of classes.
class LayoutCosts {
 public:
  // All must outlive this. collective_seconds: the price of a collective, beside what it sends. gathers_bound_weights:
  // see SolveOptions.
  LayoutCosts(const Graph& pinned, const FoldedNodes& nodes, const FoldCounts& counts,
              const Topology& topology, const Replication& replication, LayoutSpace& space,
              const HeldValues& held, double collective_seconds, bool gathers_bound_weights);

  // The cost of a refused gather: more than all the rest of any step that is looked at.
  double refused_seconds() const { return refused_seconds_; }

  // [states of the value, ways to run the op]: to bring the value where the op reads it, as operand `i`. A value that
  // enters a body is moved before the loop.
  CostList Reads(int n, size_t i, ValueId id, double times);
  // [ways to run the op, states of the value]: to bring result `r` of the op into the forms in which it is held.
  CostList Leaves(int n, size_t r, ValueId id);
  // [ways to run the op]: its arithmetic; infinite where it may not run on so few devices.
  std::vector<double> Arithmetic(int n, MoreArithmetic more) const;
  // [ways to run the op]: its exchanges along cut dims: halos, or what a roll moves. Empty: there are none.
  std::vector<double> Exchanges(int n);
  // [states of the argument]: to make its further form. If the argument lay in blocks and is now held whole, it also
  // costs as much as the gather that this spares, if that gather is refused. For results of ops, Leaves has these
  // costs.
  std::vector<double> Argument(ValueId id);
  // [states of the value]: for the bytes that a device holds of both forms, at a price per byte.
  std::vector<double> Memory(ValueId id, double byte_seconds);
  // [states of the value, states of the variable that gets it]: to bring the value where the variable is held.
  std::vector<double> Update(ValueId value, ValueId variable, double times);
  // [states of a, states of b]: 0 if both have the same layout, otherwise infinite.
  std::vector<double> Alike(ValueId a, ValueId b) const;

 private:
  // The number of terms of the sums that the operands owe if the op runs so; 1: they owe nothing.
  double TermsOf(const Node& node, const OpModes& modes, size_t mode) const;

  // The purpose of a move: an op, and the axes that then cut its letters; or an update.
  struct Mover {
    std::span<const ValueId> results;  // of the op, or the variable
    const Node* node = nullptr;
    AxisSet axes = {};
    bool may_be_refused =
        true;  // false for values that are never refused, and for relayouts, which the user asks for
  };

  bool TurnsUnasked(int n, ValueId id, int from, int to, std::pair<int, int> now);
  double Move(ValueId id, int from, int to, const Mover& mover);
  double RefusedSeconds(ValueId id, int from, int to, const Mover& mover);
  double Read(ValueId id, const Held& held, int to, const Mover& mover);
  double Leave(ValueId id, int left, const Held& held, const Mover& mover);
  double ExchangeSeconds(const Node& node, const Choice& choice) const;
  double Whole(ValueId id, int left, int before, const Node& node);
  // The costs for tensor `i` of the op: those made before for an op that is alike, or new ones.
  template <typename Make>
  CostList Known(int n, size_t i, ValueId id, double times, Make&& make);

  const Graph& pinned_;
  const FoldedNodes& nodes_;
  const FoldCounts& counts_;
  const Topology& topology_;
  const Replication& replication_;
  LayoutSpace& space_;
  const HeldValues& held_;
  const double collective_seconds_;
  double refused_seconds_;
  const bool gathers_bound_weights_;
  // Costs by all that they depend on: the ways to run the op, its tensor, the states of the value, how often it is
  // moved, and which gathers are refused.
  std::map<std::tuple<int, int, int, double, std::vector<uint64_t>>, CostList> known_;
  std::map<int, std::vector<double>> exchanges_;  // per number of ways to run an op, of one run
};

}  // namespace meshwork
