// One kernel for what all devices of a domain do at a node.
//
// The instances of a value (runtime/sharing.h) lie one behind the other, so eight devices' f32[16,700] are
// one f32[8,16,700]. A row that can (OpRow::stack) computes it as such: eight products with the same weights
// are one product of 128 rows. Where the sum of the instances is wanted next, by an all_reduce, it is
// computed instead of the instances, which then exist nowhere: eight products x_i^T dy_i are one product
// whose k is eight times as long. Other rows run instance by instance.
//
// Pure functions of the program; thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {

// How compute or local node `n` runs: spec, items and blocks; without buffers. `values`: per value of the
// program, of which only the instances are read. With coalesce=false instance by instance.
ComputeStep MakeComputeStep(const Graph& local, int n, const std::vector<ValueBuffers>& values,
                            bool coalesce);

// The same for node `n` if it leaves what the all_reduce `reduce` of its result leaves; nullopt unless its
// row can and the all_reduce is all that reads the result.
std::optional<ComputeStep> MakeReducingStep(const Graph& local, int n, int reduce,
                                            const std::vector<ValueBuffers>& values);

}  // namespace meshwork
