// Opens the loops and branches of a program: each body stands once among the other nodes, between marks.
//
//   %h1, %s = scan %h0, %w length=8 sums=1 (var %h, %v) {     %h  = enter %h0
//     %a = matmul %h, %v                                       %v  = enter %w
//     update %h = %a                                    <->    %a  = matmul %h, %v
//     return %a                                                %h1 = leave %a, %h
//   }                                                          %s  = leave_sum %a
//
// So layouts spread through bodies as through all other nodes, operands of loops get the layouts that the
// bodies want, and reductions that a body leaves owed pass out of it. The marks' rules say which dims are
// sharded alike; AgreeAtMarks enforces what letters cannot express: a carry has one layout before, within and
// after the loop. No value of one body is read in another, so that the bodies can be separated again.
//
// Pure functions, thread-safe.
#pragma once

#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// A loop or a branch that has been opened. The attribute "loop" of a mark is its number.
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
// REQUIRES: `graph` is opened.graph, or made from it by passes that keep marks and do not join bodies.
Graph CloseLoops(const Graph& graph, const std::vector<OpenedLoop>& loops);

// A carry of a scan in an opened program. A carry that is linear in itself may stay partial through the loop.
struct ScanCarry {
  int enter, leave;     // its marks
  ValueId value, next;  // in an iteration, and for the next iteration
  int64_t length;       // iterations
};
std::vector<ScanCarry> ScanCarries(const Graph& opened);

// Whether a node is a mark. Marks are in no registry and in no text; their rows have the name of the op that
// was opened.
bool IsMark(const Node& node);
// Whether the node is the mark of a carry after its loop: operand 1 is the carry that the body gets.
bool LeavesCarry(const Node& node);
// Whether the node's results come in their layouts, and its operands must have the same, and be whole.
bool IsExactMark(const Node& node);
// The number of the loop that the mark belongs to; marks of one loop live and die together. REQUIRES: IsMark.
int LoopOf(const Node& mark);

// How often each node of an opened program runs in a step, as far as its operands show: a loop of unknown length counts
// as one iteration, and a node that depends on constants alone counts once.
std::vector<int64_t> RunsOf(const Graph& opened);

// Pairs of values that stand for the same value and must have one layout: a carry where it enters and where it leaves
// its loop, an argument of both branches. The second value of a pair gets the layout of the first.
std::vector<std::pair<ValueId, ValueId>> AlikeAtMarks(const Graph& opened);
// Gives them one layout. REQUIRES: every value has a layout.
void AgreeAtMarks(Graph& graph);

}  // namespace meshwork
