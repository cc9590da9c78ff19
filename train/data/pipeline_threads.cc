// Stages that have threads of their own: Prefetch, and Map.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_call.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

using Result = absl::StatusOr<std::optional<Example>>;

// Elements of an input, made by threads ahead of the one that takes them, and taken in the order of the input. With
// each comes the position of the input behind it.
class ReadAhead {
 public:
  // Makes the result from an element of the input; null: the result is the element.
  using Make = std::function<Result(Example element, int64_t number)>;

  // The input's next element has the number `first`. At most `window` elements are ahead, also those that are being
  // made. Throws std::system_error if the system refuses a thread.
  ReadAhead(Walk* input, Make make, int threads, int64_t window, int64_t first)
      : input_(input), make_(std::move(make)), window_(window), taken_(first), read_(first) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
    } catch (...) {
      Stop();
      throw;
    }
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() { Stop(); }

  // Waits for the next element. Its position goes to `behind`.
  Result Take(Counters& behind) {
    std::unique_lock lock(mutex_);
    made_.wait(lock, [&] { return !slots_.empty() && slots_.front().is_made; });
    Slot& slot = slots_.front();
    // The end, or an error, stays for the next call.
    if (!slot.result.ok() || !slot.result->has_value()) return slot.result;
    Result result = std::move(slot.result);
    behind = std::move(slot.behind);
    slots_.pop_front();
    ++taken_;
    lock.unlock();
    room_.notify_one();
    return result;
  }

 private:
  struct Slot {
    bool is_made = false;
    Result result = std::optional<Example>();
    Counters behind;
  };

  void Work() {
    while (WorkOnce()) {
    }
  }
  // False: there is nothing more to do.
  bool WorkOnce() {
    std::unique_lock reading(input_mutex_);
    Slot* slot;
    int64_t number;
    {
      // Only one thread waits here, the others for it.
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return stopped_ || ended_ || read_ < taken_ + window_; });
      if (stopped_ || ended_) return false;
      number = read_++;
      slot = &slots_.emplace_back();  // stays where it is
    }
    Counters behind;
    Result result = Read(behind);
    const bool goes_on = result.ok() && result->has_value();
    if (!goes_on) {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    reading.unlock();
    if (goes_on && make_ != nullptr) result = make_(**std::move(result), number);
    {
      std::lock_guard lock(mutex_);
      if (!result.ok()) ended_ = true;
      slot->result = std::move(result);
      slot->behind = std::move(behind);
      slot->is_made = true;
    }
    made_.notify_one();
    return goes_on;
  }
  Result Read(Counters& behind) {
    return CallWalk([&]() -> Result {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      if (element.has_value()) MESHWORK_RETURN_IF_ERROR(input_->Save(behind));
      return element;
    });
  }
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Walk* const input_;  // used by whom holds input_mutex_
  const Make make_;
  const int64_t window_;
  std::mutex input_mutex_;  // taken before mutex_

  std::mutex mutex_;  // of what follows
  std::condition_variable room_, made_;
  std::deque<Slot> slots_;  // elements taken_ to read_ - 1
  int64_t taken_, read_;    // numbers of the next element to be taken, and to be read
  bool stopped_ = false;    // nobody takes any more
  bool ended_ = false;      // the input has no more, or something has failed
  std::vector<std::thread> threads_;
};

// A walk over an input that is read ahead. Threads begin with the first element.
class AheadWalk {
 public:
  explicit AheadWalk(std::unique_ptr<Walk> input) : input_(input.release()) {}

  // `stage`: the name of the stage, for the error of a child of a fork.
  Result Take(std::string_view stage, const std::function<ReadAhead*(Walk*)>& begin) {
    if (ahead_ == nullptr) {
      Counters start;
      MESHWORK_RETURN_IF_ERROR(input_->Save(start));
      ahead_ = UnlessForked<ReadAhead>(begin(input_.get()));
      behind_ = std::move(start);
      begun_ = ForkMark();
    }
    MESHWORK_RETURN_IF_ERROR(begun_.Check(stage));
    return ahead_->Take(behind_);
  }
  bool has_begun() const { return ahead_ != nullptr; }
  Walk& input() { return *input_; }
  absl::Status Save(Counters& to) const {
    if (ahead_ == nullptr) return input_->Save(to);
    to.insert(to.end(), behind_.begin(), behind_.end());
    return absl::OkStatus();
  }

 private:
  UnlessForked<Walk> input_;
  Counters behind_;  // the position of the input behind the last element taken, once threads have begun
  ForkMark begun_;
  UnlessForked<ReadAhead> ahead_;  // the last: its threads use the input
};

// ---- Prefetch.

class Prefetching : public Stage {
 public:
  Prefetching(StagePtr from, std::string name, int64_t n)
      : input(std::move(from)), name(std::move(name)), n(n) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override { return input->Describe(reader); }
  std::optional<int64_t> Size() const override { return input->Size(); }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const std::string name;
  const int64_t n;
};

class PrefetchWalk : public WalkOver<Prefetching> {
 public:
  PrefetchWalk(const Prefetching& stage, uint64_t epoch)
      : WalkOver(stage), input_(stage.input->Begin(epoch)) {}

  Result Next() override {
    return input_.Take(stage_->name,
                       [&](Walk* input) { return new ReadAhead(input, nullptr, 1, stage_->n, 0); });
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    return input_.has_begun() ? Walk::Skip(n) : input_.input().Skip(n);
  }
  absl::Status Save(Counters& to) const override { return input_.Save(to); }
  absl::Status Restore(CounterReader& from) override { return input_.input().Restore(from); }

 private:
  AheadWalk input_;
};

// ---- Map.

class Mapping : public Stage {
 public:
  Mapping(StagePtr from, std::string name, Pipeline::MapFunction function, MapOptions options)
      : input(std::move(from)),
        name(std::move(name)),
        function(std::move(function)),
        threads(options.threads),
        from_shares(options.from_shares) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    const bool is_hidden = from_shares && reader == For::kAllProcesses;
    return (is_hidden ? "shares" : input->Describe(reader)) + " | map";
  }
  std::optional<int64_t> Size() const override { return input->Size(); }
  bool IsEndless() const override { return input->IsEndless(); }

  // The function's value for an element of this number.
  Result Call(Example element, int64_t number) const {
    const auto call = [&]() -> Result { return function(std::move(element)); };
    return CallFor(name, number, call);
  }

  const StagePtr input;
  const std::string name;
  const Pipeline::MapFunction function;
  const int threads;
  const bool from_shares;
};

class MapWalk : public WalkOver<Mapping> {
 public:
  MapWalk(const Mapping& stage, uint64_t epoch) : WalkOver(stage), input_(stage.input->Begin(epoch)) {}

  Result Next() override {
    Result result = stage_->threads == 0 ? CallHere() : CallAhead();
    if (result.ok() && result->has_value()) ++number_;
    return result;
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    if (input_.has_begun()) return Walk::Skip(n);
    MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_.input().Skip(n));
    number_ += skipped;
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(number_);
    return input_.Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(number_, from.Next());
    return input_.input().Restore(from);
  }

 private:
  Result CallHere() {
    MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_.input().Next());
    if (!element.has_value()) return std::nullopt;
    return stage_->Call(*std::move(element), number_);
  }
  Result CallAhead() {
    return input_.Take(stage_->name, [&](Walk* input) {
      const auto call = [stage = stage_.get()](Example element, int64_t number) {
        return stage->Call(std::move(element), number);
      };
      return new ReadAhead(input, call, stage_->threads, 2 * int64_t{stage_->threads}, number_);
    });
  }

  AheadWalk input_;
  int64_t number_ = 0;  // of the next element
};

std::unique_ptr<Walk> Prefetching::Begin(uint64_t epoch) const {
  return std::make_unique<PrefetchWalk>(*this, epoch);
}
std::unique_ptr<Walk> Mapping::Begin(uint64_t epoch) const { return std::make_unique<MapWalk>(*this, epoch); }

}  // namespace

StagePtr PrefetchStage(StagePtr input, std::string name, int64_t n) {
  return std::make_shared<Prefetching>(std::move(input), std::move(name), n);
}
StagePtr MapStage(StagePtr input, std::string name, Pipeline::MapFunction function, MapOptions options) {
  return std::make_shared<Mapping>(std::move(input), std::move(name), std::move(function), options);
}

}  // namespace meshwork::internal
