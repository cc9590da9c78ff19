// ShutdownFlag: somebody asks a server to end, and whoever holds the server waits for that. Thread-safe. In the child
// of a fork that came after it was made, it counts as asked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "meshwork/base/fork.h"

namespace meshwork::internal {

class ShutdownFlag {
 public:
  void Ask() {
    const std::lock_guard lock(state_->mutex);
    state_->is_asked = true;
    state_->asked.notify_all();
  }
  // Waits until it was asked, at most for so long. Returns whether it was.
  bool WaitFor(std::chrono::milliseconds at_most) {
    if (!made_.is_here()) return true;
    std::unique_lock lock(state_->mutex);
    return state_->asked.wait_for(lock, at_most, [&] { return state_->is_asked; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable asked;
    bool is_asked = false;
  };
  const ForkMark made_;
  const UnlessForked<State> state_{new State};
};

}  // namespace meshwork::internal
