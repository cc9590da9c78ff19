// Which values of a local program lie in the same memory: a result is written over an operand that is not
// needed any more, the new value of a variable over the old one, and a view (OpRow::is_view) shares its
// operand's bytes.
//
//   %a = tanh %x
//   %b = exp %a                  // lies where %a did
//   %c = reshape %b shape=[2,2]  // shares the bytes of %b: nothing is done
//   %n = mul %w, %c              // lies where %w does: the old value is not read after this node
//   update %w = %n
//
// A variable may be kept instead: then its old value stays until the end of the step (ExecutorOptions::atomic).
//
// Writing in place is an optimisation and never changes what a program means. Pure functions, thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// Whether one value may lie where the other does, as far as the caller knows. (If a process keeps one copy of
// a value that is equal on several devices, both values must have as many copies.) Types are compared anyway.
using SameCopies = std::function<bool(ValueId a, ValueId b)>;

// Per value, the value whose bytes it has: for a view that of its operand, for any other value the value
// itself. A view of an argument that is an output of the program is copied.
std::vector<ValueId> FindContents(const Graph& local, const SameCopies& same_copies = nullptr);

// Per value, the first value that lies in its memory: an argument, or itself if it has memory of its own. An empty
// `same_copies` counts as always true, as for one device alone. `kept`: per argument, whether it is a variable that
// must not be written over; empty: no variable is kept. Laws: plan[plan[v]] == plan[v]; after a node writes a value to
// a storage, only this value and its views are read there.
std::vector<ValueId> PlanStorages(const Graph& local, const SameCopies& same_copies = nullptr,
                                  const std::vector<bool>& kept = {});

// Per update, whether its new value is the old value of another variable that is updated as well (two
// variables that swap). Such a value is copied aside at the end of the step, before either variable is
// written.
std::vector<bool> SetAside(const Graph& local);

}  // namespace meshwork
