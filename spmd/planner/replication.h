// No involuntary replication: which gathers of whole values the compiler must not put into a program unasked.
//
// A gather is involuntary if a value whose blocks lie on several devices would lie whole on every device, and
// nobody asked for it:
//   - no `Relayout` asks for it, and no pin of the value itself;
//   - the op that needs the value whole has no result, of at least as many bytes, that is pinned whole;
//   - the layouts do not imply the gather: it does not come from two letters of the op that want one axis, as
//     the rows of a batch and the columns of a weight do where a sequence is sharded. For weights (variables,
//     and values made from variables alone) layouts imply no gather; somebody must ask for it;
//   - neither the value nor that result is marked gather=allowed; neither the value nor a value that it is
//     made from is gathered on use.
// Up to a budget of bytes, an involuntary gather is done and reported by Explain. Beyond the budget, an op
// runs on its operands as they lie, even if that sends more, or else with gathers that the layouts imply; if
// neither is possible, the compile is refused (spmd/refused_gathers.h).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

class Replication {
 public:
  // Refuses nothing.
  Replication() = default;
  // `pinned`: the program before Propagate; it must outlive this, and later programs must keep its values'
  // ids.
  Replication(const Graph& pinned, int64_t budget);

  // Whether taking `value` from one layout to another is an involuntary gather beyond the budget. `results`:
  // the results of the op that needs the value, or the variable that is to hold it.
  bool Refuses(ValueId value, std::span<const ValueId> results, const Layout& from, const Layout& to) const;
  // Whether it may refuse anything.
  bool refuses() const { return pinned_ != nullptr; }
  // Whether some gather of the value may be refused.
  bool MayRefuse(ValueId value) const { return pinned_ != nullptr && !MayBeGathered(value); }
  // Whether the layouts imply a refused gather, which is then done if there is no other way: `node`, which
  // needs the value, could run on the value as it is cut, were it not for the axes of its other letters.
  bool IsImplied(ValueId value, int node, const Layout& from) const;
  bool IsImplied(ValueId value, const Node& reader, const Layout& from) const;
  // Whether `value` is a weight – a variable, or made from variables and scalars alone – beyond the budget
  // that nobody allows to be gathered. REQUIRES: this was made from a program.
  bool IsBoundWeight(ValueId value) const { return is_weight_[value] && !MayBeGathered(value); }
  // For two values of the same type, layout and kind, the same gathers are refused or implied.
  uint64_t KindOf(ValueId value) const;

 private:
  bool MayBeGathered(ValueId value) const;
  bool IsPinnedWhole(ValueId value) const;

  const Graph* pinned_ = nullptr;
  int64_t budget_ = std::numeric_limits<int64_t>::max();
  std::vector<bool> is_weight_;  // per value
  std::vector<bool> kept_;       // per value: see KeptValues
};

}  // namespace meshwork
