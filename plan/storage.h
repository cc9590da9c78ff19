// Which values of a local program lie in the same memory: a result is written over an operand that nobody
// needs any more, the new value of a variable over the old one, and a view (OpRow::is_view) is its operand's
// bytes.
//
//   %a = tanh %x
//   %b = exp %a                  // lies where %a did
//   %c = reshape %b shape=[2,2]  // is what lies there: nothing is done
//   %n = mul %w, %c
//   update %w = %n               // and %n where %w does: nobody reads the old value after that
//
// Writing in place is an optimisation and never changes what a program means. Pure functions, thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Whether one value may lie where the other does, as far as the caller knows: where a process keeps one copy
// of what is equal on several devices, only values of which it keeps as many copies. Types are compared
// anyway.
using SameCopies = std::function<bool(ValueId a, ValueId b)>;

// Per value the one whose bytes it is: of a view that of its operand, of any other value itself. A view of an
// argument that the program gives out is copied.
std::vector<ValueId> FindContents(const Graph& local, const SameCopies& same_copies = nullptr);

// Per value the first one that lies in its memory: an argument, or itself if it has memory of its own. An
// empty `same_copies` says yes, as for a device alone. Laws: plan[plan[v]] == plan[v]; at most one value of a
// storage, and its views, are read after a node writes another there.
std::vector<ValueId> PlanStorages(const Graph& local, const SameCopies& same_copies = nullptr);

// Per update, whether its new value is the old one of another variable that is updated as well (two that
// swap), so that it is copied aside at the end of the step, before either is written.
std::vector<bool> SetAside(const Graph& local);

}  // namespace meshwork
