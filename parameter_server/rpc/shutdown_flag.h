// ShutdownFlag: somebody asks a server to end, and whoever holds the server waits for that. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace meshwork::internal {

class ShutdownFlag {
 public:
  void Ask() {
    const std::lock_guard lock(mutex_);
    is_asked_ = true;
    asked_.notify_all();
  }
  // Waits until it was asked, at most for so long. Whether it was.
  bool WaitFor(std::chrono::milliseconds at_most) {
    std::unique_lock lock(mutex_);
    return asked_.wait_for(lock, at_most, [&] { return is_asked_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable asked_;
  bool is_asked_ = false;
};

}  // namespace meshwork::internal
