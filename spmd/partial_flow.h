// Which values of a program stay partial, and over which axes, if each op runs as chosen (spmd/planner/choose_cuts.h).
//
//   %p = matmul %a, %b     owes sum:x; %r = mul %p, %half owes it, too; tanh %r needs the whole
//
// PartialFlow starts with every value partial that can be, and takes this back where some reader cannot
// accept it, or where the sum would be made of a larger value, until nothing changes. A carry of a scan may
// owe a sum from before the first iteration until after the last, if its next value then owes the same sum:
// PartialFlow guesses this, and drops guesses that do not hold. The initial value of the carry may be whole
// (Localize then lets it count once).
//
// Takes time near-linear in the nodes, and the same again for each dropped guess. Thread-safe once it is
// made.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/choose_cuts.h"

namespace meshwork {

class PartialFlow {
 public:
  // REQUIRES: both arguments outlive this; `graph` is global, with its loops opened; `choices` has a choice
  // per node, nothing for relayouts.
  PartialFlow(const Graph& graph, const std::vector<std::optional<Choice>>& choices);

  // What the value owes when its op has run.
  const PartialSet& owed(ValueId id) const { return owed_[id]; }
  // What the value owes when it is read: owed(id) if it stays partial, else nothing.
  PartialSet seen(ValueId id) const { return kept_[id] ? owed_[id] : PartialSet(); }

 private:
  // What a value may owe, while carries are guessed.
  struct Guess {
    PartialSet owed;
    bool owes_any = false;  // linear in carries about which nothing is known yet
  };

  void GuessCarries();
  std::vector<Guess> GuessValues() const;
  Guess GuessOf(size_t n, const std::vector<Guess>& guesses) const;
  bool DropGuesses();
  // What a carry owes throughout, if node n is a mark of this carry.
  PartialSet CarriedAt(size_t n) const;
  PartialSet CarriedBy(const ScanCarry& carry) const;
  bool Enters(size_t n) const;

  void Settle();
  void Forward();
  bool TakeBack();
  bool TakeBackGrowth();
  bool Grows(const Node& node, ValueId operand) const;
  std::vector<bool> RestOnGrowth() const;
  std::vector<bool> Absorbed(const std::vector<bool>& rests) const;
  std::optional<PartialSet> PassedOn(size_t n) const;

  const Graph& graph_;
  const std::vector<std::optional<Choice>>& choices_;
  std::vector<PartialSet> owed_;
  std::vector<bool> kept_;
  const std::vector<ScanCarry> carries_;
  std::map<size_t, const ScanCarry*> carry_of_;  // by mark
  std::map<ValueId, PartialSet> guess_;          // per carry that owes something throughout
};

}  // namespace meshwork
