// A program with fewer of its layers, so that what is decided for them is decided once.
//
//   layers 0 1 2 3 … 62 63, and their gradients    ->    0 1 62 63, and theirs; 2 … 61 are as 1 is
//
// The layers are those that fold_repeats.h finds. What a layer reads of the one before it, and leaves to the next, is
// there in the short program, too: it is a program like any other.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/choose_cuts.h"
#include "meshwork/spmd/fold_repeats.h"

namespace meshwork {

struct ShortProgram {
  Graph graph;
  std::vector<ValueId> value_of;  // per value of the whole program: the one of `graph` that stands for it
  std::vector<int> node_of;       // per node of the whole program: likewise
};

// fold: of `graph`, by SkipRepeats. Nothing if it folds nothing, or would leave out what becomes of a variable that
// stays. Pure, thread-safe.
std::optional<ShortProgram> Shortened(const Graph& graph, const Fold& fold);

// The whole program, its values laid out as those that stand for them. `laid_out`: the short program, every value with
// a layout.
Graph LaidOutAs(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole);

// Per node of the whole program, the choice of the one that stands for it.
std::vector<std::optional<Choice>> ChoicesOfWhole(const ShortProgram& shortened,
                                                  const std::vector<std::optional<Choice>>& choices);

}  // namespace meshwork
