// The callbacks that show and log a training.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/monitor.h"
#include "meshwork/train/log/progress.h"
#include "meshwork/train/log/summary_writer.h"

namespace meshwork {
namespace {

constexpr std::string_view kValidation = "val_";

// "loss 0.4731  accuracy 0.8725": the loss first.
std::string Measures(const Metrics& values, bool of_validation) {
  std::string text, loss;
  for (const auto& [name, value] : values) {
    if (name.starts_with(kValidation) != of_validation) continue;
    std::string& place = name == "loss" || name == "val_loss" ? loss : text;
    place += fmt::format("  {} {}", name, FormatMeasure(value));
  }
  text = loss + text;
  return text.empty() ? text : text.substr(2);
}

class ShowProgress : public Callback {
 public:
  explicit ShowProgress(const ProgressBarOptions& options) : out_(options.out) {}

  absl::Status OnTrainBegin(FitState& /*state*/) override {
    progress_.reset();
    return absl::OkStatus();
  }
  absl::Status OnEpochBegin(FitState& state) override {
    if (!state.is_chief()) return absl::OkStatus();
    if (progress_ == nullptr)
      progress_.reset(
          new ProgressReporter(ProgressReporter::For(out_, state.epochs(), state.steps_per_epoch())));
    progress_->BeginEpoch(state.epoch());
    if (state.epoch_steps() > 0) progress_->Resume(state.epoch_steps(), Measures(state.logs(), false));
    return absl::OkStatus();
  }
  absl::Status OnStepEnd(FitState& state) override {
    if (progress_ != nullptr) progress_->Step(Measures(state.logs(), false));
    return absl::OkStatus();
  }
  absl::Status OnEpochEnd(FitState& state) override {
    if (progress_ != nullptr) progress_->EndEpoch(Measures(state.logs(), true));
    return absl::OkStatus();
  }
  absl::Status CheckServed() const override {
    return internal::NotServed(
        "ProgressBar",
        "it counts steps, which workers make; that Fit writes a line after each epoch by itself");
  }
  void Release() override { progress_.reset(); }

 private:
  FILE* const out_;
  std::unique_ptr<ProgressReporter> progress_;
};

class WriteCsv : public Callback {
 public:
  explicit WriteCsv(std::string path) : path_(std::move(path)) {}

  absl::Status OnTrainBegin(FitState& state) override {
    if (!state.is_chief()) return absl::OkStatus();
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    absl::Status status = folder.empty() ? absl::OkStatus() : MakeFolders(folder);
    if (status.ok()) status = CheckWritable(path_);
    return Annotate(status, "CsvLog: ");
  }
  absl::Status OnEpochEnd(FitState& state) override {
    if (!state.is_chief()) return absl::OkStatus();
    return Annotate(WriteFileAtomically(path_, state.history().ToCsv()), "CsvLog: ");
  }

 private:
  const std::string path_;
};

class LogToTensorBoard : public Callback {
 public:
  LogToTensorBoard(std::string dir, const TensorBoardLogOptions& options)
      : dir_(std::move(dir)), options_(options) {}

  absl::Status OnTrainBegin(FitState& state) override {
    if (options_.every_steps < 0 || options_.histograms_every < 0)
      return InvalidArgument(
          "TensorBoardLog: every_steps is {} and histograms_every {}; they must be positive, or 0 for none.",
          options_.every_steps, options_.histograms_every);
    MESHWORK_RETURN_IF_ERROR(ChooseVariables(state.session()));
    return absl::OkStatus();
  }
  // Only now every callback has said from which step the training goes on.
  absl::Status OnEpochBegin(FitState& state) override {
    if (!state.is_chief() || train_.has_value()) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(Open("train", state, train_));
    train_->Graph(state.session().graph()).IgnoreError();
    return state.has_validation() ? Open("validation", state, validation_) : absl::OkStatus();
  }
  absl::Status OnStepEnd(FitState& state) override {
    if (train_.has_value() && options_.every_steps > 0 && state.steps() % options_.every_steps == 0)
      for (const auto& [name, value] : state.last())
        train_->Scalar("step/" + name, value, state.steps()).IgnoreError();
    return absl::OkStatus();
  }
  absl::Status OnEpochEnd(FitState& state) override {
    for (const auto& [name, value] : state.logs()) {
      const bool is_of_validation = validation_.has_value() && name.starts_with(kValidation);
      std::optional<SummaryWriter>& log = is_of_validation ? validation_ : train_;
      const std::string_view measure =
          std::string_view(name).substr(is_of_validation ? kValidation.size() : 0);
      if (log.has_value()) log->Scalar(fmt::format("epoch/{}", measure), value, state.steps()).IgnoreError();
    }
    if (options_.histograms_every == 0 || (state.epoch() + 1) % options_.histograms_every != 0)
      return absl::OkStatus();
    for (const std::string& name : variables_) {
      MESHWORK_ASSIGN_OR_RETURN(const Tensor value, state.session().Get(name));  // in all domains
      if (train_.has_value()) train_->Histogram(name, value, state.steps()).IgnoreError();
    }
    return absl::OkStatus();
  }
  absl::Status OnTrainEnd(FitState& state) override {
    for (std::optional<SummaryWriter>* const log : {&train_, &validation_}) {
      if (!log->has_value()) continue;
      if (const absl::Status status = (*log)->Close(); !status.ok())
        state.Log(fmt::format("TensorBoardLog: {}", MessageOf(status)));
    }
    return absl::OkStatus();
  }
  absl::Status CheckServed() const override {
    if (options_.every_steps == 0) return absl::OkStatus();
    return internal::NotServed("TensorBoardLog",
                               "every_steps reads each step, which workers make; leave it 0");
  }
  void Release() override {
    train_.reset();
    validation_.reset();
  }

 private:
  absl::Status Open(const char* run, const FitState& state, std::optional<SummaryWriter>& log) const {
    absl::StatusOr<SummaryWriter> made =
        SummaryWriter::Create(fmt::format("{}/{}", dir_, run), {.purge_step = state.steps() + 1});
    if (!made.ok()) return Annotate(made.status(), "TensorBoardLog: ");
    log = *std::move(made);
    return absl::OkStatus();
  }
  absl::Status ChooseVariables(const Session& session) {
    const std::vector<std::string> known = session.variable_names();
    variables_ = options_.variables;
    for (const std::string& name : variables_)
      if (std::find(known.begin(), known.end(), name) == known.end())
        return absl::NotFoundError(fmt::format("TensorBoardLog: there is no variable \"{}\"{}", name,
                                               DidYouMeanOneOf(name, known, "variables")));
    if (!variables_.empty()) return absl::OkStatus();
    const Graph& graph = session.graph();
    for (const VariableUpdate& update : graph.updates())
      if (graph.arguments()[update.argument].is_trainable)
        variables_.push_back(graph.argument_name(update.argument));
    return absl::OkStatus();
  }

  const std::string dir_;
  const TensorBoardLogOptions options_;
  std::vector<std::string> variables_;
  std::optional<SummaryWriter> train_, validation_;  // the chief's
};

class CallFunctions : public Callback {
 public:
  explicit CallFunctions(LambdasOptions functions) : functions_(std::move(functions)) {}
  absl::Status OnTrainBegin(FitState& state) override { return Call(functions_.on_train_begin, state); }
  absl::Status OnEpochBegin(FitState& state) override { return Call(functions_.on_epoch_begin, state); }
  absl::Status OnStepEnd(FitState& state) override { return Call(functions_.on_step_end, state); }
  absl::Status OnEpochEnd(FitState& state) override { return Call(functions_.on_epoch_end, state); }
  absl::Status OnTrainEnd(FitState& state) override { return Call(functions_.on_train_end, state); }
  absl::Status CheckServed() const override {
    if (functions_.on_step_end == nullptr) return absl::OkStatus();
    return internal::NotServed("Lambdas",
                               "nothing calls on_step_end, as workers make the steps; do it in on_epoch_end");
  }

 private:
  static absl::Status Call(const std::function<absl::Status(FitState& state)>& function, FitState& state) {
    return function == nullptr ? absl::OkStatus() : function(state);
  }
  const LambdasOptions functions_;
};

}  // namespace

CallbackPtr ProgressBar(const ProgressBarOptions& options) { return std::make_shared<ShowProgress>(options); }
CallbackPtr CsvLog(std::string path) { return std::make_shared<WriteCsv>(std::move(path)); }
CallbackPtr TensorBoardLog(std::string dir, const TensorBoardLogOptions& options) {
  return std::make_shared<LogToTensorBoard>(std::move(dir), options);
}
CallbackPtr Lambdas(LambdasOptions functions) {
  return std::make_shared<CallFunctions>(std::move(functions));
}

}  // namespace meshwork
