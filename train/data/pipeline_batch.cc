// Pipeline::Batch: some elements become one.
#include "meshwork/train/data/pipeline_batch.h"

#include <cstring>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/buffer_pool.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {

absl::Status CheckTensors(const Example& element) {
  if (element.columns().empty() && element.texts().empty())
    return InvalidArgument("it has no columns; what is batched has at least one.");
  if (!element.texts().empty())
    return InvalidArgument(
        "it has the text \"{}\"; only tensors can be batched: make tensors of it by Map, and Remove it.",
        element.texts()[0].first);
  for (const auto& [name, tensor] : element.columns())
    if (!tensor.valid()) return Annotate(tensor.status(), fmt::format("column \"{}\": ", name));
  return absl::OkStatus();
}

absl::Status CheckNames(const Example& element, const Columns& first) {
  const auto names = [](const Columns& columns) {
    std::vector<std::string_view> all;
    for (const auto& [name, tensor] : columns) all.push_back(name);
    return all;
  };
  const std::vector<std::string_view> mine = names(element.columns()), wanted = names(first);
  if (mine == wanted) return absl::OkStatus();
  return InvalidArgument(
      "its columns are [{}], and those of the batch's first element [{}]; give all elements the same columns, in "
      "the same order.",
      fmt::join(mine, ", "), fmt::join(wanted, ", "));
}

namespace {

class Batching : public Stage {
 public:
  Batching(StagePtr from, int64_t n, bool drop_remainder)
      : input(std::move(from)), n(n), drop_remainder(drop_remainder) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    return fmt::format("{} | batch({}{})", input->Describe(reader), n,
                       drop_remainder ? ", drop_remainder" : "");
  }
  std::optional<int64_t> Size() const override { return BatchesOf(input->Size(), n, drop_remainder); }
  bool IsEndless() const override { return input->IsEndless(); }

  const StagePtr input;
  const int64_t n;
  const bool drop_remainder;
};

class BatchWalk : public CountingWalk<Batching> {
 public:
  BatchWalk(const Batching& stage, uint64_t epoch)
      : CountingWalk(stage, epoch), buffers_(new BufferPool, DeleteUnlessForked()) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    Columns batch;
    int64_t rows = 0;
    for (; rows < stage_->n; ++rows, ++read_) {
      MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> element, input_->Next());
      if (!element.has_value()) break;
      const absl::Status added = rows == 0 ? Begin(*element, batch) : CheckLike(*element, batch);
      if (!added.ok()) return Annotate(added, fmt::format("Batch: element {}: ", read_));
      for (size_t c = 0; c < batch.size(); ++c) {
        const Tensor& from = element->columns()[c].second;
        std::memcpy(static_cast<std::byte*>(batch[c].second.raw()) + rows * from.bytes(), from.raw(),
                    static_cast<size_t>(from.bytes()));
      }
    }
    if (rows == 0 || (rows < stage_->n && stage_->drop_remainder)) return std::nullopt;
    if (rows < stage_->n)
      for (auto& [name, tensor] : batch) tensor = tensor.Rows(0, rows);
    return Example(std::move(batch));
  }
  absl::StatusOr<int64_t> Skip(int64_t n) override {
    MESHWORK_ASSIGN_OR_RETURN(const int64_t skipped, input_->Skip(TimesAtMost(n, stage_->n)));
    read_ += skipped;
    return *BatchesOf(skipped, stage_->n, stage_->drop_remainder);
  }

 private:
  // Room for a batch of such elements.
  absl::Status Begin(const Example& first, Columns& batch) {
    MESHWORK_RETURN_IF_ERROR(CheckTensors(first));
    batch.reserve(first.columns().size());
    for (const auto& [name, tensor] : first.columns()) {
      Type type = tensor.type();
      type.shape.insert(type.shape.begin(), stage_->n);
      const absl::Status size = CheckSize(type);
      if (!size.ok())
        return Annotate(size, fmt::format("a batch of {} with column \"{}\": ", stage_->n, name));
      batch.emplace_back(name, Tensor(type, buffers_->Take(type.bytes())));
    }
    return absl::OkStatus();
  }
  static absl::Status CheckLike(const Example& element, const Columns& batch) {
    MESHWORK_RETURN_IF_ERROR(CheckTensors(element));
    MESHWORK_RETURN_IF_ERROR(CheckNames(element, batch));
    for (size_t c = 0; c < batch.size(); ++c) {
      const auto& [name, tensor] = element.columns()[c];
      Type first = batch[c].second.type();
      first.shape.erase(first.shape.begin());
      if (tensor.type() != first)
        return InvalidArgument(
            "column \"{}\" is {}, and {} in the batch's first element; give all elements the same type, for example "
            "by Map, or pad them by PaddedBatch.",
            name, tensor.type().ToString(), first.ToString());
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<BufferPool> buffers_;
};

std::unique_ptr<Walk> Batching::Begin(uint64_t epoch) const {
  return std::make_unique<BatchWalk>(*this, epoch);
}

}  // namespace

StagePtr BatchStage(StagePtr input, int64_t n, bool drop_remainder) {
  return std::make_shared<Batching>(std::move(input), n, drop_remainder);
}

}  // namespace meshwork::internal
