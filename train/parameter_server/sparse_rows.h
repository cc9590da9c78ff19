// Tables of which a batch needs some rows alone. Only this room uses it.
//
// A table is a variable [n,d] that the worker's program reads by gathers along dim 0 alone, at ids that depend on inputs and
// on no variable, and that is updated by row of what is scattered at the same ids. Then a worker works with a variable of
// `capacity` rows, as many as a batch has ids, or one more, in which only the ids are numbered anew. Rows that no id names have a
// gradient of zero; so between the scatters and the push only ops are allowed to which rows of zeros make no difference:
// products, sums, norms, and whether all is finite.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/train/parameter_server/update_facts.h"
#include "meshwork/train/parameter_server/update_plan.h"

namespace meshwork {

struct SparseTable {
  int argument = -1;          // the table
  size_t group = 0;           // of the plan
  ValueId pushed = kNoValue;  // its gradient
  std::vector<ValueId> ids;   // the values by which it is read, ascending
  std::set<ValueId> values;   // of its rows: the table's gradients, from the scatters to the push
  int64_t capacity = 0;       // rows
};

// `live`: per value, whether an output or a push depends on it. Tables of which a batch has as many ids as rows are none.
std::vector<SparseTable> FindSparseTables(const UpdateFacts& facts, const UpdatePlan& plan,
                                          const std::vector<bool>& live);

}  // namespace meshwork
