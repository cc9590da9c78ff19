// Where the examples of pipelines come from: numbers, generators.
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline_call.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {
namespace {

// ---- Numbers.

class RangeStage : public Stage {
 public:
  explicit RangeStage(std::optional<int64_t> n) : n_(n) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For /*reader*/) const override {
    return n_.has_value() ? fmt::format("range({})", *n_) : "range";
  }
  std::optional<int64_t> Size() const override { return n_; }
  bool IsEndless() const override { return !n_.has_value(); }
  int64_t end() const { return n_.value_or(CounterReader::kMost); }

 private:
  const std::optional<int64_t> n_;
};

class RangeWalk : public NumberedWalk<RangeStage> {
 public:
  using NumberedWalk::NumberedWalk;

  absl::StatusOr<std::optional<Example>> Next() override {
    if (next_ == stage_->end()) return std::nullopt;
    return Example{{"index", Tensor::From<int64_t>({}, {next_++})}};
  }
};

// ---- Generators.

class GeneratorStage : public Stage {
 public:
  explicit GeneratorStage(std::function<Pipeline::Generator()> make) : make_(std::move(make)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For /*reader*/) const override { return "generate"; }
  std::optional<int64_t> Size() const override { return std::nullopt; }
  Pipeline::Generator Make() const { return make_(); }

 private:
  const std::function<Pipeline::Generator()> make_;
};

class GeneratorWalk : public WalkOver<GeneratorStage> {
 public:
  using WalkOver::WalkOver;

  absl::StatusOr<std::optional<Example>> Next() override {
    if (ended_) return std::nullopt;
    const auto call = [&] {
      if (generator_ == nullptr) generator_ = stage_->Make();
      return generator_();
    };
    MESHWORK_ASSIGN_OR_RETURN(std::optional<Example> made, CallFor("Generate", next_, call));
    if (made.has_value()) ++next_;
    else ended_ = true;
    return made;
  }
  absl::Status Save(Counters& to) const override {
    to.push_back(next_);
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    return SkipAgain(*this, from, "Generate", "function");
  }

 private:
  Pipeline::Generator generator_;
  int64_t next_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Walk> RangeStage::Begin(uint64_t) const { return std::make_unique<RangeWalk>(*this); }
std::unique_ptr<Walk> GeneratorStage::Begin(uint64_t) const { return std::make_unique<GeneratorWalk>(*this); }

StagePtr RangeSource(std::optional<int64_t> n) { return std::make_shared<RangeStage>(n); }
StagePtr GeneratorSource(std::function<Pipeline::Generator()> make) {
  return std::make_shared<GeneratorStage>(std::move(make));
}

}  // namespace meshwork::internal
