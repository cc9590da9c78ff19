#include "meshwork/train/fit/train_and_evaluate.h"

#include <cmath>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/train/fit/evaluator.h"
#include "meshwork/train/fit/training_loop.h"

namespace meshwork {
namespace {

template <typename... Args>
absl::Status Wrong(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError("TrainAndEvaluate: " + fmt::format(format, std::forward<Args>(args)...));
}

absl::Status CheckInput(std::string_view spec, const InputSpec& input) {
  if (input.dataset.size() == 0)
    return Wrong("{}: the data set has no examples; at least one is needed.", spec);
  if (input.feeds == nullptr)
    return Wrong("{}: input.feeds is missing; it makes the feeds of a batch.", spec);
  return Annotate(input.dataset.Batches(input.batches).status(), fmt::format("TrainAndEvaluate: {}: ", spec));
}

absl::Status CheckTrainSpec(const TrainSpec& train) {
  if (train.max_steps < 1) return Wrong("TrainSpec: max_steps is {}; it must be positive.", train.max_steps);
  return CheckInput("TrainSpec", train.input);
}

absl::Status CheckEvalSpec(const EvalSpec& eval) {
  if (eval.steps < 0) return Wrong("EvalSpec: steps is {}; it must be positive, or 0 for all.", eval.steps);
  if (eval.name.find('/') != std::string::npos)
    return Wrong("EvalSpec: the name \"{}\" has a slash; it becomes part of the name of a folder.",
                 eval.name);
  if (!(eval.throttle_secs >= 0) || !(eval.start_delay_secs >= 0))
    return Wrong("EvalSpec: throttle_secs is {} and start_delay_secs {}; neither may be negative.",
                 eval.throttle_secs, eval.start_delay_secs);
  return CheckInput("EvalSpec", eval.input);
}

absl::Status CheckConfig(const RunConfig& config) {
  if (config.model_dir.empty())
    return Wrong("RunConfig: model_dir is empty; name the folder of the checkpoints.");
  if (config.save_checkpoints_steps < 0 || !(config.save_checkpoints_secs > 0))
    return Wrong(
        "RunConfig: save_checkpoints_steps is {} and save_checkpoints_secs {}; give a positive number of steps, or 0 and a "
        "positive number of seconds.",
        config.save_checkpoints_steps, config.save_checkpoints_secs);
  if (config.keep_checkpoint_max < 1)
    return Wrong("RunConfig: keep_checkpoint_max is {}; at least one checkpoint stays.",
                 config.keep_checkpoint_max);
  if (config.log_step_count_steps < 1)
    return Wrong("RunConfig: log_step_count_steps is {}; it must be positive.", config.log_step_count_steps);
  if (!(config.evaluator_patience_secs > 0))
    return Wrong("RunConfig: evaluator_patience_secs is {}; it must be positive.",
                 config.evaluator_patience_secs);
  return absl::OkStatus();
}

bool HasEvaluator(const RunConfig& config, const Processes& processes) {
  if (config.evaluate_in == EvaluateIn::kAuto) return processes.cluster().count(Role::kEvaluator) > 0;
  return config.evaluate_in == EvaluateIn::kEvaluator;
}

absl::Status CheckRole(const RunConfig& config, const Processes& processes) {
  if (!processes.is_evaluator() || HasEvaluator(config, processes)) return absl::OkStatus();
  return Wrong(
      "this process is {}, and RunConfig::evaluate_in says that those that train evaluate; start no evaluator, or leave it "
      "at kAuto.",
      processes.cluster().task().ToString());
}

}  // namespace

absl::StatusOr<Evaluation> TrainAndEvaluate(const ModelFn& model, const TrainSpec& train,
                                            const EvalSpec& eval, const RunConfig& config,
                                            const Processes& processes) {
  if (model == nullptr) return Wrong("the model is missing; it builds the program of a mode.");
  MESHWORK_RETURN_IF_ERROR(CheckConfig(config));
  MESHWORK_RETURN_IF_ERROR(CheckRole(config, processes));
  if (!processes.is_evaluator()) MESHWORK_RETURN_IF_ERROR(CheckTrainSpec(train));
  if (processes.is_evaluator() || !HasEvaluator(config, processes))
    MESHWORK_RETURN_IF_ERROR(CheckEvalSpec(eval));
  RunConfig here = WithDefaults(config);
  processes.Use(here.session);
  if (!processes.is_chief() && !processes.is_evaluator()) here.log = [](std::string_view) {};
  try {
    if (processes.is_evaluator()) return EvaluateCheckpoints(model, train.max_steps, eval, here);
    return TrainWithCheckpoints(model, train, HasEvaluator(config, processes) ? nullptr : &eval, here,
                                {processes.Name(), processes.generation()});
  } catch (const absl::BadStatusOrAccess& error) {  // InputSpec::feeds has no other way to fail
    return error.status();
  }
}

}  // namespace meshwork
