#include "meshwork/train/parameter_server/rpc/remote_value.h"

namespace meshwork {

absl::StatusOr<std::vector<Tensor>> RemoteValue::Fetch() const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->results.has_value(); });
  return *state_->results;
}

bool RemoteValue::IsReady() const {
  const std::lock_guard lock(state_->mutex);
  return state_->results.has_value();
}

void RemoteValue::Set(absl::StatusOr<std::vector<Tensor>> results) const {
  const std::lock_guard lock(state_->mutex);
  state_->results = std::move(results);
  state_->changed.notify_all();
}

}  // namespace meshwork
