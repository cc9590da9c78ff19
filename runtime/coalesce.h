// One kernel for what all devices of a process do at a node.
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
#include "meshwork/ir/kernel.h"
#include "meshwork/runtime/collective.h"
#include "meshwork/runtime/sharing.h"

namespace meshwork {

struct NodeKernel {
  Kernel kernel;              // on the first instance of each operand and result, the others behind it
  InstanceMap items;          // the instances that it computes; of the sums where it sums
  std::vector<Block> blocks;  // of its operands, then its results, for KernelArgs
  bool one_by_one = false;    // it runs instance by instance: units / items.count() units are one of them
};

// The kernel of compute or local node `n`. `values`: per value of the program, of which only the instances
// are read. With coalesce=false instance by instance.
NodeKernel MakeNodeKernel(const Graph& local, int n, const std::vector<ValueBuffers>& values, bool coalesce);

// The kernel of node `n` that leaves what the all_reduce `reduce` of its result leaves, if its row can and
// the all_reduce is all that reads the result.
std::optional<NodeKernel> MakeReducingKernel(const Graph& local, int n, int reduce,
                                             const std::vector<ValueBuffers>& values);

}  // namespace meshwork
