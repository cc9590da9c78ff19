#include "meshwork/train/fit/training_loop.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/train/cluster/pulse.h"
#include "meshwork/train/fit/checkpoints.h"
#include "meshwork/train/fit/data_agreement.h"
#include "meshwork/train/fit/data_position.h"
#include "meshwork/train/fit/fit_loop.h"
#include "meshwork/train/fit/prefetch_to_device.h"
#include "meshwork/train/log/step_log.h"

namespace meshwork {
namespace {

class Trainer {
 public:
  Trainer(Session session, const TrainSpec& train, const EvalSpec* eval, const RunConfig& config,
          const TrainingPlace& place)
      : train_(train),
        eval_(eval),
        config_(config),
        session_(std::move(session)),
        pulse_(config.session.executor.transport,
               {.name = place.name, .stop = config.stop, .clock = config.seconds, .report = config.log}),
        log_(config.log_step_count_steps, config.seconds, config.log) {}
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Takes the folder, and what is there.
  absl::Status Start(const ModelFn& model, const Graph& trained, const TrainingPlace& place) {
    began_ = config_.seconds();
    MESHWORK_ASSIGN_OR_RETURN(ahead_, PrefetchToDevice::Create(session_));
    if (eval_ != nullptr) {
      MESHWORK_ASSIGN_OR_RETURN(evaluation_,
                                EvaluationHere::Create(model, trained, session_, config_.session));
    }
    const CheckpointOptions options{.dir = config_.model_dir,
                                    .seconds = config_.save_checkpoints_secs,
                                    .steps = config_.save_checkpoints_steps,
                                    .keep = config_.keep_checkpoint_max,
                                    .resume = true,
                                    .generation = place.generation,
                                    .clock = config_.seconds};
    MESHWORK_ASSIGN_OR_RETURN(checkpoints_, CheckpointManager::Open(options, session_, pulse_));
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> saved, checkpoints_->Restore());
    if (!saved.has_value()) return absl::OkStatus();
    step_ = saved->step;
    const absl::StatusOr<DataPosition> position = PositionIn(saved->facts, train_.input);
    if (!position.ok())
      return Annotate(position.status(), fmt::format("TrainAndEvaluate: {}: ", config_.model_dir));
    position_ = *position;
    config_.log(fmt::format("Restored the checkpoint of step {} from {}.", step_, config_.model_dir));
    return absl::OkStatus();
  }

  absl::StatusOr<Evaluation> Run() {
    absl::StatusOr<Evaluation> result = Train();
    if (!result.ok()) SayHowToGoOn();
    return result;
  }

 private:
  absl::StatusOr<Evaluation> Train() {
    while (!IsOver()) MESHWORK_RETURN_IF_ERROR(TrainEpoch());
    if (pulse_.stops() && step_ < train_.max_steps)
      config_.log(fmt::format("Stopped by {} after step {}.", pulse_.stopped_by(), step_));
    if (saved_step_ != step_ && checkpoints_->last_step() != step_) LogSaving();
    MESHWORK_RETURN_IF_ERROR(checkpoints_->Finish(Note()));
    if (eval_ != nullptr && step_ >= train_.max_steps && evaluated_.global_step != step_)
      MESHWORK_RETURN_IF_ERROR(Evaluate());
    if (const auto loss = last_.metrics.find("loss"); loss != last_.metrics.end())
      config_.log(fmt::format("Loss for final step: {:.6g}.", loss->second));
    last_.global_step = step_;
    return evaluated_.global_step == step_ ? evaluated_ : last_;
  }

  void SayHowToGoOn() {
    checkpoints_.reset();  // nothing is being written any more
    const int64_t saved = NewestStep(config_.model_dir);
    config_.log(fmt::format(
        "TrainAndEvaluate: it has failed after step {}. {}", step_,
        saved < 0 ? fmt::format("Nothing is saved in {}; the same program begins again from its start.",
                                config_.model_dir)
                  : fmt::format("Step {} is saved in {}; the same program goes on from there.", saved,
                                config_.model_dir)));
  }

  bool IsOver() const { return step_ >= train_.max_steps || pulse_.stops(); }

  // Trains the rest of the epoch, up to the last step.
  absl::Status TrainEpoch() {
    BatchesOptions options = train_.input.batches;
    options.epoch = position_.epoch;
    options.first_batch = position_.batch;
    options.rows = [this](int64_t rows) { return session_.RowsHere(rows); };
    ahead_->Start(FeedsOfBatches(train_.input.dataset.Batches(options), train_.input.feeds),
                  train_.max_steps - step_);
    while (!IsOver()) {
      const absl::StatusOr<const PrefetchedFeeds*> batch = ahead_->Next();
      MESHWORK_RETURN_IF_ERROR(internal::FailInAll(session_, batch.status()));
      if (*batch == nullptr) break;
      MESHWORK_RETURN_IF_ERROR(Step(**batch));
    }
    ahead_->Stop();
    return absl::OkStatus();
  }

  absl::Status Step(const PrefetchedFeeds& batch) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session_.Run(batch.feeds, batch.staged));
    ++step_;
    position_.Advance(train_.input);
    last_.metrics = ScalarsOf(result);
    MESHWORK_ASSIGN_OR_RETURN(const double loss, result.scalar("loss"));
    if (!std::isfinite(loss))
      return absl::OutOfRangeError(fmt::format(
          "TrainAndEvaluate: the loss of step {} is {}; training has diverged. Go on from an earlier checkpoint, "
          "with a smaller learning rate.",
          step_, loss));
    log_.Step(step_, loss);
    MESHWORK_RETURN_IF_ERROR(pulse_.AfterStep());
    MESHWORK_ASSIGN_OR_RETURN(const bool is_saved, checkpoints_->AfterStep(step_, [this] { return Note(); }));
    if (!is_saved) return absl::OkStatus();
    saved_step_ = step_;
    LogSaving();
    MESHWORK_ASSIGN_OR_RETURN(const bool is_due, IsEvaluationDue());
    return is_due ? Evaluate() : absl::OkStatus();
  }

  CheckpointNote Note() const { return {.step = step_, .facts = FactsOf(position_, train_.input)}; }

  void LogSaving() const {
    config_.log(fmt::format("Saving checkpoints for {} into {}.", step_, config_.model_dir));
  }

  // Whether the checkpoint of this step, which is not known to be the last one, is evaluated. By the clock of domain 0.
  absl::StatusOr<bool> IsEvaluationDue() const {
    if (eval_ == nullptr) return false;
    if (eval_->start_delay_secs == 0 && eval_->throttle_secs == 0) return true;
    const double now = config_.seconds();
    const bool is_due = now - began_ >= eval_->start_delay_secs &&
                        (!evaluation_began_.has_value() || now - *evaluation_began_ >= eval_->throttle_secs);
    Transport* const transport = config_.session.executor.transport;
    if (transport == nullptr) return is_due;
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                              transport->AllGather("whether to evaluate", is_due ? "yes" : "no"));
    return all[0] == "yes";
  }

  absl::Status Evaluate() {
    evaluation_began_ = config_.seconds();
    absl::StatusOr<Metrics> metrics;
    log_.Apart([&] { metrics = evaluation_->Run(*eval_); });
    MESHWORK_RETURN_IF_ERROR(metrics.status());
    evaluated_ = {step_, *std::move(metrics)};
    Transport* const transport = config_.session.executor.transport;
    if (transport == nullptr || transport->domain() == 0) SaveResult(evaluated_, *eval_, config_);
    return absl::OkStatus();
  }

  const TrainSpec& train_;
  const EvalSpec* const eval_;
  const RunConfig& config_;
  Session session_;
  Pulse pulse_;
  StepLog log_;
  std::optional<EvaluationHere> evaluation_;
  std::unique_ptr<CheckpointManager> checkpoints_;

  int64_t step_ = 0;
  DataPosition position_;  // of the next step
  Evaluation last_;        // of the last step, on its batch
  int64_t saved_step_ = -1;
  Evaluation evaluated_{.global_step = -1, .metrics = {}};
  double began_ = 0;
  std::optional<double> evaluation_began_;
  std::unique_ptr<PrefetchToDevice> ahead_;
};

// The facts that are equal in all processes that train on the input together. `what` begins the names.
void AddFacts(const std::string& what, const InputSpec& input, std::vector<DataFact>& facts) {
  for (const auto& [name, value] : FactsOf({}, input)) facts.push_back({what + name, value, kSameData});
  facts.push_back({what + "hash of the examples", fmt::format("{:016x}", internal::ContentsOf(input.dataset)),
                   kSameData});
}

std::vector<DataFact> FactsOfSpecs(const TrainSpec& train, const EvalSpec* eval) {
  std::vector<DataFact> facts = {OptionFact("TrainSpec::max_steps", train.max_steps)};
  AddFacts("TrainSpec's ", train.input, facts);
  facts.push_back(OptionFact("number of EvalSpecs", eval == nullptr ? 0 : 1));
  if (eval == nullptr) return facts;
  facts.push_back(OptionFact("EvalSpec::steps", eval->steps));
  AddFacts("EvalSpec's ", eval->input, facts);
  return facts;
}

}  // namespace

absl::StatusOr<Evaluation> TrainWithCheckpoints(const ModelFn& model, const TrainSpec& train,
                                                const EvalSpec* eval, const RunConfig& config,
                                                const TrainingPlace& place) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, BuildModel(model, Mode::kTrain));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, config.session));
  MESHWORK_RETURN_IF_ERROR(DataAgreement("TrainAndEvaluate", session).Begin(absl::OkStatus(), [&] {
    return FactsOfSpecs(train, eval);
  }));
  Trainer trainer(std::move(session), train, eval, config, place);
  MESHWORK_RETURN_IF_ERROR(trainer.Start(model, graph, place));
  return trainer.Run();
}

}  // namespace meshwork
