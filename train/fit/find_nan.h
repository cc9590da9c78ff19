// FindFirstNan: which op of a step makes the first NaN.
//
//   MESHWORK_ASSIGN_OR_RETURN(const std::optional<NanOrigin> origin, FindFirstNan(session, feeds));
//   if (origin.has_value()) fmt::print("{}\n", origin->message);
//   // log (model.cc:41) makes the first NaN: its result, f32[4,8], has 3, the first at [0,2]. Operand 0, "x", f32[4,8], from
//   // -0.31 to 2.7.
//
// Computes the step once more from the session's variables as they are now, op by op, on whole tensors, each op by a program
// of its own on the session's mesh. So it is slow, some milliseconds an op, and holds whole values, those that later ops
// read. Nothing is updated. To look at a step that has already run, go back first (Session::Undo); StopOnNan
// (train/fit/callbacks.h) does all of this.
//
// NaN is what is looked for. Infinities are often meant, as in the mask of an attention; they are named where a NaN comes of
// them, and where an output or a new value of a variable is infinite and nothing is NaN.
//
// Thread safety: the session's thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

struct NanOrigin {
  std::string where;        // "log (model.cc:41)", "input \"x\"", "variable \"w\""
  SourceLocation location;  // of the op, or of the declaration
  std::string message;
};

// Nothing: all values are finite, or no output and no update is anything else. Errors: the session has several domains, of
// which none has all values; those of Session::Run for these feeds; those of Session::Create, for an op by itself.
absl::StatusOr<std::optional<NanOrigin>> FindFirstNan(const Session& session, const Feeds& feeds);

// The same for the step that has just run with these feeds and gave what is not finite: goes back to the variables before it,
// where they stay. Returns NanOrigin::message, or in a sentence why there is none: nothing was found, or the error of
// Session::Undo or FindFirstNan.
std::string UndoAndExplainNan(Session& session, const Feeds& feeds);

}  // namespace meshwork
