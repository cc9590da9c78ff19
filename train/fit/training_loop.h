// The loop of TrainAndEvaluate, in a process that trains.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/train_spec.h"

namespace meshwork {

// The place of this process.
struct TrainingPlace {
  std::string name = {};   // Processes::Name()
  int64_t generation = 0;  // Processes::generation()
};

// Trains up to train.max_steps steps, or until training is stopped, from the newest checkpoint in config.model_dir if
// there is one. `eval`: evaluated after each checkpoint; null: an evaluator does. All domains of config.session call it
// alike. Returns and errors: those of TrainAndEvaluate. REQUIRES: the specs and the config are right; config.log and
// config.seconds are given.
absl::StatusOr<Evaluation> TrainWithCheckpoints(const ModelFn& model, const TrainSpec& train,
                                                const EvalSpec* eval, const RunConfig& config,
                                                const TrainingPlace& place = {});

}  // namespace meshwork
