// Pipeline::Shuffle.
//
// The random numbers of a walk depend on the seed and the epoch alone, so its buffer can be made again from counters: a
// buffer of element numbers goes through the same draws, and shows which elements of the input to keep. Marks give the
// place in the input where these begin: a mark is a position of the input, and one is made for every `buffer` elements
// read.
#include <algorithm>
#include <deque>
#include <utility>

#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

class Shuffling : public Stage {
 public:
  Shuffling(StagePtr from, int64_t buffer, uint64_t seed)
      : input(std::move(from)), buffer(buffer), seed(seed) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | shuffle({}, seed {})", input->Describe(reader), buffer, seed);
  }
  std::optional<int64_t> Size() const override { return input->Size(); }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const int64_t buffer;
  const uint64_t seed;
};

// Takes a random element out of the buffer.
template <typename T>
T Draw(Random& random, std::vector<T>& buffer) {
  std::swap(buffer[random.Below(buffer.size())], buffer.back());
  T drawn = std::move(buffer.back());
  buffer.pop_back();
  return drawn;
}

class ShuffleWalk : public WalkOver<Shuffling> {
 public:
  ShuffleWalk(const Shuffling& stage, uint64_t epoch)
      : WalkOver(stage), input_(stage.input->Begin(epoch)), random_(stage.seed, epoch) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    while (!ended_ && static_cast<int64_t>(buffer_.size()) < stage_->buffer) {
      MESHWORK_RETURN_IF_ERROR(MarkIfDue(read_));
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      ended_ = !element.has_value();
      if (!ended_) buffer_.emplace_back(read_++, *std::move(element));
    }
    if (buffer_.empty()) return std::nullopt;
    ++drawn_;
    return Draw(random_, buffer_).second;
  }

  absl::Status Save(Counters& to) const override {
    to.insert(to.end(), {drawn_, read_, ended_, marks_.empty() ? 0 : marks_.front().at});
    if (marks_.empty()) return input_->Save(to);
    to.insert(to.end(), marks_.front().position.begin(), marks_.front().position.end());
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(drawn_, from.Next(0, stage_->input->Size().value_or(INT64_MAX)));
    MESHWORK_ASSIGN_OR_RETURN(read_,
                              from.Next(drawn_, drawn_ + std::min(stage_->buffer - 1, INT64_MAX - drawn_)));
    MESHWORK_ASSIGN_OR_RETURN(ended_, from.Next(0, 1));
    MESHWORK_ASSIGN_OR_RETURN(int64_t at, from.Next(0, read_));
    MESHWORK_RETURN_IF_ERROR(input_->Restore(from));

    MESHWORK_RETURN_IF_ERROR(MarkIfDue(at));
    std::vector<Numbered<size_t>> wanted = WhatIsBuffered();
    std::sort(wanted.begin(), wanted.end());
    buffer_.resize(wanted.size());
    for (const auto& [number, place] : wanted) {
      if (number < at) return NotThere(number);
      MESHWORK_RETURN_IF_ERROR(SkipTo(number, at));
      MESHWORK_RETURN_IF_ERROR(MarkIfDue(at));
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, input_->Next());
      if (!element.has_value()) return NotThere(number);
      buffer_[place] = {number, *std::move(element)};
      ++at;
    }
    return SkipTo(read_, at);
  }

 private:
  template <typename T>
  using Numbered = std::pair<int64_t, T>;  // with the number of an element of the input
  struct PositionMark {
    int64_t at;  // an element of the input
    Counters position;
  };

  // Notes where the input is, if element `at` is its next one and a mark belongs there; forgets marks that are no
  // longer needed.
  absl::Status MarkIfDue(int64_t at) {
    if (!marks_.empty() && (at % stage_->buffer != 0 || marks_.back().at == at)) return absl::OkStatus();
    PositionMark mark{at, {}};
    MESHWORK_RETURN_IF_ERROR(input_->Save(mark.position));
    marks_.push_back(std::move(mark));
    if (at < read_) return absl::OkStatus();  // while a position is restored, the buffer is not whole
    int64_t oldest = at;
    for (const auto& [number, element] : buffer_) oldest = std::min(oldest, number);
    while (marks_.size() > 1 && marks_[1].at <= oldest) marks_.pop_front();
    return absl::OkStatus();
  }

  // The numbers of the elements in the buffer, and where they lie in it, after drawn_ draws. Draws them again.
  std::vector<Numbered<size_t>> WhatIsBuffered() {
    std::vector<int64_t> buffer;
    int64_t read = 0;
    for (int64_t i = 0; i < drawn_; ++i) {
      while (read < read_ && static_cast<int64_t>(buffer.size()) < stage_->buffer) buffer.push_back(read++);
      Draw(random_, buffer);
    }
    std::vector<Numbered<size_t>> buffered;
    for (size_t place = 0; place < buffer.size(); ++place) buffered.emplace_back(buffer[place], place);
    return buffered;
  }

  // Leaves out the input's elements from `at` to `number`, with the marks among them.
  absl::Status SkipTo(int64_t number, int64_t& at) {
    while (at < number) {
      MESHWORK_RETURN_IF_ERROR(MarkIfDue(at));
      const int64_t to =
          std::min(number, at - at % stage_->buffer + std::min(stage_->buffer, INT64_MAX - at));
      MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(to - at));
      if (skipped < to - at) return NotThere(at + skipped);
      at = to;
    }
    return absl::OkStatus();
  }
  static absl::Status NotThere(int64_t number) {
    return InvalidArgument(
        "Shuffle: the position needs element {} of its input again, and it is not there; the input must give the same "
        "elements again.",
        number);
  }

  const std::unique_ptr<Walk> input_;
  Random random_;
  std::vector<Numbered<Example>> buffer_;
  std::deque<PositionMark> marks_;  // the first is in front of all elements in the buffer
  int64_t drawn_ = 0, read_ = 0;
  bool ended_ = false;
};

std::unique_ptr<Walk> Shuffling::Begin(uint64_t epoch) const {
  return std::make_unique<ShuffleWalk>(*this, epoch);
}

}  // namespace

StagePtr ShuffleStage(StagePtr input, int64_t buffer, uint64_t seed) {
  return std::make_shared<Shuffling>(std::move(input), buffer, seed);
}

}  // namespace meshwork::internal
