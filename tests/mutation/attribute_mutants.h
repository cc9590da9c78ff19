// Mutants of the attributes of ops that compute or move: other numbers, other moves, other fills.
#pragma once

#include "meshwork/ir/graph.h"
#include "mutation/mutant_writer.h"

namespace meshwork {

// Mutants of `node`, at which `writer` stands.

// Changes a flag, a number or a list.
void OtherAttributes(const MutantWriter& writer, const Node& node);

// Moves elements from beside the right ones: changes an amount of the move by one, or amounts of two lists,
// so that the result keeps its size. REQUIRES: `node` moves elements.
void OtherMoves(const MutantWriter& writer, const Node& node);

// Other fills of moves, and other reals among the attributes of ops that compute.
void OtherFills(const MutantWriter& writer, const Node& node);

}  // namespace meshwork
