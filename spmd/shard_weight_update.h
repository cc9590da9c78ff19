// Weight-update sharding: optimizer state in blocks over the data-parallel axes (ZeRO stage 1, Rajbhandari et
// al., arXiv 1910.02054, section 5.1; Xu et al., arXiv 2004.13336).
//
//   var %w: f32[784,700] {_,_}, var %m: f32[784,700] {_,_}          before   all_reduce of the gradient,
//                                                                            update on every device
//   var %w: f32[784,700] {_,_}, var %m: f32[784,700] {batch,_}      after    reduce_scatter of the gradient,
//                                                                            update on blocks,
//                                                                            all_gather of the new weight
//
// Both send the same number of bytes; a device holds and updates only its block of the state. The weight
// keeps its layout.
//
// The *state* of a weight are variables with its shape and layout that are read only to compute, element by
// element, new values of themselves, of each other and of the weight. An average of a weight is state, too;
// so is the master copy of a weight that is kept in bf16. A weight without state is left as it is, because
// there would be no memory to save. The axes are those over which the gradient is summed and that do not cut
// the weight. State with another layout than its weight lies where the user wants it, and weights that are
// gathered on use are cut already: both are left alone.
//
// The state is cut further along the first dim that the axes divide evenly, after the axes that cut it
// already. If there is no such dim and the weight is large, axes or parts of axes go to the first dims that
// they divide: [700,500] over 8 devices is {batch:(1)4,batch:(4)2}; along parts that divide no dim there are
// copies. A small weight, which takes less time to send than a message takes to arrive, is not worth
// collectives of its own. Blocks are never padded, because padding would be sent.
//
// Nothing is sharded if the step then sends more bytes, not counting scalars: the norm to which gradients are
// clipped is a sum of one more number. So gradients that others need whole are summed as before.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/program.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

struct ShardWeightUpdateOptions {
  Topology topology = {};
  int64_t replication_budget = std::numeric_limits<int64_t>::max();  // as CompileOptions has it
};

struct ShardedWeightUpdate {
  // The same nodes and values; pins of variables and of new weights differ, and the mesh may be cut further.
  Graph graph;
  std::vector<ShardedState> state;  // the state with new layouts, in the order of the arguments
};

// `graph`: global, before Propagate.
ShardedWeightUpdate ShardWeightUpdate(const Graph& graph, const ShardWeightUpdateOptions& options = {});

// `global` with its state laid out as program.sharded_state says: the program that `program` computes, for
// Verify.
Graph WithShardedState(const Graph& global, const Program& program);

}  // namespace meshwork
