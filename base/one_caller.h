// OneCaller: refuses a call of an object while another one runs, where both would race for its memory. There is no
// lock: the second caller gets an error, and does not wait.
//
//   absl::Status Pump::Start() {
//     MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, caller_.Begin("Pump", "Start"));
//     …                                                     // as long as `call` lives, another Begin is refused
//   }
//
// A call of the same thread within a call is refused, too. The end of a call synchronizes with the beginning of the
// next one, so threads may take turns without further synchronization.
//
// Thread safety: any thread, at any time.
#pragma once

#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace meshwork {

class OneCaller {
 public:
  // A call that has begun; it ends when this is destroyed. The OneCaller must outlive it.
  class Call {
   public:
    Call(Call&& other) noexcept : running_(std::exchange(other.running_, nullptr)) {}
    Call& operator=(Call&&) = delete;
    ~Call() {
      if (running_ != nullptr) running_->store(nullptr, std::memory_order_release);
    }

   private:
    friend class OneCaller;
    explicit Call(std::atomic<const char*>* running) : running_(running) {}
    std::atomic<const char*>* running_;  // null once it was moved from
  };

  // `object`: what serves one call at a time, "Session". `call`: the function, "Run"; a literal, which the message of
  // another call names. Allocates nothing unless it fails. Error: FailedPrecondition, another call runs.
  absl::StatusOr<Call> Begin(const char* object, const char* call) {
    const char* running = nullptr;
    if (running_.compare_exchange_strong(running, call, std::memory_order_acquire, std::memory_order_relaxed))
      return Call(&running_);
    return absl::FailedPreconditionError(fmt::format(
        "{}: {} was called while {} was running; a {} serves one call at a time: hold a mutex around its calls, or "
        "make a {} for each thread.",
        object, call, running, object, object));
  }

 private:
  std::atomic<const char*> running_{nullptr};
};

}  // namespace meshwork
