// Stages that pass elements on, or leave them out: Filter, Take, Skip, Shard, Repeat, Cache.
#include <algorithm>
#include <atomic>
#include <utility>

#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_call.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

// ---- Filter.

class Filtering : public Stage {
 public:
  Filtering(StagePtr from, Pipeline::FilterFunction function)
      : input(std::move(from)), function(std::move(function)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override { return input->Describe(reader) + " | filter"; }
  std::optional<int64_t> Size() const override { return std::nullopt; }

  const StagePtr input;
  const Pipeline::FilterFunction function;
};

class FilterWalk : public CountingWalk<Filtering> {
 public:
  using CountingWalk::CountingWalk;

  absl::StatusOr<std::optional<Example>> Next() override {
    for (;;) {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      if (!element.has_value()) return std::nullopt;
      const auto call = [&] { return stage_->function(*element); };
      MESHWORK_ASSIGN_OR_RETURN(const bool wanted, CallFor("Filter", read_++, call));
      if (wanted) return element;
    }
  }
};

// ---- Take.

class Taking : public Stage {
 public:
  Taking(StagePtr from, int64_t n) : input(std::move(from)), n(n) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | take({})", input->Describe(reader), n);
  }
  std::optional<int64_t> Size() const override {
    if (n == 0) return 0;
    const std::optional<int64_t> all = input->Size();
    return all.has_value() ? std::optional(std::min(*all, n)) : std::nullopt;
  }

  const StagePtr input;
  const int64_t n;
};

class TakeWalk : public WalkOver<Taking> {
 public:
  TakeWalk(const Taking& stage, uint64_t epoch) : WalkOver(stage), input_(stage.input->Begin(epoch)) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    if (taken_ == stage_->n) return std::nullopt;
    MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
    if (element.has_value()) ++taken_;
    return element;
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(std::min(n, stage_->n - taken_)));
    taken_ += skipped;
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(taken_);
    return input_->Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(taken_, from.Next(0, stage_->n));
    return input_->Restore(from);
  }

 private:
  const std::unique_ptr<Walk> input_;
  int64_t taken_ = 0;
};

// ---- Skip.

class Skipping : public Stage {
 public:
  Skipping(StagePtr from, int64_t n) : input(std::move(from)), n(n) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | skip({})", input->Describe(reader), n);
  }
  std::optional<int64_t> Size() const override {
    const std::optional<int64_t> all = input->Size();
    return all.has_value() ? std::optional(std::max<int64_t>(*all - n, 0)) : std::nullopt;
  }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const int64_t n;
};

class SkipWalk : public WalkOver<Skipping> {
 public:
  SkipWalk(const Skipping& stage, uint64_t epoch) : WalkOver(stage), input_(stage.input->Begin(epoch)) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    MESHWORK_RETURN_IF_ERROR(Start());
    return input_->Next();
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    MESHWORK_RETURN_IF_ERROR(Start());
    return input_->Skip(n);
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(started_);
    return input_->Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t started, from.Next(0, 1));
    started_ = started == 1;
    return input_->Restore(from);
  }

 private:
  absl::Status Start() {
    if (std::exchange(started_, true)) return absl::OkStatus();
    return input_->Skip(stage_->n).status();
  }

  const std::unique_ptr<Walk> input_;
  bool started_ = false;
};

// ---- Shard.

class Sharding : public Stage {
 public:
  Sharding(StagePtr from, int64_t index, int64_t count)
      : input(std::move(from)), index(index), count(count) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    const std::string before = input->Describe(reader);
    return reader == For::kAllProcesses ? fmt::format("{} | shard(of {})", before, count)
                                        : fmt::format("{} | shard({} of {})", before, index, count);
  }
  std::optional<int64_t> Size() const override {
    const std::optional<int64_t> all = input->Size();
    if (!all.has_value()) return std::nullopt;
    return *all / count + (index < *all % count ? 1 : 0);
  }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const int64_t index, count;
};

class ShardWalk : public WalkOver<Sharding> {
 public:
  ShardWalk(const Sharding& stage, uint64_t epoch)
      : WalkOver(stage), input_(stage.input->Begin(epoch)), before_(stage.index) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(before_));
    if (skipped < before_) return std::nullopt;
    before_ = stage_->count - 1;
    return input_->Next();
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    if (n == 0) return 0;
    const int64_t others = TimesAtMost(n - 1, stage_->count);
    const int64_t most = others > INT64_MAX - before_ - 1 ? INT64_MAX : before_ + 1 + others;
    MESHWORK_ASSIGN_OR_RETURN(const int64_t read, input_->Skip(most));
    const int64_t skipped = read <= before_ ? 0 : 1 + (read - before_ - 1) / stage_->count;
    if (skipped > 0) before_ = stage_->count - 1;
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(before_);
    return input_->Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(before_, from.Next(0, stage_->count - 1));
    return input_->Restore(from);
  }

 private:
  const std::unique_ptr<Walk> input_;
  int64_t before_;  // elements of the input that are left out in front of the next one
};

// ---- Repeat.

class Repeating : public Stage {
 public:
  Repeating(StagePtr from, std::optional<int64_t> n) : input(std::move(from)), n(n) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return input->Describe(reader) + (n.has_value() ? fmt::format(" | repeat({})", *n) : " | repeat");
  }
  std::optional<int64_t> Size() const override {
    const std::optional<int64_t> all = input->Size();
    if (n == 0 || all == 0) return 0;
    return n.has_value() && all.has_value() ? std::optional(TimesAtMost(*n, *all)) : std::nullopt;
  }
  bool IsEndless() const override {
    return n != 0 && input->Size() != 0 && (!n.has_value() || input->IsEndless());
  }

  const StagePtr input;
  const std::optional<int64_t> n;
};

class RepeatWalk : public WalkOver<Repeating> {
 public:
  RepeatWalk(const Repeating& stage, uint64_t epoch)
      : WalkOver(stage), outer_(epoch), ended_(stage.n == 0), input_(BeginInput()) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    while (!ended_) {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      if (element.has_value()) {
        is_empty_ = false;
        return element;
      }
      BeginEpoch();
    }
    return std::nullopt;
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    int64_t skipped = 0;
    while (!ended_ && skipped < n) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t of_epoch, input_->Skip(n - skipped));
      if (of_epoch > 0) is_empty_ = false;
      skipped += of_epoch;
      if (skipped < n) BeginEpoch();
    }
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.insert(to.end(), {epoch_, is_empty_, ended_});
    return input_->Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(epoch_, from.Next());
    MESHWORK_ASSIGN_OR_RETURN(is_empty_, from.Next(0, 1));
    MESHWORK_ASSIGN_OR_RETURN(ended_, from.Next(0, 1));
    input_ = BeginInput();
    return input_->Restore(from);
  }

 private:
  // In each epoch of an outer Repeat, the epochs of this one are shuffled differently.
  std::unique_ptr<Walk> BeginInput() const {
    const auto inner = static_cast<uint64_t>(epoch_);
    return stage_->input->Begin(outer_ == 0 ? inner : Random(outer_, inner).Next());
  }
  void BeginEpoch() {
    ended_ = is_empty_ || epoch_ + 1 == stage_->n;
    if (ended_) return;
    ++epoch_;
    is_empty_ = true;
    input_ = BeginInput();
  }

  const uint64_t outer_;
  int64_t epoch_ = 0;
  bool is_empty_ = true;  // this epoch, so far
  bool ended_;
  std::unique_ptr<Walk> input_;  // the last: begun in this epoch
};

// ---- Cache.

class Caching : public Stage {
 public:
  explicit Caching(StagePtr from) : input(std::move(from)) {}
  ~Caching() override { delete cached_.load(); }
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override { return input->Describe(reader) + " | cache"; }
  std::optional<int64_t> Size() const override { return input->Size(); }
  bool IsEndless() const override { return input->IsEndless(); }

  using Elements = std::vector<Example>;
  // Null: no walk has read all of them yet.
  const Elements* cached() const { return cached_.load(std::memory_order_acquire); }
  // The first of several walks that have read all elements keeps them.
  void Keep(std::unique_ptr<const Elements> elements) const {
    const Elements* none = nullptr;
    if (cached_.compare_exchange_strong(none, elements.get(), std::memory_order_acq_rel))
      (void)elements.release();
  }

  const StagePtr input;

 private:
  mutable std::atomic<const Elements*> cached_ =
      nullptr;  // no lock, which a fork could leave locked for ever
};

class CacheWalk : public WalkOver<Caching> {
 public:
  explicit CacheWalk(const Caching& stage) : WalkOver(stage), cached_(stage.cached()) {
    // The input is the same in all epochs, whichever of them is read first.
    if (cached_ == nullptr) input_ = stage.input->Begin(/*epoch=*/0);
  }

  absl::StatusOr<std::optional<Example>> Next() override {
    if (cached_ != nullptr) {
      if (next_ == static_cast<int64_t>(cached_->size())) return std::nullopt;
      return (*cached_)[static_cast<size_t>(next_++)];
    }
    MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
    if (element.has_value()) {
      ++next_;
      read_->push_back(*element);
    } else {
      stage_->Keep(std::move(read_));
      cached_ = stage_->cached();
      input_.reset();
    }
    return element;
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    if (cached_ == nullptr) return Walk::Skip(n);
    const int64_t skipped = std::min(n, static_cast<int64_t>(cached_->size()) - next_);
    next_ += skipped;
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(next_);
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override { return SkipAgain(*this, from, "Cache", "input"); }

 private:
  const Caching::Elements* cached_;
  std::unique_ptr<Walk> input_;  // null: elements are cached
  std::unique_ptr<Caching::Elements> read_ = std::make_unique<Caching::Elements>();
  int64_t next_ = 0;
};

std::unique_ptr<Walk> Filtering::Begin(uint64_t e) const { return std::make_unique<FilterWalk>(*this, e); }
std::unique_ptr<Walk> Taking::Begin(uint64_t e) const { return std::make_unique<TakeWalk>(*this, e); }
std::unique_ptr<Walk> Skipping::Begin(uint64_t e) const { return std::make_unique<SkipWalk>(*this, e); }
std::unique_ptr<Walk> Sharding::Begin(uint64_t e) const { return std::make_unique<ShardWalk>(*this, e); }
std::unique_ptr<Walk> Repeating::Begin(uint64_t e) const { return std::make_unique<RepeatWalk>(*this, e); }
std::unique_ptr<Walk> Caching::Begin(uint64_t) const { return std::make_unique<CacheWalk>(*this); }

}  // namespace

StagePtr FilterStage(StagePtr input, Pipeline::FilterFunction function) {
  return std::make_shared<Filtering>(std::move(input), std::move(function));
}
StagePtr TakeStage(StagePtr input, int64_t n) { return std::make_shared<Taking>(std::move(input), n); }
StagePtr SkipStage(StagePtr input, int64_t n) { return std::make_shared<Skipping>(std::move(input), n); }
StagePtr ShardStage(StagePtr input, int64_t index, int64_t count) {
  return std::make_shared<Sharding>(std::move(input), index, count);
}
StagePtr RepeatStage(StagePtr input, std::optional<int64_t> n) {
  return std::make_shared<Repeating>(std::move(input), n);
}
StagePtr CacheStage(StagePtr input) { return std::make_shared<Caching>(std::move(input)); }

}  // namespace meshwork::internal
