// One kernel for the work of all devices of a domain at a node.
//
// The instances of a value (runtime/plan/sharing.h) lie one behind the other, so eight devices' f32[16,700] are
// one f32[8,16,700]. A row with OpRow::stack computes them as one tensor: eight products with the same
// weights are one product of 128 rows. If an all_reduce of the instances follows, the kernel computes their
// sum instead of the instances, which are then never stored: eight products x_i^T dy_i are one product whose
// k is eight times as long. Other rows run instance by instance.
//
// The kernels of lookups (gather, scatter_add) read where their block lies in the whole tensor. The blocks of a table
// that is cut by rows lie one behind the other, too: eight f32[125,64] are one f32[1000,64]. So the lookups in all
// blocks, and the sum of their results, are one lookup in the whole table. If the sum is a reduce_scatter by rows, the
// blocks of its result are the rows of that lookup, one behind the other.
//
// Pure functions of the program; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// How compute or local node `n` runs: spec, items and blocks, without buffers. `values`: per value of the
// program; only its instances are read. With coalesce=false the node runs instance by instance.
ComputeStep MakeComputeStep(const Graph& local, int n, const std::vector<ValueBuffers>& values,
                            bool coalesce);

// The step in which node `n` also computes the result of the collective `reduce` that follows it: an all_reduce or, if
// the node is a lookup, a reduce_scatter. nullopt if the row cannot do this. REQUIRES: nothing but the collective reads
// the node's result.
std::optional<ComputeStep> MakeReducingStep(const Graph& local, int n, int reduce,
                                            const std::vector<ValueBuffers>& values);

}  // namespace meshwork
