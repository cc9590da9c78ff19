// Mutants of the attributes of ops that compute or move: other numbers, other moves, other fills.
#pragma once

#include "meshwork/ir/graph.h"
#include "mutation/mutant_writer.h"

namespace meshwork {

// Mutants of `node`, at which `writer` stands.

// A flag, a number or a list is another one.
void OtherAttributes(const MutantWriter& writer, const Node& node);

// Elements from beside the right ones: an amount of a move more or less, or of two lists, so that the
// result keeps its size. REQUIRES: `node` moves elements.
void OtherMoves(const MutantWriter& writer, const Node& node);

// Other values where a move fills in, and wherever else a real is an attribute of what is computed.
void OtherFills(const MutantWriter& writer, const Node& node);

}  // namespace meshwork
