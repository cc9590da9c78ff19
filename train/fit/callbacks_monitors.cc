// The callbacks that end a training, or change it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/find_nan.h"
#include "meshwork/train/fit/monitor.h"

namespace meshwork {
namespace {

using internal::Monitor;
using internal::SavedNumbers;

// A copy of this domain's blocks of the variables.
class StateCopy {
 public:
  // Error: the memory's.
  static absl::StatusOr<StateCopy> Of(const Session& session) {
    StateCopy copy;
    for (const auto& [name, variable] : session.State()) {
      std::vector<std::byte>& bytes = copy.bytes_[name];
      bytes.resize(static_cast<size_t>(variable.bytes()));
      MESHWORK_RETURN_IF_ERROR(
          variable.memory().Download(All(variable), Size(variable), variable.instance(0), bytes.data()));
    }
    return copy;
  }
  absl::Status PutInto(Session& session) const {
    for (const auto& [name, variable] : session.State()) {
      DTensor target = variable;  // of the same elements
      MESHWORK_RETURN_IF_ERROR(
          target.memory().Upload(All(target), Size(target), bytes_.at(name).data(), target.instance(0)));
    }
    return absl::OkStatus();
  }

 private:
  static int64_t Size(const DTensor& variable) { return DTypeSize(variable.type().dtype); }
  // Its instances, with their padding.
  static BoxCopy All(const DTensor& variable) { return BoxCopy::Linear(variable.bytes() / Size(variable)); }

  std::map<std::string, std::vector<std::byte>> bytes_;
};

class StopEarly : public Callback {
 public:
  explicit StopEarly(const EarlyStoppingOptions& options)
      : options_(options), monitor_("EarlyStopping", options.monitor, options.best, options.min_delta) {}

  absl::Status OnTrainBegin(FitState& state) override {
    if (options_.patience < 1 || !(options_.min_delta >= 0))
      return InvalidArgument(
          "EarlyStopping: patience is {} and min_delta {}; the first must be positive, the second not negative.",
          options_.patience, options_.min_delta);
    monitor_.Clear();
    waited_ = best_epoch_ = 0;
    best_.reset();
    return monitor_.Check(state);
  }
  absl::Status OnEpochEnd(FitState& state) override {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<double> value, monitor_.Read(state));
    if (!value.has_value()) return absl::OkStatus();
    if (monitor_.Improves(*value)) {
      waited_ = 0;
      best_epoch_ = state.epoch() + 1;
      if (options_.restore_best) {
        MESHWORK_ASSIGN_OR_RETURN(best_, StateCopy::Of(state.session()));
      }
      return absl::OkStatus();
    }
    if (++waited_ >= options_.patience)
      state.Stop(fmt::format("EarlyStopping: {} was not {} in {}; the best was {} in epoch {}",
                             monitor_.output(), monitor_.Comparative(), Count(waited_, "epoch"),
                             monitor_.best().value_or(std::nan("")), best_epoch_));
    return absl::OkStatus();
  }
  absl::Status OnTrainEnd(FitState& state) override {
    if (!options_.restore_best || state.is_interrupted() || waited_ == 0) return absl::OkStatus();
    if (best_.has_value()) return best_->PutInto(state.session());
    if (best_epoch_ > 0)
      state.Log(fmt::format(
          "EarlyStopping: the variables of epoch {}, the best, were in the memory of a process that has ended, and are not "
          "restored; BestCheckpoint keeps them in a folder.",
          best_epoch_));
    return absl::OkStatus();
  }
  absl::Status CheckServed() const override {
    if (!options_.restore_best) return absl::OkStatus();
    return internal::NotServed(
        "EarlyStopping",
        "restore_best would change variables that servers keep; leave it out, and save those of the "
        "best epoch by BestCheckpoint");
  }
  std::string Save() const override {
    return internal::ToExactText({{"best", monitor_.Save()},
                                  {"best_epoch", static_cast<double>(best_epoch_)},
                                  {"waited", static_cast<double>(waited_)}});
  }
  absl::Status Restore(FitState& /*state*/, std::string_view saved) override {
    MESHWORK_ASSIGN_OR_RETURN(const Metrics numbers,
                              SavedNumbers("EarlyStopping", saved, {"best", "best_epoch", "waited"}));
    monitor_.Restore(numbers.at("best"));
    best_epoch_ = std::llround(numbers.at("best_epoch"));
    waited_ = std::llround(numbers.at("waited"));
    return absl::OkStatus();
  }
  void Release() override { best_.reset(); }

 private:
  const EarlyStoppingOptions options_;
  Monitor monitor_;
  int64_t waited_ = 0, best_epoch_ = 0;  // epochs that were no better; from 1, 0: none yet
  std::optional<StateCopy> best_;
};

class ReduceRate : public Callback {
 public:
  explicit ReduceRate(const ReduceOnPlateauOptions& options)
      : options_(options), monitor_("ReduceOnPlateau", options.monitor, options.best, options.min_delta) {}

  absl::Status OnTrainBegin(FitState& state) override {
    const ReduceOnPlateauOptions& o = options_;
    if (!(o.factor > 0 && o.factor < 1) || o.patience < 1 || o.cooldown < 0 || !(o.min_delta >= 0) ||
        !(o.min_rate >= 0))
      return InvalidArgument(
          "ReduceOnPlateau: factor={}, patience={}, cooldown={}, min_delta={}, min_rate={}; the factor must be in (0, 1), "
          "patience positive, the others not negative.",
          o.factor, o.patience, o.cooldown, o.min_delta, o.min_rate);
    monitor_.Clear();
    waited_ = cooling_ = 0;
    MESHWORK_RETURN_IF_ERROR(monitor_.Check(state));
    return Rate(state).status();
  }
  absl::Status OnEpochEnd(FitState& state) override {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<double> value, monitor_.Read(state));
    if (!value.has_value()) return absl::OkStatus();
    if (cooling_ > 0) {
      --cooling_;
      waited_ = 0;
    }
    if (monitor_.Improves(*value)) {
      waited_ = 0;
      return absl::OkStatus();
    }
    if (cooling_ > 0 || ++waited_ < options_.patience) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const Tensor before, Rate(state));
    MESHWORK_ASSIGN_OR_RETURN(const double rate, before.Scalar());
    if (rate <= options_.min_rate) return absl::OkStatus();
    const double lower = std::max(rate * options_.factor, options_.min_rate);
    state.Log(fmt::format("ReduceOnPlateau: {} was not {} in {}; {} is {:.6g} now.", monitor_.output(),
                          monitor_.Comparative(), Count(waited_, "epoch"), options_.rate, lower));
    waited_ = 0;
    cooling_ = options_.cooldown;
    return SetRate(state, Tensor::Full(before.type(), lower));
  }
  absl::Status CheckServed() const override {
    return internal::NotServed(
        "ReduceOnPlateau",
        "servers keep the rate, and workers feed their steps; write the rate into the program (train/optim/rates.h)");
  }
  std::string Save() const override {
    return internal::ToExactText({{"best", monitor_.Save()},
                                  {"cooling", static_cast<double>(cooling_)},
                                  {"rate", fed_rate_.value_or(std::nan(""))},
                                  {"waited", static_cast<double>(waited_)}});
  }
  absl::Status Restore(FitState& state, std::string_view saved) override {
    MESHWORK_ASSIGN_OR_RETURN(const Metrics numbers,
                              SavedNumbers("ReduceOnPlateau", saved, {"best", "cooling", "rate", "waited"}));
    const double rate = numbers.at("rate");
    monitor_.Restore(numbers.at("best"));
    cooling_ = std::llround(numbers.at("cooling"));
    waited_ = std::llround(numbers.at("waited"));
    if (std::isnan(rate)) return absl::OkStatus();
    MESHWORK_ASSIGN_OR_RETURN(const Tensor now, Rate(state));
    return SetRate(state, Tensor::Full(now.type(), rate));
  }

 private:
  bool IsVariable(const FitState& state) const {
    const std::vector<std::string> names = state.session().variable_names();
    return std::find(names.begin(), names.end(), options_.rate) != names.end();
  }
  absl::StatusOr<Tensor> Rate(const FitState& state) const {
    Tensor rate;
    if (IsVariable(state)) {
      MESHWORK_ASSIGN_OR_RETURN(rate, state.session().Get(options_.rate));
    } else if (const Tensor* const fed = state.fed(options_.rate); fed != nullptr) {
      rate = *fed;
    } else {
      return absl::NotFoundError(fmt::format(
          "ReduceOnPlateau: the rate \"{}\" is neither a variable of the program nor in FitOptions::fed{}",
          options_.rate, DidYouMean(options_.rate, state.session().variable_names())));
    }
    if (rate.valid() && rate.type().rank() == 0 && IsFloat(rate.dtype())) return rate;
    return InvalidArgument("ReduceOnPlateau: the rate \"{}\" is {}; it must be a float scalar.",
                           options_.rate, rate.type().ToString());
  }
  absl::Status SetRate(FitState& state, const Tensor& rate) {
    if (IsVariable(state)) return state.session().Set(options_.rate, rate);
    MESHWORK_ASSIGN_OR_RETURN(fed_rate_, rate.Scalar());
    state.Feed(options_.rate, rate);
    return absl::OkStatus();
  }

  const ReduceOnPlateauOptions options_;
  Monitor monitor_;
  int64_t waited_ = 0, cooling_ = 0;
  std::optional<double> fed_rate_;  // that this callback has fed
};

class CheckOutput : public Callback {
 public:
  explicit CheckOutput(const StopOnNanOptions& options) : options_(options) {}

  absl::Status OnStepEnd(FitState& state) override {
    const auto found = state.last().find(options_.output);
    if (found == state.last().end()) {
      std::vector<std::string> known;
      for (const auto& [name, value] : state.last()) known.push_back(name);
      return absl::NotFoundError(fmt::format("StopOnNan: there is no scalar output \"{}\"{}", options_.output,
                                             DidYouMeanOneOf(options_.output, known, "outputs")));
    }
    const std::shared_ptr<StepRecord> record = state.session().record();
    if (options_.find_op && !record->can_undo())
      return absl::FailedPreconditionError(
          "StopOnNan: find_op needs the variables before the step, and the session does not keep them; create it with "
          "SessionOptions::executor.atomic.");
    if (std::isfinite(found->second)) return absl::OkStatus();
    std::string text =
        fmt::format("StopOnNan: the {} of step {} is {} (epoch {}, step {})", options_.output, state.steps(),
                    std::isnan(found->second) ? "NaN" : "infinite", state.epoch() + 1, state.epoch_steps());
    if (!options_.find_op)
      return absl::OutOfRangeError(
          text +
          "; find_op names the op that made it. Or go on from an earlier checkpoint, with a smaller learning rate.");
    return absl::OutOfRangeError(
        fmt::format("{}. {}", text, UndoAndExplainNan(state.session(), state.feeds())));
  }
  absl::Status CheckServed() const override {
    return internal::NotServed(
        "StopOnNan",
        "it looks at each step, which workers make; look at the means of an epoch in Lambdas' on_epoch_end");
  }

 private:
  const StopOnNanOptions options_;
};

}  // namespace

CallbackPtr EarlyStopping(const EarlyStoppingOptions& options) {
  return std::make_shared<StopEarly>(options);
}
CallbackPtr ReduceOnPlateau(const ReduceOnPlateauOptions& options) {
  return std::make_shared<ReduceRate>(options);
}
CallbackPtr StopOnNan(const StopOnNanOptions& options) { return std::make_shared<CheckOutput>(options); }

}  // namespace meshwork
