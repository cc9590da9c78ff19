// Some results of a collective of several values as a collective of its own.
#pragma once

#include <cstddef>
#include <span>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/rewrite.h"

namespace meshwork {

// Appends the collective `node` of `from`, for these of its results alone, to the rewriter's graph, with their causes.
// REQUIRES: result r of the node is made of operand r; the rewriter rewrites `from`, and these operands were
// copied.
void CopyPart(const Graph& from, const Node& node, std::span<const size_t> results, Rewriter& rewriter);

}  // namespace meshwork
