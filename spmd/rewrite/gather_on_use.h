// Variables that are kept in blocks and gathered for each use: gather=on_use (ZeRO stage 3, Rajbhandari et
// al., arXiv 1910.02054, section 5.3; "fully sharded data parallel").
//
//   var %w: f32[512,512] {x,_} gather=on_use        forward    all_gather %w, matmul
//                                                   backward   all_gather %w, matmul; reduce_scatter of dw
//                                                   update     on blocks
//
// The layout of such a variable says where it is kept, and nothing about how ops run. MarkUses gives each op
// that reads the variable a value of its own, a relayout that is open in all dims: a *use*. Propagate lays a
// use out as the op's other tensors want it: an axis that cuts them is gathered, another axis stays (tensor
// parallelism). A value that is computed from kept values alone, element by element, is kept, too, and
// gathered instead: a cast to bf16 halves the bytes sent. No pass merges two uses, so nothing is held from
// the forward to the backward pass; PlaceGathers puts each gather right before its op, and each
// reduce_scatter right after the op that it sums.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `graph`: global, before Propagate. `to`, unless null, gets per value of `graph` its value in the result.
Graph MarkUses(const Graph& graph, std::vector<ValueId>* to = nullptr);

// `local`: after all passes that share or join nodes. Law: the same nodes, in another order.
Graph PlaceGathers(const Graph& local);

}  // namespace meshwork
