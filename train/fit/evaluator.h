// Evaluator: a process that evaluates the checkpoints of a training as they come.
//
// It has a mesh of its own, onto which it restores the checkpoints of the training processes. It shares nothing with
// them but the folder of checkpoints, so training never waits for it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

// Evaluates each new checkpoint of config.model_dir; if several come during an evaluation, only the last of them. Logs
// each result and appends it to ResultsFile. Returns the result of the first checkpoint of step `max_steps` or more;
// or, if config.stop asks it to stop, the last result. A checkpoint that cannot be restored is reported and left out;
// if its step is `max_steps` or more, that is an error.
//
// Errors: no new checkpoint within config.evaluator_patience_secs; the last checkpoint lacks a variable of the model,
// or has another type or shape for it; those of Session::Create and Evaluate.
absl::StatusOr<Evaluation> EvaluateCheckpoints(const ModelFn& model, int64_t max_steps, const EvalSpec& spec,
                                               const RunConfig& config);

}  // namespace meshwork
