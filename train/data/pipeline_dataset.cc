// Datasets as sources of pipelines: their examples, and their batches.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "meshwork/base/debug.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/buffer_pool.h"
#include "meshwork/train/data/dataset_parts.h"
#include "meshwork/train/data/epoch_order.h"
#include "meshwork/train/data/pipeline_stages.h"

namespace meshwork::internal {

class DatasetStage : public Stage {
 public:
  explicit DatasetStage(Dataset dataset) : dataset_(std::move(dataset)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    if (reader == For::kPosition) return fmt::format("dataset({})", size());
    // Threads that find it at the same time find the same.
    if (contents_ == 0) contents_ = ContentsOf(dataset_);
    return contents_ == 0 ? fmt::format("dataset({})", size())
                          : fmt::format("dataset({}, contents {:016x})", size(), contents_.load());
  }
  std::optional<int64_t> Size() const override { return size(); }

  int64_t end() const { return size(); }

  int64_t size() const { return dataset_.size(); }
  // REQUIRES: there are examples.
  DatasetParts& parts() const { return *dataset_.parts_; }

 private:
  const Dataset dataset_;
  mutable std::atomic<uint64_t> contents_{0};  // 0: not known, or not yet
};

namespace {

// ---- Examples.

class DatasetWalk : public NumberedWalk<DatasetStage> {
 public:
  using NumberedWalk::NumberedWalk;

  absl::StatusOr<std::optional<Example>> Next() override {
    if (next_ == stage_->end()) return std::nullopt;
    const DatasetParts::Place place = stage_->parts().Find(next_);
    if (place.part != part_) {
      MESHWORK_ASSIGN_OR_RETURN(columns_, stage_->parts().Load(place.part));
      part_ = place.part;
    }
    Columns row;
    row.reserve(columns_->size());
    for (const auto& [name, tensor] : *columns_) {
      const Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
      row.emplace_back(name, tensor.Rows(place.row, place.row + 1).Reshaped(shape));
    }
    ++next_;
    return Example(std::move(row));
  }

 private:
  int64_t part_ = -1;
  const Columns* columns_ = nullptr;  // of the part
};

// ---- Batches.

// The rows that are wanted of a full batch, and of the last one if it is short.
struct WantedRows {
  RowRange of_full, of_last;
};

class BatchesStage : public DatasetStage {
 public:
  BatchesStage(Dataset dataset, BatchesOptions options, const WantedRows& wanted)
      : DatasetStage(std::move(dataset)), options(std::move(options)), wanted(wanted) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    std::string text = fmt::format("{} | batches({}", DatasetStage::Describe(reader), options.batch_size);
    if (options.shuffle_seed.has_value()) text += fmt::format(", seed {}", *options.shuffle_seed);
    if (options.epoch != 0) text += fmt::format(", epoch {}", options.epoch);
    if (options.first_batch != 0) text += fmt::format(", from {}", options.first_batch);
    if (options.lanes != 1) text += fmt::format(", lanes {}", options.lanes);
    return text + ")";
  }
  std::optional<int64_t> Size() const override { return end(); }

  int64_t end() const {
    const int64_t all = size() == 0 ? 0 : (size() - 1) / options.batch_size + 1;
    return std::max<int64_t>(all - options.first_batch, 0);
  }
  bool are_views() const {
    return size() == 0 || (parts().in_memory() && options.lanes == 1 && !options.shuffle_seed.has_value());
  }

  const BatchesOptions options;
  const WantedRows wanted;
};

class BatchesWalk : public NumberedWalk<BatchesStage> {
 public:
  BatchesWalk(const BatchesStage& stage, uint64_t epoch)
      : NumberedWalk(stage),
        order_(stage.size(), stage.options, epoch),
        buffers_(new BufferPool, DeleteUnlessForked()) {}

  absl::StatusOr<std::optional<Example>> Next() override {
    if (next_ == stage_->end()) return std::nullopt;
    const int64_t batch = stage_->options.first_batch + next_;
    MESHWORK_ASSIGN_OR_RETURN(Columns columns, stage_->are_views() ? View(batch) : Gather(batch));
    ++next_;
    return Example(std::move(columns));
  }

 private:
  absl::StatusOr<Columns> View(int64_t batch) const {
    MESHWORK_ASSIGN_OR_RETURN(const Columns* const all, stage_->parts().Load(0));
    const int64_t begin = batch * stage_->options.batch_size;
    Columns columns = *all;
    for (auto& [name, tensor] : columns) tensor = tensor.Rows(begin, begin + order_.RowsOf(batch));
    return columns;
  }
  absl::StatusOr<Columns> Gather(int64_t batch) {
    DatasetParts& parts = stage_->parts();
    const int64_t all = order_.RowsOf(batch);
    const RowRange wanted =
        all == stage_->options.batch_size ? stage_->wanted.of_full : stage_->wanted.of_last;
    struct Source {
      const Columns* columns;
      int64_t row;
    };
    std::vector<Source> sources;
    sources.reserve(static_cast<size_t>(wanted.size()));
    for (const int64_t example : order_.ExamplesOf(batch, wanted)) {
      const DatasetParts::Place place = parts.Find(example);
      MESHWORK_ASSIGN_OR_RETURN(const Columns* const columns, parts.Load(place.part));
      sources.push_back({columns, place.row});
    }
    MESHWORK_ASSIGN_OR_RETURN(const Columns* const like, parts.Like(parts.Find(0).part));
    Columns gathered;
    for (size_t c = 0; c < like->size(); ++c) {
      Type type = (*like)[c].second.type();
      type.shape[0] = all;
      Tensor tensor(type, buffers_->Take(type.bytes()));
      const int64_t row_bytes = RowBytes(tensor);
      // Unwanted rows of floats are NaN then, so that it shows if they are read.
      if (kDebugBuild) std::memset(tensor.raw(), 0xFF, static_cast<size_t>(tensor.bytes()));
      auto* to = static_cast<std::byte*>(tensor.raw()) + wanted.begin * row_bytes;
      for (const Source& source : sources) {
        const auto* from = static_cast<const std::byte*>((*source.columns)[c].second.raw());
        std::memcpy(to, from + source.row * row_bytes, static_cast<size_t>(row_bytes));
        to += row_bytes;
      }
      gathered.emplace_back((*like)[c].first, std::move(tensor));
    }
    return gathered;
  }

  EpochOrder order_;
  const std::shared_ptr<BufferPool> buffers_;
};

// The rows that are wanted of a batch of `rows` rows.
absl::StatusOr<RowRange> WantedOf(const BatchesOptions& options, int64_t rows) {
  if (options.rows == nullptr) return RowRange{0, rows};
  const RowRange wanted = options.rows(rows);
  if (0 <= wanted.begin && wanted.begin <= wanted.end && wanted.end <= rows) return wanted;
  return InvalidArgument(
      "Batches: options.rows gives rows {} to {} of a batch of {}; give a range that lies within the batch.",
      wanted.begin, wanted.end, rows);
}

}  // namespace

std::unique_ptr<Walk> DatasetStage::Begin(uint64_t) const { return std::make_unique<DatasetWalk>(*this); }
std::unique_ptr<Walk> BatchesStage::Begin(uint64_t e) const {
  return std::make_unique<BatchesWalk>(*this, e);
}

StagePtr DatasetSource(Dataset dataset) { return std::make_shared<DatasetStage>(std::move(dataset)); }

absl::StatusOr<StagePtr> BatchesSource(Dataset dataset, BatchesOptions options) {
  const int64_t batch_size = options.batch_size, lanes = options.lanes, size = dataset.size();
  if (batch_size < 1) return InvalidArgument("Batches: batch_size is {}; it must be at least 1.", batch_size);
  if (lanes < 1 || batch_size % lanes != 0)
    return InvalidArgument(
        "Batches: lanes is {} and batch_size is {}; lanes must be at least 1 and divide batch_size.", lanes,
        batch_size);
  if (options.first_batch < 0)
    return InvalidArgument("Batches: first_batch is {}; it must be at least 0.", options.first_batch);
  WantedRows wanted;
  if (size >= batch_size) {
    MESHWORK_ASSIGN_OR_RETURN(wanted.of_full, WantedOf(options, batch_size));
  }
  if (size % batch_size != 0) {
    MESHWORK_ASSIGN_OR_RETURN(wanted.of_last, WantedOf(options, size % batch_size));
  }
  const auto stage = std::make_shared<BatchesStage>(std::move(dataset), std::move(options), wanted);
  return stage->are_views() ? stage : PrefetchStage(stage, "Batches", /*n=*/2);
}

}  // namespace meshwork::internal
