#include "meshwork/train/fit/fit_loop.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/nn/metrics.h"

namespace meshwork {
namespace {

// The facts of a note.
constexpr const char kEpoch[] = "fit/epoch", kEpochSteps[] = "fit/epoch_steps", kWalk[] = "fit/walk",
                     kStepsPerEpoch[] = "fit/steps_per_epoch", kPosition[] = "fit/position",
                     kMeans[] = "fit/means", kSeconds[] = "fit/seconds", kHistory[] = "fit/history";

std::string CallbackFact(size_t c) { return fmt::format("fit/callback/{}", c); }

// The facts of a note, as they are read.
class FitFacts {
 public:
  explicit FitFacts(const CheckpointNote& note) : note_(note) {}

  absl::StatusOr<std::string> Text(const std::string& name) const {
    const auto found = note_.facts.find(name);
    if (found != note_.facts.end()) return found->second;
    return InvalidArgument(
        "Fit: the checkpoint of step {} has no fact \"{}\"; it is not from BackupAndResume with these callbacks. "
        "Choose another folder, or the callbacks that the training began with.",
        note_.step, name);
  }
  absl::StatusOr<int64_t> Number(const std::string& name) const {
    MESHWORK_ASSIGN_OR_RETURN(const std::string text, Text(name));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number >= 0) return number;
    return Damaged(name, InvalidArgument("\"{}\" is no number.", text));
  }
  absl::Status Damaged(const std::string& name, const absl::Status& why) const {
    return InvalidArgument("Fit: the checkpoint of step {}: fact \"{}\": {}", note_.step, name,
                           MessageOf(why));
  }

 private:
  const CheckpointNote& note_;
};

}  // namespace

// ---- FitState.

void FitState::Stop(std::string why) {
  std::string& stopped = loop_ == nullptr || loop_->agreement_.is_alone() ? history_.stopped : why_stop_;
  if (stopped.empty()) stopped = why.empty() ? "stopped" : std::move(why);
}

const Tensor* FitState::fed(std::string_view input) const {
  const auto found = fed_.find(std::string(input));
  return found == fed_.end() ? nullptr : &found->second;
}

absl::StatusOr<CheckpointNote> FitState::Note() const { return loop_->Note(); }

absl::Status FitState::GoOnFrom(const CheckpointNote& note) { return loop_->GoOnFrom(note); }

// ---- FitLoop.

FitLoop::FitLoop(Session& session, const Pipeline& data, const FitOptions& options)
    : session_(session),
      data_(data),
      options_(options),
      seconds_(options.seconds != nullptr ? options.seconds : SteadySeconds),
      pulse_(session.Here().transport,
             {.stop = options.stop, .clock = options.seconds, .report = options.log}),
      agreement_("Fit", session),
      state_(&session, pulse_, [this](std::string_view line) { Say(LogLevel::kInfo, line); }),
      callbacks_(internal::InOrderOfCalls(options.callbacks)),
      means_(session.graph(), options.outputs),
      walk_(options.initial_epoch) {
  state_.loop_ = this;
  state_.is_chief_ = session.Here().domain() == 0;
  state_.epochs_ = options.epochs;
  state_.epoch_ = options.initial_epoch;
  state_.steps_per_epoch_ = options.steps_per_epoch > 0 ? options.steps_per_epoch : data.size().value_or(0);
  state_.fed_ = options.fed;
  state_.has_validation_ = options.validation_data.has_value();
}

FitLoop::~FitLoop() {
  for (const CallbackPtr& callback : callbacks_) callback->Release();
}

absl::Status FitLoop::Call(absl::Status (Callback::*when)(FitState& state)) {
  for (const CallbackPtr& callback : callbacks_) MESHWORK_RETURN_IF_ERROR(Mine(((*callback).*when)(state_)));
  return absl::OkStatus();
}

void FitLoop::Say(LogLevel level, std::string_view line) const {
  if (!state_.is_chief_) return;
  if (options_.log != nullptr) options_.log(line);
  else LogText(level, line);
}

void FitLoop::SayWhatBegins() const {
  const DomainState here = session_.Here();
  const Mesh& mesh = session_.graph().mesh();
  std::vector<std::string> folders;
  for (const CallbackPtr& callback : callbacks_)
    if (const std::optional<SavedTraining> saved = callback->Saved()) folders.push_back(saved->dir);
  Say(LogLevel::kInfo,
      fmt::format(
          "Fit: {} from step {}; mesh {}, {} on {}; {}; {}.",
          Count(state_.epochs_ - options_.initial_epoch, "epoch"), state_.steps(), mesh.ToString(),
          Count(mesh.num_devices(), "device"), here.backend,
          here.num_domains() == 1
              ? "1 process"
              : fmt::format("{} processes by {}", here.num_domains(), here.transport->name()),
          folders.empty() ? "saves nothing" : fmt::format("saves in {}", fmt::join(folders, " and "))));
}

void FitLoop::SayHowToGoOn() const {
  std::string ways;
  bool resumes = false;
  // Nothing is being written any more.
  for (const CallbackPtr& callback : callbacks_) callback->Release();
  for (const CallbackPtr& callback : callbacks_) {
    const std::optional<SavedTraining> saved = callback->Saved();
    if (!saved.has_value() || saved->step < 0) continue;
    resumes |= saved->resumes;
    ways += saved->resumes ? fmt::format(" Step {} is saved in {}; the same Fit goes on from there.",
                                         saved->step, saved->dir)
                           : fmt::format(" The variables of step {} are saved in {}, for Session::Restore.",
                                         saved->step, saved->dir);
  }
  if (!resumes) ways += " The same Fit begins again from its start; BackupAndResume lets it go on.";
  Say(LogLevel::kError, fmt::format("Fit: it has failed after step {} of epoch {} of {}.{}", state_.in_epoch_,
                                    state_.epoch_ + 1, state_.epochs_, ways));
}

absl::StatusOr<History> FitLoop::Run() {
  absl::StatusOr<History> history = Train();
  if (!history.ok() && has_begun_) SayHowToGoOn();
  return history;
}

absl::StatusOr<History> FitLoop::Train() {
  absl::StatusOr<std::unique_ptr<PrefetchToDevice>> ahead =
      PrefetchToDevice::Create(session_, options_.prefetch_to_device);
  MESHWORK_RETURN_IF_ERROR(Mine(ahead.status()));
  ahead_ = *std::move(ahead);
  MESHWORK_RETURN_IF_ERROR(Begin());
  has_begun_ = true;
  SayWhatBegins();
  MESHWORK_RETURN_IF_ERROR(AgreeToGoOn());
  while (state_.epoch_ < state_.epochs_ && !state_.stops()) {
    MESHWORK_RETURN_IF_ERROR(TrainEpoch());
    MESHWORK_RETURN_IF_ERROR(AgreeToGoOn());
  }
  if (state_.is_interrupted_)
    state_.Log(fmt::format("Fit: {} after step {} of epoch {} of {}.", state_.history_.stopped,
                           state_.in_epoch_, state_.epoch_ + 1, state_.epochs_));
  MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnTrainEnd));
  return std::move(state_.history_);
}

absl::Status FitLoop::Begin() {
  MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnTrainBegin));
  for (size_t c = 0; c < saved_.size(); ++c)
    MESHWORK_RETURN_IF_ERROR(Mine(callbacks_[c]->Restore(state_, saved_[c])));
  saved_.clear();
  return absl::OkStatus();
}

absl::Status FitLoop::AgreeToGoOn() {
  if (state_.stops()) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(
      agreement_.AtPlace(fmt::format("before epoch {}", state_.epoch_ + 1), state_.why_stop_));
  StopIfAgreed();
  return absl::OkStatus();
}

void FitLoop::StopIfAgreed() {
  if (state_.history_.stopped.empty()) state_.history_.stopped = agreement_.stopped();
}

absl::Status FitLoop::TrainEpoch() {
  is_between_ = false;
  if (state_.in_epoch_ == 0) {
    means_.Clear();
    epoch_seconds_ = 0;
    MESHWORK_RETURN_IF_ERROR(ResetMetrics(session_));
  }
  state_.logs_ = means_.Values();
  MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnEpochBegin));
  while (!IsCut()) {
    const double began = seconds_();
    const absl::StatusOr<const PrefetchedFeeds*> batch = Next();
    MESHWORK_RETURN_IF_ERROR(Mine(batch.status()));
    if (*batch == nullptr) {
      MESHWORK_RETURN_IF_ERROR(EndData());
      return IsCut() ? absl::OkStatus() : EndEpoch();
    }
    MESHWORK_ASSIGN_OR_RETURN(const bool is_taken, Step(**batch));
    if (!is_taken) break;
    epoch_seconds_ += seconds_() - began;
    MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnStepEnd));
  }
  return absl::OkStatus();
}

bool FitLoop::IsCut() const {
  // An epoch that is stopped at its last step is complete. But if it was interrupted, its validation comes when the
  // training continues.
  const bool is_done = state_.steps_per_epoch_ > 0 && state_.in_epoch_ >= state_.steps_per_epoch_;
  return state_.stops() && (state_.is_interrupted_ || !is_done);
}

void FitLoop::Walk(PipelineIterator batches) {
  batches_ = std::move(batches);
  is_empty_ = position_.empty();
  ahead_->Start([this, saves = is_ahead(), walk = *batches_]() mutable { return Fetch(walk, saves); },
                StepsLeft());
}

int64_t FitLoop::StepsLeft() const {
  const int64_t epochs = state_.epochs_ - state_.epoch_, steps = options_.steps_per_epoch;
  if (steps == 0 || epochs > PrefetchToDevice::kAll / steps) return PrefetchToDevice::kAll;
  return epochs * steps - state_.in_epoch_;
}

absl::StatusOr<std::optional<NextFeeds>> FitLoop::Fetch(PipelineIterator& batches, bool saves) {
  reads_data_ = true;
  NextFeeds next;
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> batch, batches.Next());
  if (!batch.has_value()) return std::nullopt;
  if (saves) {
    MESHWORK_ASSIGN_OR_RETURN(next.position, batches.Save());
  }
  reads_data_ = false;
  MESHWORK_ASSIGN_OR_RETURN(next.feeds, internal::FeedsOf(*batch, options_.feeds, {}));
  return next;
}

absl::StatusOr<const PrefetchedFeeds*> FitLoop::Next() {
  if (options_.steps_per_epoch > 0 && state_.in_epoch_ >= options_.steps_per_epoch) return nullptr;
  for (;;) {
    if (!batches_.has_value()) {
      MESHWORK_ASSIGN_OR_RETURN(PipelineIterator batches, data_.Begin(position_, walk_));
      Walk(std::move(batches));
    }
    const absl::StatusOr<const PrefetchedFeeds*> batch = ahead_->Next();
    if (!batch.ok()) return reads_data_ ? batch.status() : Annotate(batch.status(), WhereNow());
    if (*batch != nullptr) {
      is_empty_ = false;
      return batch;
    }
    if (is_empty_ || options_.steps_per_epoch == 0) return nullptr;
    EndWalk();
  }
}

void FitLoop::EndWalk() {
  ++walk_;
  position_.clear();
  ahead_->Stop();
  batches_.reset();
}

std::string FitLoop::WhereNow() const {
  return fmt::format("Fit: epoch {}, step {}: ", state_.epoch_ + 1, state_.in_epoch_ + 1);
}

std::string FitLoop::Place(int64_t examples) const {
  std::string place = fmt::format("step {} of epoch {}, {}", state_.in_epoch_ + 1, state_.epoch_ + 1,
                                  Count(examples, "example"));
  if (options_.steps_per_epoch > 0) place += fmt::format(", in walk {} over the data", walk_ + 1);
  return place;
}

absl::StatusOr<bool> FitLoop::Step(const PrefetchedFeeds& batch) {
  state_.feeds_ = batch.feeds;
  for (const auto& [name, tensor] : state_.fed_) state_.feeds_[name] = tensor;
  const int64_t examples = ExamplesIn(session_.graph(), state_.feeds_);
  const absl::StatusOr<StepResult> result = [&] {
    const DataAgreement::Step at(agreement_, Place(examples), state_.why_stop_);
    return session_.Run(state_.feeds_, batch.staged);
  }();
  if (!agreement_.stopped().empty()) {
    StopIfAgreed();
    return false;
  }
  MESHWORK_RETURN_IF_ERROR(agreement_.difference());
  if (!result.ok()) return Annotate(result.status(), WhereNow());
  if (is_ahead()) position_ = batch.position;
  means_.Add(*result, examples);
  state_.last_ = ScalarsOf(*result);
  state_.logs_ = means_.Values();
  ++state_.in_epoch_;
  ++state_.history_.steps;
  MESHWORK_RETURN_IF_ERROR(pulse_.AfterStep());
  if (pulse_.stops() && !state_.stops()) {
    state_.is_interrupted_ = true;
    state_.history_.stopped = fmt::format("interrupted by {}", pulse_.stopped_by());
  }
  return true;
}

absl::Status FitLoop::EndData() {
  if (options_.steps_per_epoch > 0 && state_.in_epoch_ >= options_.steps_per_epoch) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(agreement_.AtPlace(
      is_empty_ ? "the data have no batch"
                : fmt::format("the data end after step {} of epoch {}", state_.in_epoch_, state_.epoch_ + 1),
      state_.why_stop_));
  if (is_empty_) return internal::NoBatchOf(data_);
  StopIfAgreed();
  return absl::OkStatus();
}

absl::Status FitLoop::EndEpoch() {
  const int64_t epoch = state_.epoch_;
  const bool validates = options_.validation_data.has_value() &&
                         ((epoch + 1) % options_.validation_every == 0 || epoch + 1 == state_.epochs_);
  if (validates) {
    MESHWORK_ASSIGN_OR_RETURN(const Metrics values, internal::Validate(session_, options_, state_.fed_));
    for (const auto& [name, value] : values) state_.logs_["val_" + name] = value;
  }
  state_.history_.epochs.push_back({.epoch = epoch,
                                    .steps = state_.in_epoch_,
                                    .examples = means_.examples(),
                                    .step = state_.history_.steps,
                                    .seconds = epoch_seconds_,
                                    .values = state_.logs_});
  is_between_ = true;
  MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnEpochEnd));
  ++state_.epoch_;
  state_.in_epoch_ = 0;
  if (options_.steps_per_epoch > 0) return absl::OkStatus();
  EndWalk();
  return absl::OkStatus();
}

// ---- Notes.

absl::StatusOr<CheckpointNote> FitLoop::Note() const {
  // Between the end of an epoch and the begin of the next one, the state is still that of the end.
  const bool is_next = is_between_ && state_.in_epoch_ > 0,
             walks_next = is_next && options_.steps_per_epoch == 0;
  std::string position = walks_next ? "" : position_;
  if (!walks_next && batches_.has_value() && !is_ahead()) {
    MESHWORK_ASSIGN_OR_RETURN(position, batches_->Save());
  }
  History history = state_.history_;
  if (state_.is_interrupted_) history.stopped.clear();
  CheckpointNote note{.step = state_.history_.steps};
  note.facts = {{kEpoch, fmt::format("{}", state_.epoch_ + (is_next ? 1 : 0))},
                {kEpochSteps, fmt::format("{}", is_next ? 0 : state_.in_epoch_)},
                {kWalk, fmt::format("{}", walk_ + (walks_next ? 1 : 0))},
                {kStepsPerEpoch, fmt::format("{}", options_.steps_per_epoch)},
                {kPosition, position},
                {kMeans, means_.Save()},
                {kSeconds, fmt::format("{:a}", epoch_seconds_)},
                {kHistory, history.ToText()}};
  for (size_t c = 0; c < callbacks_.size(); ++c) note.facts[CallbackFact(c)] = callbacks_[c]->Save();
  return note;
}

absl::Status FitLoop::GoOnFrom(const CheckpointNote& note) {
  const FitFacts facts(note);
  MESHWORK_ASSIGN_OR_RETURN(const int64_t steps_per_epoch, facts.Number(kStepsPerEpoch));
  if (steps_per_epoch != options_.steps_per_epoch)
    return InvalidArgument(
        "Fit: the checkpoint of step {} is of a training with steps_per_epoch {}, and now it is {}; go on with the same, or "
        "choose another folder.",
        note.step, steps_per_epoch, options_.steps_per_epoch);
  MESHWORK_ASSIGN_OR_RETURN(state_.epoch_, facts.Number(kEpoch));
  MESHWORK_ASSIGN_OR_RETURN(state_.in_epoch_, facts.Number(kEpochSteps));
  MESHWORK_ASSIGN_OR_RETURN(walk_, facts.Number(kWalk));
  MESHWORK_ASSIGN_OR_RETURN(position_, facts.Text(kPosition));
  MESHWORK_ASSIGN_OR_RETURN(const std::string means, facts.Text(kMeans));
  MESHWORK_ASSIGN_OR_RETURN(const std::string seconds, facts.Text(kSeconds));
  MESHWORK_ASSIGN_OR_RETURN(const std::string history, facts.Text(kHistory));
  if (const absl::Status status = means_.Restore(means); !status.ok()) return facts.Damaged(kMeans, status);
  epoch_seconds_ = std::strtod(seconds.c_str(), nullptr);
  absl::StatusOr<History> epochs = History::FromText(history);
  if (!epochs.ok()) return facts.Damaged(kHistory, epochs.status());
  state_.history_ = *std::move(epochs);
  for (size_t c = 0; c < callbacks_.size(); ++c) {
    MESHWORK_ASSIGN_OR_RETURN(std::string saved, facts.Text(CallbackFact(c)));
    saved_.push_back(std::move(saved));
  }
  absl::StatusOr<PipelineIterator> batches = data_.Begin(position_, walk_);
  if (!batches.ok())
    return Annotate(batches.status(), fmt::format("Fit: the checkpoint of step {}: ", note.step));
  Walk(*std::move(batches));
  return absl::OkStatus();
}

}  // namespace meshwork
