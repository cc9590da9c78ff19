#include "meshwork/spmd/partial_flow.h"

#include <algorithm>

#include "meshwork/ir/local.h"
#include "meshwork/spmd/planner/may_wait.h"

namespace meshwork {

PartialFlow::PartialFlow(const Graph& graph, const std::vector<std::optional<Choice>>& choices)
    : graph_(graph), choices_(choices), carries_(ScanCarries(graph)) {
  for (const ScanCarry& carry : carries_) {
    carry_of_[static_cast<size_t>(carry.enter)] = &carry;
    carry_of_[static_cast<size_t>(carry.leave)] = &carry;
  }
  GuessCarries();
  do {
    Settle();
  } while (DropGuesses());
}

// ---- Carries.

PartialSet PartialFlow::CarriedBy(const ScanCarry& carry) const {
  const auto guess = guess_.find(carry.value);
  return guess == guess_.end() ? PartialSet() : guess->second;
}

PartialSet PartialFlow::CarriedAt(size_t n) const {
  const auto carry = carry_of_.find(n);
  return carry == carry_of_.end() ? PartialSet() : CarriedBy(*carry->second);
}

// Whether it is the mark by which a carry enters its loop.
bool PartialFlow::Enters(size_t n) const {
  const auto carry = carry_of_.find(n);
  return carry != carry_of_.end() && static_cast<size_t>(carry->second->enter) == n;
}

// Guesses that each carry owes what its next value would owe. As long as nothing is known of a carry, it counts
// as owing whatever the values owe that it is added to. If a sum would be owed in another dtype, the carry owes
// nothing, and the sum is made in each iteration: a carry has the type of its initial value.
void PartialFlow::GuessCarries() {
  for (bool changed = !carries_.empty(); changed;) {
    changed = false;
    const std::vector<Guess> all = GuessValues();
    for (const ScanCarry& carry : carries_) {
      const PartialSet& owed = all[carry.next].owed;
      const AxisSet cut = choices_[carry.enter]->results[0].ShardedAxes();
      const bool fits = std::all_of(owed.begin(), owed.end(), [&](const Partial& p) {
        return p.op == ReduceOp::kSum && !cut.Contains(p.axis);
      });
      const DType dtype = graph_.value(carry.value).type.dtype;
      if (!owed.empty() && fits && carry.length > 1 && CarriedDType(dtype, owed) == dtype)
        changed |= guess_.emplace(carry.value, owed).second;
    }
  }
}

std::vector<PartialFlow::Guess> PartialFlow::GuessValues() const {
  std::vector<Guess> guesses(graph_.values().size());
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (!choices_[n].has_value()) continue;
    const Guess guess = GuessOf(n, guesses);
    for (ValueId id : graph_.nodes()[n].results) guesses[id] = guess;
  }
  return guesses;
}

PartialFlow::Guess PartialFlow::GuessOf(size_t n, const std::vector<Guess>& guesses) const {
  const Node& node = graph_.nodes()[n];
  if (const auto carry = carry_of_.find(n); carry != carry_of_.end()) {
    if (!Enters(n)) return guesses[carry->second->next];
    const PartialSet owed = CarriedBy(*carry->second);
    return {owed, owed.empty()};
  }
  const PartialSet* owed = nullptr;
  bool owes_any = false;
  for (ValueId id : node.operands) {
    if (!guesses[id].owed.empty()) owed = &guesses[id].owed;
    owes_any |= guesses[id].owes_any;
  }
  const Choice& choice = *choices_[n];
  const PartialSet any = {{0, ReduceOp::kSum}};
  const bool is_open = owed == nullptr;
  if (is_open && !owes_any) return {choice.reduced};
  absl::InlinedVector<PartialSet, 4> sets;
  for (ValueId id : node.operands)
    sets.push_back(!guesses[id].owes_any ? guesses[id].owed : is_open ? any : *owed);
  const auto passed = choice.rule->PassOn(sets, is_open ? AxisSet() : choice.sharded());
  if (!passed.has_value() || is_open) return {choice.reduced, passed == any};
  return {UnionOf(*passed, choice.reduced)};
}

bool PartialFlow::DropGuesses() {
  const size_t before = guess_.size();
  for (const ScanCarry& carry : carries_)
    if (const PartialSet guess = CarriedBy(carry);
        !guess.empty() && (!kept_[carry.value] || seen(carry.next) != guess))
      guess_.erase(carry.value);
  return guess_.size() < before;
}

// ---- Values.

void PartialFlow::Settle() {
  owed_.assign(graph_.values().size(), PartialSet());
  kept_.assign(graph_.values().size(), true);
  for (const VariableUpdate& update : graph_.updates()) kept_[update.value] = false;
  for (const OutputInfo& output : graph_.outputs()) kept_[output.value] = false;
  do {
    Forward();
  } while (TakeBack() || TakeBackGrowth());
}

void PartialFlow::Forward() {
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (!choices_[n].has_value()) continue;  // relayout: whole in, whole out
    PartialSet owed = CarriedAt(n);
    if (owed.empty()) owed = UnionOf(PassedOn(n).value_or(PartialSet()), choices_[n]->reduced);
    for (ValueId id : graph_.nodes()[n].results) owed_[id] = owed;
  }
}

bool PartialFlow::TakeBack() {
  bool changed = false;
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    if (choices_[n].has_value() && PassedOn(n).has_value()) continue;
    for (ValueId id : graph_.nodes()[n].operands) {
      if (seen(id).empty()) continue;
      kept_[id] = false;
      changed = true;
    }
  }
  return changed;
}

// A sum is made before an op that makes its value larger, unless the result is added to a value that owes the
// same sum in any case: in xW + (xA)B the sum of xA waits for that of xW.
bool PartialFlow::TakeBackGrowth() {
  const std::vector<bool> absorbed = Absorbed(RestOnGrowth());
  bool changed = false;
  for (const Node& node : graph_.nodes()) {
    for (ValueId id : node.operands) {
      if (seen(id).empty() || !Grows(node, id) || absorbed[node.results[0]]) continue;
      kept_[id] = false;
      changed = true;
    }
  }
  return changed;
}

bool PartialFlow::Grows(const Node& node, ValueId operand) const {
  return graph_.value(node.results[0]).type.bytes() > graph_.value(operand).type.bytes();
}

// Per value: whether it owes only sums that were owed before values grew.
std::vector<bool> PartialFlow::RestOnGrowth() const {
  std::vector<bool> rests(graph_.values().size(), false);
  for (size_t n = 0; n < graph_.nodes().size(); ++n) {
    const Node& node = graph_.nodes()[n];
    bool all = choices_[n].has_value() && choices_[n]->reduced.empty();
    for (ValueId id : node.operands) all = all && (seen(id).empty() || rests[id] || Grows(node, id));
    for (ValueId id : node.results) rests[id] = all;
  }
  return rests;
}

// Per value: whether every reader adds it to something that owes the same without having grown.
std::vector<bool> PartialFlow::Absorbed(const std::vector<bool>& rests) const {
  std::vector<bool> absorbed = kept_;
  for (size_t n = graph_.nodes().size(); n-- > 0;) {
    const Node& node = graph_.nodes()[n];
    for (ValueId id : node.operands) {
      const bool joins = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId other) {
        return other != id && !seen(other).empty() && !rests[other];
      });
      absorbed[id] = absorbed[id] && (joins || absorbed[node.results[0]]);
    }
  }
  return absorbed;
}

// What the op's results owe if each operand owes seen(operand); nothing if the op cannot run on such operands.
std::optional<PartialSet> PartialFlow::PassedOn(size_t n) const {
  const Node& node = graph_.nodes()[n];
  if (const PartialSet carried = CarriedAt(n); !carried.empty()) {
    // A carry begins whole or owing the sum already; it ends as it began.
    for (ValueId id : node.operands)
      if (seen(id) != carried && !(seen(id).empty() && Enters(n))) return std::nullopt;
    return carried;
  }
  const Choice& choice = *choices_[n];
  absl::InlinedVector<PartialSet, 4> sets;
  for (ValueId id : node.operands) sets.push_back(seen(id));
  std::optional<PartialSet> passed = choice.rule->PassOn(sets, choice.sharded());
  if (passed.has_value() && !MayWait(graph_, node, *choice.rule, sets)) return std::nullopt;
  // Reductions of two kinds do not commute.
  if (passed.has_value() && !passed->empty() && !choice.reduced.empty() &&
      passed->front().op != choice.reduced.front().op)
    return std::nullopt;
  return passed;
}

}  // namespace meshwork
