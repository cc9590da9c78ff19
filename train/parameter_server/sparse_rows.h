// Tables of which a batch needs only some rows. Only this room uses it.
//
// A table is a variable [n,d] that the worker's program reads only by gathers along dim 0, at ids that depend on inputs
// and on no variable, and whose update is by row of values that are scattered at the same ids. A worker then has a
// variable of `capacity` rows instead: as many as a batch has ids, or one more. Only the ids are numbered anew in it.
// Rows that no id names have a gradient of zero; so the ops between the scatters and the push must be ones to which
// rows of zeros make no difference: products, sums, norms, and whether all elements are finite.
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

// `live`: per value, whether an output or a push depends on it. Leaves out tables of which a batch has as many ids as
// there are rows.
std::vector<SparseTable> FindSparseTables(const UpdateFacts& facts, const UpdatePlan& plan,
                                          const std::vector<bool>& live);

}  // namespace meshwork
