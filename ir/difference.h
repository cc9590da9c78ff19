// Whether two programs are the same program.
//
//   FirstDifference(g, ParseGraph(PrintGraph(g)).value())   -> "": a text holds the whole program
//   FirstDifference(a, b)                                   -> "node 3 (matmul): operand 1 is %w, not %b"
//
// It compares the meshes, the names of programs, arguments and outputs, the names that values were given,
// types, global types, layouts, ops, attributes (numbers bit by bit, NaN being NaN), updates and outputs, in
// their order. It does not compare facts that a text does not carry: the numbers of values, the source
// locations of nodes, the compiler's reasons for them, the initializers of variables.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

// The first difference as "where: a's, not b's", or "" where there is none.
std::string FirstDifference(const Graph& a, const Graph& b);

}  // namespace meshwork
