// The blockwise forms (ops/blockwise.h) that a compiled program may have in place of ops, for the proof that
// it is right.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `global` with the blockwise forms of its ops appended, for every number of blocks that dims of `local` are
// cut into; nothing if none of its ops has a blockwise form.
struct WithBlockwise {
  Graph graph;
  std::vector<std::pair<ValueId, ValueId>> same;  // a result of a form, and the op's result that it equals
  std::vector<ValueId> owners;                    // per value that was appended: a result of the op
};
std::optional<WithBlockwise> AppendBlockwise(const Graph& global, const Graph& local);

}  // namespace meshwork
