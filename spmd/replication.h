// No involuntary replication: which gathers of whole values the compiler must not put into a program unasked,
// and what is said of one that it cannot do without.
//
// A gather is involuntary if a value whose blocks lie on several devices would lie whole on every device, and
// nobody asked for that:
//   - no `Relayout` asks for it, and no pin of the value itself;
//   - the op that needs it whole does not give a result, of as many bytes at least, that is pinned whole;
//   - the layouts do not imply it: it is not that two letters of the op want one axis, as the rows of a batch
//     and the columns of a weight do where a sequence is sharded. Of weights this does not hold: variables,
//     and what is made of them alone, are gathered where that is said (see also keep_weights.h);
//   - neither it nor that result is marked gather=allowed, nor is it, or what it is made of, gathered on use.
// Up to a budget of bytes it is done, and reported by Explain. Beyond it, where an op can run on its
// operands as they lie, it does, even if that sends more, or else on what the layouts imply; if it cannot,
// the compile is refused.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

class Replication {
 public:
  // Refuses nothing.
  Replication() = default;
  // `pinned`: the program before Propagate, which must outlive this; its values keep their numbers.
  Replication(const Graph& pinned, int64_t budget);

  // Whether taking `value` from one layout to another is an involuntary gather beyond the budget. `results`:
  // what it is needed for, the results of an op or the variable that is to hold it.
  bool Refuses(ValueId value, std::span<const ValueId> results, const Layout& from, const Layout& to) const;
  // Of one that is refused: whether the layouts imply it, where there is no other way. `node`, which needs
  // it, could run on the value as it is cut, were it not for the axes of its other letters.
  bool IsImplied(ValueId value, int node, const Layout& from) const;
  // A weight – a variable, or made of variables and scalars alone – beyond the budget that nobody allows to
  // be gathered. REQUIRES: this is made of a program.
  bool IsBoundWeight(ValueId value) const { return is_weight_[value] && !MayBeGathered(value); }

 private:
  bool MayBeGathered(ValueId value) const;
  bool IsPinnedWhole(ValueId value) const;

  const Graph* pinned_ = nullptr;
  int64_t budget_ = std::numeric_limits<int64_t>::max();
  std::vector<bool> is_weight_;  // per value
  std::vector<bool> kept_;       // per value: see KeptValues
};

// A gather beyond the budget.
struct RefusedGather {
  ValueId value = kNoValue;
  Layout from;                  // its blocks
  int node = -1;                // the op that it is needed for, or that gives it; -1: an update
  ValueId variable = kNoValue;  // of an update: what is to hold it
};

// What a user is told: the largest of `refused`, the layouts in conflict with their lines, and the layout
// that avoids it with the fewest bytes on the wire, found by trying. `global`: before Propagate. REQUIRES:
// `refused` is what InsertRelayouts gives for it on this topology, not empty.
absl::Status ReplicationError(const Graph& global, const std::vector<RefusedGather>& refused,
                              const Topology& topology, int64_t budget);

}  // namespace meshwork
