// The marks between which the bodies of opened loops stand (ops/control/loops.h): their rows, and which mark a
// node is.
//
//   %h  = enter %h0           kEnter: what a body is given
//   %h1 = leave %a, %h        kLeave: a carry after a loop
//   %s  = leave_sum %b        kSum: what iterations return, added up
//
// Attributes: "loop" and "region" say which body a mark is of, "number" which argument or result it stands
// for, "length" how often the loop runs. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"

namespace meshwork {

enum class Mark { kEnter, kSlice, kLeave, kStack, kSum, kBranch, kManualEnter, kManualLeave };
inline constexpr Mark kAllMarks[] = {Mark::kEnter, Mark::kSlice,  Mark::kLeave,       Mark::kStack,
                                     Mark::kSum,   Mark::kBranch, Mark::kManualEnter, Mark::kManualLeave};

// The row of a mark of `loop`. It has the name of the op that is opened, for use in messages: users know no
// marks. REQUIRES: `loop` is a node with bodies.
const OpRow& MarkRowOf(Mark mark, const Node& loop);

bool IsMark(const Node& node, Mark mark);
// Whether the node is the mark of an argument of a body.
bool EntersBody(const Node& node);

// The attribute `name` of a mark.
int64_t MarkNumber(const Node& mark, std::string_view name);

}  // namespace meshwork
