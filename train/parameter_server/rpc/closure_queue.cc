#include "meshwork/train/parameter_server/rpc/closure_queue.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {

absl::Status ClosureQueue::Put(Closure closure) {
  std::unique_lock lock(mutex_);
  const auto may_go_on = [&] { return has_ended_ || !error_.ok() || std::ssize(waiting_) < max_waiting_; };
  for (changed_.wait(lock, may_go_on); !error_.ok(); changed_.wait(lock, may_go_on))
    // Another thread may take the error while this one waits for it.
    if (absl::Status error = TakeErrorLocked(lock); !error.ok()) return error;
  if (has_ended_) return absl::CancelledError("ClusterCoordinator: it has ended.");
  waiting_.push_back(std::move(closure));
  if (!idle_.empty()) WakeLastLocked();
  return absl::OkStatus();
}

bool ClosureQueue::AreThere(const Closure& closure) const {
  return std::all_of(closure.arguments.begin(), closure.arguments.end(), [](const ClosureArgument& argument) {
    const auto* const value = std::get_if<RemoteValue>(&argument);
    return value == nullptr || value->IsReady();
  });
}

void ClosureQueue::WakeLastLocked() {
  idle_.back()->notify_one();
  idle_.pop_back();
}

void ClosureQueue::WakeAllLocked() {
  while (!idle_.empty()) WakeLastLocked();
}

std::optional<ClosureQueue::Closure> ClosureQueue::Take(std::vector<Tensor>& tensors) {
  std::unique_lock lock(mutex_);
  return TakeLocked(lock, tensors);
}

std::optional<ClosureQueue::Closure> ClosureQueue::TakeLocked(std::unique_lock<std::mutex>& lock,
                                                              std::vector<Tensor>& tensors) {
  std::condition_variable woken;
  while (true) {
    // The closures that a closure waits for stand in front of it, or run.
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Closure& c) { return AreThere(c); });
    if (has_ended_) return std::nullopt;
    if (found == waiting_.end()) {
      idle_.push_back(&woken);
      woken.wait(lock, [&] { return std::find(idle_.begin(), idle_.end(), &woken) == idle_.end(); });
      continue;
    }
    Closure closure = std::move(*found);
    waiting_.erase(found);
    changed_.notify_all();
    tensors.clear();
    absl::Status failed;
    for (const ClosureArgument& argument : closure.arguments) {
      if (const auto* const tensor = std::get_if<Tensor>(&argument)) tensors.push_back(*tensor);
      const auto* const value = std::get_if<RemoteValue>(&argument);
      if (value == nullptr) continue;
      const absl::StatusOr<std::vector<Tensor>> results = value->Fetch();
      if (results.ok()) tensors.insert(tensors.end(), results->begin(), results->end());
      else failed = results.status();
    }
    if (failed.ok()) {
      ++num_running_;
      return closure;
    }
    failed = Annotate(failed, fmt::format("closure \"{}\" has an argument that failed: ", closure.name));
    closure.value.Set(failed);
    FailLocked(failed);
  }
}

void ClosureQueue::PutBack(Closure closure, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  --num_running_;
  if (has_ended_ || !error_.ok()) {
    closure.value.Set(absl::CancelledError(fmt::format(
        "closure \"{}\" was cancelled: its worker was lost, and another closure had failed.", closure.name)));
  } else if (++closure.losses >= max_losses_) {
    const absl::Status error = absl::UnavailableError(fmt::format(
        "closure \"{}\": {} in a row were lost while they ran it; look whether it ends them. The last one: {}",
        closure.name, Count(closure.losses, "worker"), MessageOf(why)));
    closure.value.Set(error);
    FailLocked(error);
  } else {
    waiting_.push_front(std::move(closure));
  }
  EndedLocked();
}

std::optional<ClosureQueue::Closure> ClosureQueue::FinishAndTake(const Closure& closure,
                                                                 absl::StatusOr<std::vector<Tensor>> results,
                                                                 std::vector<Tensor>& tensors) {
  std::unique_lock lock(mutex_);
  --num_running_;
  if (!results.ok()) FailLocked(results.status());
  closure.value.Set(std::move(results));
  EndedLocked();
  return TakeLocked(lock, tensors);
}

// Closures that waited for its results may run now.
void ClosureQueue::EndedLocked() {
  if (!waiting_.empty()) WakeAllLocked();
  if (num_running_ == 0) changed_.notify_all();
}

bool ClosureQueue::WaitForFew(int64_t waiting, std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most,
                           [&] { return has_ended_ || !error_.ok() || std::ssize(waiting_) <= waiting; });
}

void ClosureQueue::Fail(const absl::Status& error) {
  const std::lock_guard lock(mutex_);
  FailLocked(error);
}

void ClosureQueue::FailLocked(const absl::Status& error) {
  if (error_.ok()) error_ = error;
  for (const Closure& closure : waiting_)
    closure.value.Set(absl::CancelledError(fmt::format(
        "closure \"{}\" was cancelled before it ran, because of: {}", closure.name, MessageOf(error_))));
  waiting_.clear();
  changed_.notify_all();
}

absl::Status ClosureQueue::TakeErrorLocked(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return num_running_ == 0; });
  changed_.notify_all();
  return std::exchange(error_, absl::OkStatus());
}

absl::Status ClosureQueue::Join() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && num_running_ == 0; });
  return TakeErrorLocked(lock);
}

bool ClosureQueue::HasNone() const {
  const std::lock_guard lock(mutex_);
  return waiting_.empty() && num_running_ == 0;
}

void ClosureQueue::End() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  WakeAllLocked();
  FailLocked(absl::CancelledError("the coordinator has ended"));
}

}  // namespace meshwork
