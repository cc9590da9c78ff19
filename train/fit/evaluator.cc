#include "meshwork/train/fit/evaluator.h"

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {
namespace {

constexpr auto kPauseBetweenLooks = std::chrono::milliseconds(200);  // between two looks into the folder

class Evaluator {
 public:
  Evaluator(Session session, int64_t max_steps, const EvalSpec& spec, const RunConfig& config)
      : session_(std::move(session)), max_steps_(max_steps), spec_(spec), config_(config) {}

  absl::StatusOr<Evaluation> Run() {
    const double began = config_.seconds();
    double last_new = began;
    std::optional<double> last_begun;
    while (config_.stop == nullptr || !config_.stop()) {
      const std::optional<FoundCheckpoint> found = FindNew();
      const double now = config_.seconds();
      if (found.has_value()) last_new = now;
      const bool is_last = found.has_value() && found->step >= max_steps_;
      const bool is_due = now - began >= spec_.start_delay_secs &&
                          (!last_begun.has_value() || now - *last_begun >= spec_.throttle_secs);
      if (found.has_value() && (is_due || is_last)) {
        last_begun = now;
        MESHWORK_ASSIGN_OR_RETURN(const bool is_done, TryEvaluate(*found));
        if (is_last && is_done) return last_;
        continue;
      }
      if (now - last_new > config_.evaluator_patience_secs) return Late();
      std::this_thread::sleep_for(kPauseBetweenLooks);
    }
    config_.log(fmt::format("Stopped before step {}.", max_steps_));
    return last_;
  }

 private:
  // The newest checkpoint that can be used, unless it was seen before.
  std::optional<FoundCheckpoint> FindNew() {
    absl::StatusOr<std::vector<FoundCheckpoint>> all = ListCheckpoints(config_.model_dir);
    if (!all.ok()) return std::nullopt;  // as long as nothing has been saved there is no folder
    for (FoundCheckpoint& found : *all) {
      if (!found.index.ok()) continue;
      newest_ = found.step;
      if (seen_.contains({found.step, found.index->written})) return std::nullopt;
      return std::move(found);
    }
    return std::nullopt;
  }

  absl::Status Restore(const std::string& path) {
    // Restores all variables that the evaluation has. Those of training alone, such as the optimizer's state,
    // are left out.
    RestoreOptions options{.partial = true};
    for (const std::string& name : session_.variable_names()) options.names[name] = name;
    return session_.Restore(path, options).status();
  }

  // Returns whether it evaluated: not if the checkpoint cannot be restored and is not the last one.
  absl::StatusOr<bool> TryEvaluate(const FoundCheckpoint& found) {
    if (const absl::Status status = Restore(found.path); !status.ok()) {
      // It was removed meanwhile, as old ones are: there is a newer one.
      if (!ReadCheckpointIndex(found.path).ok()) return false;
      if (found.step >= max_steps_) return status;
      config_.log(fmt::format("{} The checkpoint is left out.", MessageOf(status)));
      seen_.emplace(found.step, found.index->written);
      return false;
    }
    seen_.emplace(found.step, found.index->written);
    MESHWORK_ASSIGN_OR_RETURN(Metrics metrics, Evaluate(session_, spec_));
    last_ = {found.step, std::move(metrics)};
    SaveResult(last_, spec_, config_);
    return true;
  }

  absl::Status Late() const {
    return absl::DeadlineExceededError(fmt::format(
        "TrainAndEvaluate: {}: no new checkpoint within {} s; {}, and training ends with step {}. Check that the training "
        "runs and saves there, or set a longer evaluator_patience_secs.",
        config_.model_dir, config_.evaluator_patience_secs,
        newest_ < 0 ? "there is none" : fmt::format("the newest one is of step {}", newest_), max_steps_));
  }

  Session session_;
  const int64_t max_steps_;
  const EvalSpec& spec_;
  const RunConfig& config_;
  Evaluation last_;
  int64_t newest_ = -1;                             // its step
  std::set<std::pair<int64_t, std::string>> seen_;  // step and time of what was evaluated, or left out
};

}  // namespace

absl::StatusOr<Evaluation> EvaluateCheckpoints(const ModelFn& model, int64_t max_steps, const EvalSpec& spec,
                                               const RunConfig& config) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, BuildModel(model, Mode::kEvaluate));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, config.session));
  const RunConfig here = WithDefaults(config);
  return Evaluator(std::move(session), max_steps, spec, here).Run();
}

}  // namespace meshwork
