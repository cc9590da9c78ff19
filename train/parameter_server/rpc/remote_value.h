// RemoteValue: the results that a closure will return (coordinator.h).
//
//   RemoteValue loss = coordinator.Schedule("train_step", {batches}).value();
//   double number = loss.Fetch().value()[0].Scalar().value();
//
// Copies are the same value. Thread-safe.
// Source: tf.distribute.experimental.coordinator.RemoteValue.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

class RemoteValue {
 public:
  // Waits until the closure has ended. Errors: the closure's; CANCELLED, it was not run, because another one had failed
  // or the coordinator has ended.
  absl::StatusOr<std::vector<Tensor>> Fetch() const;
  // Whether Fetch would not wait.
  bool IsReady() const;

 private:
  friend class ClosureQueue;
  friend class ClusterCoordinator;
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<absl::StatusOr<std::vector<Tensor>>> results;
  };
  explicit RemoteValue(std::string coordinator)
      : coordinator_(std::move(coordinator)), state_(std::make_shared<State>()) {}
  void Set(absl::StatusOr<std::vector<Tensor>> results) const;

  std::string coordinator_;  // whose it is
  std::shared_ptr<State> state_;
};

}  // namespace meshwork
