// The parts of a Pipeline: stages, which are immutable descriptions, and walks, which go over their elements.
//
// A stage is shared by all pipelines and walks that it is a part of. A walk belongs to one thread at a time; the stages
// that have threads of their own (pipeline_threads.cc) hand it from one to the other.
//
// The position of a walk is a few counters: Save appends them to a list, Restore takes them from one, in the same
// order. Everything else that a walk holds is read again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/example.h"

namespace meshwork::internal {

using Counters = std::vector<int64_t>;

class CounterReader {
 public:
  static constexpr int64_t kMost = int64_t{1} << 62;  // counters that are read can be added to
  explicit CounterReader(std::span<const int64_t> counters) : rest_(counters) {}
  // The next counter. Errors: there is none; it does not lie within these bounds: the counters are not those that the
  // walk has saved.
  absl::StatusOr<int64_t> Next(int64_t at_least = 0, int64_t at_most = kMost);
  bool AtEnd() const { return rest_.empty(); }

 private:
  std::span<const int64_t> rest_;
};

class Walk {
 public:
  virtual ~Walk() = default;
  // The next element; nothing at the end, and then again. After an error, the walk is of no use.
  virtual absl::StatusOr<std::optional<Example>> Next() = 0;
  // Like n calls of Next, but makes an element only if it is needed to find the next one. Returns how many elements
  // there were; fewer than n: the walk is at its end. REQUIRES: n >= 0.
  virtual absl::StatusOr<int64_t> Skip(int64_t n);
  // Error: a thread of the walk belongs to a parent of this process.
  virtual absl::Status Save(Counters& to) const = 0;
  // Goes to the place at which the counters were saved. Errors: those of CounterReader; those of Next, for what is read
  // again. REQUIRES: nothing has been read.
  virtual absl::Status Restore(CounterReader& from) = 0;
};

// The reader of a stage's description.
enum class For : uint8_t {
  kPosition,      // in this process: Pipeline::ToString
  kAllProcesses,  // Pipeline::Fingerprint
};

class Stage : public std::enable_shared_from_this<Stage> {
 public:
  virtual ~Stage() = default;
  // Each epoch (a number that Repeat gives) is shuffled in an order of its own.
  virtual std::unique_ptr<Walk> Begin(uint64_t epoch) const = 0;
  // What determines the elements and their order, as far as it can be written: "range(100) | map | batch(32)".
  std::string ToString() const { return Describe(For::kPosition); }
  virtual std::string Describe(For reader) const = 0;
  // How many elements there are; nothing: unknown, or no end.
  virtual std::optional<int64_t> Size() const = 0;
  // Whether it is certain that there is no end.
  virtual bool IsEndless() const { return false; }
};
using StagePtr = std::shared_ptr<const Stage>;

// A walk over a stage of type S, which it keeps alive.
template <typename S>
class WalkOver : public Walk {
 public:
  explicit WalkOver(const S& stage) : stage_(std::static_pointer_cast<const S>(stage.shared_from_this())) {}

 protected:
  const std::shared_ptr<const S> stage_;
};

// A walk that counts the elements it reads of its stage's `input`. Its position is that number and the input's
// position.
template <typename S>
class CountingWalk : public WalkOver<S> {
 public:
  CountingWalk(const S& stage, uint64_t epoch) : WalkOver<S>(stage), input_(stage.input->Begin(epoch)) {}

  absl::Status Save(Counters& to) const override {
    to.push_back(read_);
    return input_->Save(to);
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(read_, from.Next());
    return input_->Restore(from);
  }

 protected:
  const std::unique_ptr<Walk> input_;
  int64_t read_ = 0;
};

// A walk over elements that are known by their numbers, from 0 to end() - 1 of the stage.
template <typename S>
class NumberedWalk : public WalkOver<S> {
 public:
  using WalkOver<S>::WalkOver;

  absl::StatusOr<int64_t> Skip(int64_t n) override {
    const int64_t skipped = std::min(n, this->stage_->end() - next_);
    next_ += skipped;
    return skipped;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(next_);
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(next_, from.Next(0, this->stage_->end()));
    return absl::OkStatus();
  }

 protected:
  int64_t next_ = 0;
};

// For Walk::Restore of a walk that can only read again: skips as many elements as the next counter says. `stage` and
// `input` are for messages, "Cache" and "input". Errors: those of CounterReader and of Skip; there are fewer elements
// now.
absl::Status SkipAgain(Walk& walk, CounterReader& from, std::string_view stage, std::string_view input);

// The number of batches of n elements that `elements` make; nothing if their number is not known.
std::optional<int64_t> BatchesOf(std::optional<int64_t> elements, int64_t n, bool drop_remainder);

// a * b, or the largest number. REQUIRES: neither is negative.
int64_t TimesAtMost(int64_t a, int64_t b);

}  // namespace meshwork::internal
