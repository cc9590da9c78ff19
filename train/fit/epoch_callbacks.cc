#include "meshwork/train/fit/epoch_callbacks.h"

#include <utility>

#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/train/fit/fit_loop.h"

namespace meshwork {

EpochCallbacks::EpochCallbacks(Session* session, const EpochCallbacksOptions& options)
    : options_(options),
      callbacks_(internal::InOrderOfCalls(options.callbacks)),
      pulse_(/*transport=*/nullptr),
      state_(
          session, pulse_, options.log != nullptr ? options.log : [](std::string_view line) {
            LogText(LogLevel::kInfo, line);
          }) {
  state_.epochs_ = options.epochs;
  state_.steps_per_epoch_ = options.steps_per_epoch;
  state_.has_validation_ = options.has_validation;
}

EpochCallbacks::~EpochCallbacks() {
  for (const CallbackPtr& callback : callbacks_)
    if (callback != nullptr) callback->Release();
}

absl::Status EpochCallbacks::Call(absl::Status (Callback::*when)(FitState& state)) {
  for (const CallbackPtr& callback : callbacks_) MESHWORK_RETURN_IF_ERROR(((*callback).*when)(state_));
  return absl::OkStatus();
}

absl::Status EpochCallbacks::BeginTraining() {
  MESHWORK_RETURN_IF_ERROR(internal::CheckCallbacks(options_.callbacks));
  for (const CallbackPtr& callback : options_.callbacks) MESHWORK_RETURN_IF_ERROR(callback->CheckServed());
  return Call(&Callback::OnTrainBegin);
}

absl::Status EpochCallbacks::BeginEpoch(int64_t epoch) {
  state_.epoch_ = epoch;
  state_.in_epoch_ = 0;
  state_.history_.steps = epoch * options_.steps_per_epoch;
  state_.logs_.clear();
  return Call(&Callback::OnEpochBegin);
}

absl::Status EpochCallbacks::EndEpoch(EpochLog epoch) {
  state_.in_epoch_ = epoch.steps;
  state_.logs_ = epoch.values;
  state_.history_.steps = epoch.step;
  state_.history_.epochs.push_back(std::move(epoch));
  return Call(&Callback::OnEpochEnd);
}

void EpochCallbacks::Interrupt(std::string why) {
  if (state_.stops()) return;
  state_.is_interrupted_ = true;
  state_.history_.stopped = std::move(why);
}

absl::StatusOr<History> EpochCallbacks::EndTraining() {
  MESHWORK_RETURN_IF_ERROR(Call(&Callback::OnTrainEnd));
  return std::move(state_.history_);
}

}  // namespace meshwork
