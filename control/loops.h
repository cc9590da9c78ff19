// A program with loops and branches, opened: the bodies stand among the other nodes, once, between marks.
//
//   %h1, %s = scan %h0, %w length=8 sums=1 (var %h, %v) {     %h  = enter %h0
//     %a = matmul %h, %v                                       %v  = enter %w
//     update %h = %a                                    <->    %a  = matmul %h, %v
//     return %a                                                %h1 = leave %a, %h
//   }                                                          %s  = leave_sum %a
//
// So layouts spread through bodies as through everything else, operands of loops are brought where their
// bodies want them, and what a body leaves owed passes out of it. The marks' rules say which dims lie alike;
// what the letters cannot promise (a carry lies alike before, within and after the loop) AgreeAtMarks does.
// No value of one body is read in another, so that the bodies can be told apart again.
//
// Pure functions, thread-safe.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// A loop or a branch that has been opened; its marks say by their attribute "loop" which.
struct OpenedLoop {
  Node node;       // as it was; its operands and results mean nothing any more
  int around = 0;  // the body that it stands in, see BodyOf; 0: none
};

struct OpenedGraph {
  Graph graph;
  std::vector<OpenedLoop> loops = {};
};

bool HasLoops(const Graph& graph);

OpenedGraph OpenLoops(const Graph& graph);
// REQUIRES: `graph` is opened.graph, or what passes made of it that keep marks and do not join bodies.
Graph CloseLoops(const Graph& graph, const std::vector<OpenedLoop>& loops);

// A carry of a scan in an opened program. One that is linear in itself may stay owed through the loop.
struct ScanCarry {
  int enter, leave;     // its marks
  ValueId value, next;  // in an iteration, and for the next one
  int64_t length;       // iterations
};
std::vector<ScanCarry> ScanCarries(const Graph& opened);

// Whether a node is a mark. Marks are in no registry and in no text; their rows are called as the op that was
// opened.
bool IsMark(const Node& node);
// Whether it is a carry after a loop: operand 1 is the one that the body is given.
bool LeavesCarry(const Node& node);
// Whether its operands must lie as the results do, and whole.
bool IsExactMark(const Node& node);
// Marks of one loop live and die together: which one this is of. REQUIRES: IsMark.
int LoopOf(const Node& mark);

// Lays out alike what is one value: a carry where it leaves its loop as where it enters it, an argument of
// both branches. REQUIRES: every value has a layout.
void AgreeAtMarks(Graph& graph);

}  // namespace meshwork
