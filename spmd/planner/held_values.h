// The ways in which a value could be held: in one of its layouts, alone or with one further form that is made of it and
// read by several ops. Internal to the planner (solve_layouts.h).
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/readers.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/layout_space.h"

namespace meshwork {

// One way to hold a value. Numbers of layouts in the table of the value's type; other: the further form, -1: none.
struct Held {
  int form;
  int other = -1;

  bool operator==(const Held&) const = default;
};

class HeldValues {
 public:
  // All must outlive this. few_others: a value that is not held in Propagate's layout may only have that layout, or the
  // whole value, as its further form. many_states: more forms of a value are looked at.
  HeldValues(const Graph& pinned, const Fold& fold, const Topology& topology, LayoutSpace& space,
             bool few_others = false, bool many_states = false);

  // The ways to hold a value. Each of its layouts alone comes first. REQUIRES, here and below: fold.value_of[id] == id.
  const std::vector<Held>& of(ValueId id) const { return kinds_[kind_[id]]; }
  // Values that could be held in the same ways have the same number.
  int kind(ValueId id) const { return kind_[id]; }
  // Whether a value has more further forms than are looked at.
  bool is_cut_off() const { return is_cut_off_; }
  // The class of the first node that reads the value, and the last class that does; -1 if none does.
  int FirstReader(ValueId id) const;
  int LastReader(ValueId id) const;

 private:
  std::vector<Held> StatesOf(ValueId id);

  const Graph& pinned_;
  const Fold& fold_;
  const Topology& topology_;
  LayoutSpace& space_;
  const bool few_others_;
  const size_t most_states_;  // of one value
  bool is_cut_off_ = false;
  const Readers readers_;
  std::vector<std::vector<Held>> kinds_;
  std::vector<int> kind_;
};

}  // namespace meshwork
