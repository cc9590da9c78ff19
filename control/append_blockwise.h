// The blockwise forms (ops/blockwise.h) that a compiled program may have in the place of ops, for those who
// prove it right.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// `global`, a program, to which the blockwise forms of its ops are appended for every number of
// blocks that dims of `local` are cut into; nothing if none of its ops has one.
struct WithBlockwise {
  Graph graph;
  std::vector<std::pair<ValueId, ValueId>> same;  // a result of a form, and that of the op
  std::vector<ValueId> owners;                    // per value that was appended: a result of the op
};
std::optional<WithBlockwise> AppendBlockwise(const Graph& global, const Graph& local);

}  // namespace meshwork
