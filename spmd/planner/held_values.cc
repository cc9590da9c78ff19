#include "meshwork/spmd/planner/held_values.h"

#include <algorithm>

namespace meshwork {
namespace {

constexpr size_t kMostStates = 160, kManyStates = 2048;  // of one value

}  // namespace

HeldValues::HeldValues(const Graph& pinned, const Fold& fold, const Topology& topology, LayoutSpace& space,
                       bool few_others, bool many_states)
    : pinned_(pinned),
      fold_(fold),
      topology_(topology),
      space_(space),
      few_others_(few_others),
      most_states_(many_states ? kManyStates : kMostStates),
      readers_(ReadersOf(pinned)),
      kind_(pinned.values().size(), 0) {
  for (ValueId id = 0; id < static_cast<ValueId>(kind_.size()); ++id) {
    if (fold.value_of[id] != id) continue;
    std::vector<Held> states = StatesOf(id);
    const auto found = std::find(kinds_.begin(), kinds_.end(), states);
    kind_[id] = static_cast<int>(found - kinds_.begin());
    if (found == kinds_.end()) kinds_.push_back(std::move(states));
  }
}

int HeldValues::FirstReader(ValueId id) const {
  return readers_[id].empty() ? -1 : fold_.class_of[readers_[id][0].node];
}

int HeldValues::LastReader(ValueId id) const {
  int last = -1;
  for (const auto [n, i] : readers_[id]) last = std::max(last, fold_.class_of[n]);
  return last;
}

// Each layout alone, and with each further form that several ops could read. For a pinned result, one such op is
// enough.
std::vector<Held> HeldValues::StatesOf(ValueId id) {
  LayoutTable& table = space_.TableOf(id);
  const std::vector<int>& layouts = space_.layouts(id);
  std::vector<Held> states;
  for (int layout : layouts) states.push_back({layout});
  const bool is_result = pinned_.value(id).node >= 0;
  // A pinned result may also be read in the layout in which its op leaves it.
  const size_t needed = is_result && layouts.size() == 1 ? 1 : 2;
  if (readers_[id].size() < needed || space_.IsKept(id) || pinned_.value(id).type.rank() == 0) return states;
  std::vector<size_t> count(table.size(), 0);
  for (const auto [n, i] : readers_[id])
    for (int layout : space_.modes(fold_.class_of[n]).wanted_by_any[i]) ++count[layout];
  for (int form : layouts) {
    for (size_t l = 0; l < count.size(); ++l) {
      const int other = static_cast<int>(l);
      if (other == form || count[l] < needed) continue;
      const bool is_whole = table.sharded(other).empty() && !table.is_partial(other);
      if (few_others_ && form != layouts[0] && other != layouts[0] && !is_whole) continue;
      if (table.is_partial(other) ? table.is_partial(form) || !is_result
                                  : table.Seconds(form, other, topology_) == 0)
        continue;
      if (states.size() >= most_states_) {
        is_cut_off_ = true;
        return states;
      }
      states.push_back({form, other});
    }
  }
  return states;
}

}  // namespace meshwork
