// Evaluator: a process that evaluates the checkpoints of a training as they come.
//
// It is alone: it has a mesh of its own, onto which it restores what the others have saved, and meets them in their folder
// of checkpoints only. So training never waits for it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

// Evaluates the newest checkpoint of config.model_dir, again and again, as new ones come: where several come during an
// evaluation, only the last of them. Logs each result and appends it to ResultsFile. Returns that of the first checkpoint
// of step `max_steps` or more; or, when config.stop says so, the last one. A checkpoint that cannot be restored is reported and left out, unless it is that one.
//
// Errors: no new checkpoint within config.evaluator_patience_secs; the last checkpoint lacks a variable of the model, or has
// another type or shape for it; those of Session::Create and EvaluateOn.
absl::StatusOr<Evaluation> EvaluateCheckpoints(const ModelFn& model, int64_t max_steps, const EvalSpec& spec,
                                               const RunConfig& config);

}  // namespace meshwork
