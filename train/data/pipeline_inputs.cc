// Stages with several inputs: Zip and Interleave.
#include <algorithm>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

// "range(3); 2 x text_lines(1 file)": inputs that follow each other and are written alike are counted.
std::string Together(const std::vector<StagePtr>& inputs, For reader) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < inputs.size();) {
    const std::string text = inputs[i]->Describe(reader);
    size_t end = i + 1;
    while (end < inputs.size() && inputs[end]->Describe(reader) == text) ++end;
    parts.push_back(end - i == 1 ? text : fmt::format("{} x {}", end - i, text));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

// ---- Zip.

class Zipping : public Stage {
 public:
  explicit Zipping(std::vector<StagePtr> from) : inputs(std::move(from)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override { return fmt::format("zip({})", Together(inputs, reader)); }
  bool IsEndless() const override {
    return std::all_of(inputs.begin(), inputs.end(),
                       [](const StagePtr& input) { return input->IsEndless(); });
  }
  std::optional<int64_t> Size() const override {
    // An input of unknown size may be the shortest one; but none is shorter than an empty one.
    std::optional<int64_t> least;
    bool all_known = true;
    for (const StagePtr& input : inputs) {
      const std::optional<int64_t> size = input->Size();
      if (size == 0) return 0;
      if (!size.has_value()) all_known = false;
      else least = std::min(least.value_or(*size), *size);
    }
    return all_known ? least : std::nullopt;
  }

  const std::vector<StagePtr> inputs;
};

class ZipWalk : public WalkOver<Zipping> {
 public:
  ZipWalk(const Zipping& stage, uint64_t epoch) : WalkOver(stage) {
    for (const StagePtr& input : stage.inputs) inputs_.push_back(input->Begin(epoch));
  }

  absl::StatusOr<std::optional<Example>> Next() override {
    if (ended_) return std::nullopt;
    Example together;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, inputs_[i]->Next());
      ended_ = !element.has_value();
      if (ended_) return std::nullopt;
      MESHWORK_RETURN_IF_ERROR(Add(*element, i, together));
    }
    ++read_;
    return together;
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    int64_t least = ended_ ? 0 : n;
    for (const auto& input : inputs_) {
      if (ended_) break;
      MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input->Skip(n));
      least = std::min(least, skipped);
    }
    ended_ = ended_ || least < n;
    read_ += least;
    return least;
  }
  absl::Status Save(Counters& to) const override {
    to.insert(to.end(), {read_, ended_});
    for (const auto& input : inputs_) MESHWORK_RETURN_IF_ERROR(input->Save(to));
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(read_, from.Next());
    MESHWORK_ASSIGN_OR_RETURN(ended_, from.Next(0, 1));
    for (const auto& input : inputs_) MESHWORK_RETURN_IF_ERROR(input->Restore(from));
    return absl::OkStatus();
  }

 private:
  absl::Status Add(const Example& element, size_t input, Example& together) const {
    for (const auto& [name, tensor] : element.columns()) {
      MESHWORK_RETURN_IF_ERROR(CheckNew(name, input, together));
      together.Set(name, tensor);
    }
    for (const Example::NamedText& text : element.texts()) {
      MESHWORK_RETURN_IF_ERROR(CheckNew(text.first, input, together));
      together.AddText(text);
    }
    return absl::OkStatus();
  }
  absl::Status CheckNew(std::string_view name, size_t input, const Example& together) const {
    if (!together.Has(name)) return absl::OkStatus();
    return InvalidArgument(
        "Zip: element {}: input {} has \"{}\", which an input before it has, too; rename one of them by Map.",
        read_, input, name);
  }

  std::vector<std::unique_ptr<Walk>> inputs_;
  int64_t read_ = 0;
  bool ended_ = false;
};

// ---- Interleave.

class Interleaving : public Stage {
 public:
  Interleaving(std::vector<StagePtr> from, InterleaveOptions options)
      : inputs(std::move(from)), options(options) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("interleave(cycle {}, block {}: {})", options.cycle, options.block,
                       Together(inputs, reader));
  }
  std::optional<int64_t> Size() const override {
    int64_t sum = 0;
    for (const StagePtr& input : inputs) {
      const std::optional<int64_t> size = input->Size();
      if (!size.has_value() || *size > INT64_MAX - sum) return std::nullopt;
      sum += *size;
    }
    return sum;
  }
  bool IsEndless() const override {
    return std::any_of(inputs.begin(), inputs.end(),
                       [](const StagePtr& input) { return input->IsEndless(); });
  }

  const std::vector<StagePtr> inputs;
  const InterleaveOptions options;
};

class InterleaveWalk : public WalkOver<Interleaving> {
 public:
  InterleaveWalk(const Interleaving& stage, uint64_t epoch) : WalkOver(stage), epoch_(epoch) {
    while (static_cast<int64_t>(open_.size()) < stage.options.cycle && next_input_ < num_inputs())
      open_.push_back(Open(next_input_++));
  }

  absl::StatusOr<std::optional<Example>> Next() override {
    while (!open_.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> element, open_[turn_].walk->Next());
      if (element.has_value()) {
        if (++in_block_ == stage_->options.block) GiveTurn(turn_ + 1);
        return element;
      }
      if (next_input_ < num_inputs()) {
        open_[turn_] = Open(next_input_++);
        GiveTurn(turn_);
      } else {
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
        GiveTurn(turn_);
      }
    }
    return std::nullopt;
  }
  absl::Status Save(Counters& to) const override {
    to.insert(to.end(),
              {static_cast<int64_t>(open_.size()), next_input_, static_cast<int64_t>(turn_), in_block_});
    for (const Input& input : open_) {
      to.push_back(input.number);
      MESHWORK_RETURN_IF_ERROR(input.walk->Save(to));
    }
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t open,
                              from.Next(0, std::min(stage_->options.cycle, num_inputs())));
    MESHWORK_ASSIGN_OR_RETURN(next_input_, from.Next(open, num_inputs()));
    MESHWORK_ASSIGN_OR_RETURN(const int64_t turn, from.Next(0, std::max<int64_t>(open - 1, 0)));
    MESHWORK_ASSIGN_OR_RETURN(in_block_, from.Next(0, stage_->options.block - 1));
    turn_ = static_cast<size_t>(turn);
    open_.clear();
    for (int64_t i = 0; i < open; ++i) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t number, from.Next(0, next_input_ - 1));
      open_.push_back(Open(number));
      MESHWORK_RETURN_IF_ERROR(open_.back().walk->Restore(from));
    }
    return absl::OkStatus();
  }

 private:
  struct Input {
    int64_t number;
    std::unique_ptr<Walk> walk;
  };

  int64_t num_inputs() const { return static_cast<int64_t>(stage_->inputs.size()); }
  Input Open(int64_t number) const {
    return {number, stage_->inputs[static_cast<size_t>(number)]->Begin(epoch_)};
  }
  void GiveTurn(size_t turn) {
    turn_ = turn < open_.size() ? turn : 0;
    in_block_ = 0;
  }

  const uint64_t epoch_;
  std::vector<Input> open_;
  int64_t next_input_ = 0;
  size_t turn_ = 0;       // of open_
  int64_t in_block_ = 0;  // elements that it has given in this turn
};

std::unique_ptr<Walk> Zipping::Begin(uint64_t epoch) const { return std::make_unique<ZipWalk>(*this, epoch); }
std::unique_ptr<Walk> Interleaving::Begin(uint64_t epoch) const {
  return std::make_unique<InterleaveWalk>(*this, epoch);
}

}  // namespace

StagePtr ZipStage(std::vector<StagePtr> inputs) { return std::make_shared<Zipping>(std::move(inputs)); }
StagePtr InterleaveStage(std::vector<StagePtr> inputs, InterleaveOptions options) {
  return std::make_shared<Interleaving>(std::move(inputs), options);
}

}  // namespace meshwork::internal
