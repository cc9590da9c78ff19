// One kernel for the work of all devices of a domain at a node.
//
// The instances of a value (runtime/sharing.h) lie one behind the other, so eight devices' f32[16,700] are
// one f32[8,16,700]. A row with OpRow::stack computes them as one tensor: eight products with the same
// weights are one product of 128 rows. If an all_reduce of the instances follows, the kernel computes their
// sum instead of the instances, which are then never stored: eight products x_i^T dy_i are one product whose
// k is eight times as long. Other rows run instance by instance.
//
// Lookups (gather, scatter_add) read where their block lies. Blocks of rows of a table lie one behind the other, too, so the
// eight f32[125,64] of a table that is cut by rows are one f32[1000,64], and lookups in them, and their sum, are one lookup in
// the whole table. A reduce_scatter of lookups to rows leaves the rows of that lookup with the devices, one behind the other,
// too.
//
// Pure functions of the program; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

// How compute or local node `n` runs: spec, items and blocks, without buffers. `values`: per value of the
// program; only its instances are read. With coalesce=false the node runs instance by instance.
ComputeStep MakeComputeStep(const Graph& local, int n, const std::vector<ValueBuffers>& values,
                            bool coalesce);

// The same for node `n` if it computes the result of the collective `reduce` that follows it: an all_reduce, or, of a lookup, a
// reduce_scatter. nullopt unless the row can do so and the collective is the only reader of its result.
std::optional<ComputeStep> MakeReducingStep(const Graph& local, int n, int reduce,
                                            const std::vector<ValueBuffers>& values);

}  // namespace meshwork
