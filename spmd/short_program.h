// A program with fewer of its layers, so that what is decided for them is decided once.
//
//   layers 0 1 2 3 … 62 63, and their gradients    ->    0 1 62 63, and theirs; 2 … 61 are as 1, their gradients as 62's
//
// The layers are those that spmd/planner/fold_repeats.h finds. What a layer reads of the one before it, and leaves to the next, is
// there in the short program, too: it is a program like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/fold_repeats.h"

namespace meshwork {

struct ShortProgram {
  Graph graph;
  std::vector<ValueId> value_of;  // per value of the whole program: the one of `graph` that stands for it
  std::vector<int> node_of;       // per node of the whole program: likewise
};

// fold: of `graph`, by SkipRepeats. Nothing if it folds nothing, or would leave out the update of a variable that it
// keeps, or keep that of one that it leaves out. This and the others: pure, thread-safe.
std::optional<ShortProgram> Shortened(const Graph& graph, const Fold& fold);

// The short program for a global one that is pinned, so many layers of which stay (`kept`, see SkipRepeats). Nothing for
// a program of few ops, or one of which more than half would stay.
std::optional<ShortProgram> ShortProgramOf(const Graph& pinned, int64_t replication_budget, int kept = 2);

// Whether each op of the whole program reads what lies as that lies which the op reads that stands for it. Not so where
// layouts alternate from one layer to the next. `laid_out`: the short program, every value with a layout.
bool FitsTogether(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole);

// Gives values of `whole` the pins that those have which stand for them in `pinned`, the short program.
void PinLikeShort(const ShortProgram& shortened, const Graph& pinned, Graph& whole);

// The whole program, its values laid out as those that stand for them. `laid_out`: the short program, every value with
// a layout.
Graph LaidOutAs(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole);

// What the relayouts of the short program take in the whole, each as often as the value that it moves is there.
double SecondsInWhole(const ShortProgram& shortened, const InsertedRelayouts& inserted);

// About what a device sends in the whole. `local`: the short program, made of `inserted`. Its halos count as often as there,
// all else as often as what moves does on average.
double WireBytesOfWhole(const ShortProgram& shortened, const Graph& local, const InsertedRelayouts& inserted);

// Per node of the whole program, the choice of the one that stands for it.
std::vector<std::optional<Choice>> ChoicesOfWhole(const ShortProgram& shortened,
                                                  const std::vector<std::optional<Choice>>& choices);

}  // namespace meshwork
