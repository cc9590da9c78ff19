// CarrySummaries writes ops that run along a sharded dim in their blockwise form (ops/blockwise.h): a cumsum,
// an argmax or a top_k gathers one summary per block, not the dim; attention passes blocks on, if it is asked
// to. If the result of an argmax or a top_k lies in blocks over the same axes, a device gets only the
// summaries of its own block: an all-to-all instead of an all-gather.
//
//   %0 = cumsum %a dim=0                 of %a: f32[64] {x}, on [x=8], becomes
//   %0 = reshape %a shape=[8,8]          {x,_}
//   …  = cumsum %0 dim=1, the sums of the blocks, gathered, their exclusive cumsum, added to each block
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A program, and the decisions made for it.
struct CarriedSummaries {
  Graph graph;
  std::vector<std::string> decisions;
};

// `pinned` with those ops in blockwise form whose dim is sharded in `propagated`, Propagate's result for
// `pinned`; nothing if there are no such ops.
std::optional<CarriedSummaries> CarrySummaries(const Graph& pinned, const Graph& propagated);

}  // namespace meshwork
