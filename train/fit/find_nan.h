// FindFirstNan: which op of a step makes the first NaN.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::optional<NanOrigin> origin, FindFirstNan(session, feeds));
//   if (origin.has_value()) fmt::print("{}\n", origin->message);
//   // log (model.cc:41) makes the first NaN: its result, f32[4,8], has 3, the first at [0,2]. Operand 0, "x", f32[4,8], from
//   // -0.31 to 2.7.
//
// Computes the step once more from the session's variables as they are now, op by op, on whole tensors, each op by a
// program of its own on the session's mesh. So it is slow, some milliseconds per op, and it holds whole values as long
// as later ops read them. Nothing is updated. To look at a step that has already run, go back first (Session::Undo);
// StopOnNan (train/fit/callbacks.h) does all of this.
//
// It looks for NaN. Infinities are often meant, as in the mask of an attention. It names them only if a NaN comes from
// them, or if an output or a new value of a variable is infinite and nothing is NaN.
//
// Thread safety: the session's thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"

namespace meshwork {

struct NanOrigin {
  std::string where;        // "log (model.cc:41)", "input \"x\"", "variable \"w\""
  SourceLocation location;  // of the op, or of the declaration
  std::string message;
};

// Nothing: no value is NaN, and all outputs and updates are finite. Errors: the session has several domains, and none
// of them has all values; those of Session::Run for these feeds; those of Session::Create for the program of one op.
absl::StatusOr<std::optional<NanOrigin>> FindFirstNan(const Session& session, const Feeds& feeds);

// The same for the step that has just run with these feeds and gave a value that is not finite. Undoes the step first;
// the variables stay as they were before it. Returns NanOrigin::message, or a sentence that says why there is none:
// nothing was found, or Session::Undo or FindFirstNan failed.
std::string UndoAndExplainNan(Session& session, const Feeds& feeds);

}  // namespace meshwork
