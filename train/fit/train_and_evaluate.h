// TrainAndEvaluate trains a model, saves it from time to time, evaluates what it has saved, and goes on where it was
// stopped, as tf.estimator.train_and_evaluate does.
//
//   JoinOptions join{.may_evaluate = true};
//   MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(join));
//   return processes.Run([&]() -> absl::Status {
//     TrainSpec train{.input = {digits.train, {.batch_size = 128, .shuffle_seed = 7}, Feed}, .max_steps = 2000};
//     EvalSpec eval{.input = {digits.test, {.batch_size = 128}, Feed}};
//     RunConfig config{.model_dir = "runs/cnn"};
//     MESHWORK_ASSIGN_OR_RETURN(Evaluation last, TrainAndEvaluate(Model, train, eval, config, processes));
//     if (processes.is_chief()) fmt::print("{}\n", last.ToString());   // ({"loss": 0.21, "global_step": 2000})
//     return absl::OkStatus();
//   });
//
// The chief and the workers train, as one session. Their checkpoints are in config.model_dir (train/fit/checkpoints.h).
// If there is one at the start, training goes on from the newest: with its variables, at its step, and with the
// examples that would have come next. So a run that was stopped, and started again with the same arguments, gives the
// weights of a run that was not; bit by bit if it has the same mesh and processes.
//
// After each checkpoint the model is evaluated: by the processes that train, between two steps, with the weights that
// were saved; or by an evaluator, a process of its own with a mesh of its own (RunConfig::evaluate_in). Results are
// lines of JSON in MODEL_DIR/eval/results.jsonl. The chief, and the evaluator, log
//
//   loss = 2.3012, step = 100 (1.219 sec)
//   global_step/sec: 82.1
//   Saving checkpoints for 600 into runs/cnn.
//   Saving dict for global step 600: accuracy = 0.9312, global_step = 600, loss = 0.2231
//   Loss for final step: 0.198.
//
// Thread safety: one thread of each process.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/train/cluster/processes.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

// All processes of the cluster call it, within Processes::Run, with the same arguments. Returns the last evaluation. If
// an evaluator evaluates, or if training was stopped before its end (train/fit/checkpoints.h), the processes that train
// return the loss and the metrics of the last step on its batch, with the number of that step.
//
// Errors: a spec or the config is wrong; the model has no scalar output "loss"; the loss is infinite or no number;
// those of Session::Create, Run and Evaluate, of CheckpointManager, of PositionIn and of EvaluateCheckpoints; a part of
// the data cannot be loaded.
absl::StatusOr<Evaluation> TrainAndEvaluate(const ModelFn& model, const TrainSpec& train,
                                            const EvalSpec& eval, const RunConfig& config,
                                            const Processes& processes);

}  // namespace meshwork
