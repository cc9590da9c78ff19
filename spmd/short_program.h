// A program with fewer of its layers, so that decisions about layers that repeat are made once.
//
//   layers 0 1 2 3 … 62 63, and their gradients    ->    0 1 62 63, and theirs; 2 … 61 are as 1, their gradients as 62's
//
// The layers are those that spmd/planner/fold_repeats.h finds. In the short program, too, each layer reads from the
// layer before it and leaves values to the next one: it is a program like any other.
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
// keeps, or keep the update of a variable that it leaves out. This and the functions below are pure and thread-safe.
std::optional<ShortProgram> Shortened(const Graph& graph, const Fold& fold);

// The short program for a global one that is pinned. kept: how many layers stay (see SkipRepeats). Nothing for a
// program of few ops, or for one of which more than half would stay.
std::optional<ShortProgram> ShortProgramOf(const Graph& pinned, int64_t replication_budget, int kept = 2);

// Whether the whole program can be laid out as the short one: each op then reads operands of the same layouts as the op
// that stands for it. It cannot if layouts alternate from one layer to the next. `laid_out`: the short program, every
// value with a layout.
bool FitsTogether(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole);

// Gives each value of `whole` the pin of the value that stands for it in `pinned`, the short program.
void PinLikeShort(const ShortProgram& shortened, const Graph& pinned, Graph& whole);

// The whole program, each value laid out as the one that stands for it. `laid_out`: the short program, every value with
// a layout.
Graph LaidOutAs(const ShortProgram& shortened, const Graph& laid_out, const Graph& whole);

// The seconds that the relayouts of the short program take in the whole one: each counts once for every value that its
// value stands for.
double SecondsInWhole(const ShortProgram& shortened, const InsertedRelayouts& inserted);

// About how many bytes a device sends in the whole program. `local`: the short program, made of `inserted`. Its halos
// count once, all other collectives as often as its relayouts do on average in the whole program.
double WireBytesOfWhole(const ShortProgram& shortened, const Graph& local, const InsertedRelayouts& inserted);

// Per node of the whole program, the choice of the one that stands for it.
std::vector<std::optional<Choice>> ChoicesOfWhole(const ShortProgram& shortened,
                                                  const std::vector<std::optional<Choice>>& choices);

}  // namespace meshwork
