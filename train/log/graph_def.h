// A Graph as TensorFlow's GraphDef, which TensorBoard draws.
//
//   std::string bytes = GraphDefOf(graph);   // of a global program, or of the local one: session.program().body
//
// A node for each input ("input"), variable ("variable"), op, update of a variable ("update") and output ("output"):
//
//   name    its own name, as dense1/kernel; else that of its NameScope and op_number, as dense1/matmul_3, with the number
//           of the text form (%3), and outside of scopes file:line, as mlp.cc:17/matmul_3. TensorBoard folds names at each
//           '/': one box for each part of a model, or for each line of the user's program
//   op      the name of the op's row
//   input   the names of its operands; result r > 0 of a node is name:r
//   device  of a collective of a local program, the axes over which it runs, as (batch); colouring by device shows these
//   attr    the op's attributes; type (f32[128,784]), layout ({batch,_}) and, in a local program, the whole tensor of each
//           result; cause: why the compiler put it there; line; gather; _output_shapes, which TensorBoard writes on edges
//
// Bodies of loops and branches are nodes below their node: name/body/…, name/then/… and name/else/…. An update of w is
// w/update, an output loss is outputs/loss. A name that is taken twice gets a number behind it.
//
// Pure function, thread-safe. Format: tensorflow/core/framework/graph.proto, node_def.proto, attr_value.proto.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"

namespace meshwork {

// REQUIRES: graph.status() is OK.
std::string GraphDefOf(const Graph& graph);

}  // namespace meshwork
