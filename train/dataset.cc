#include "meshwork/train/dataset.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/train/idx.h"
#include "meshwork/train/random.h"

namespace meshwork {
namespace {

const Tensor* Find(const Columns& columns, std::string_view name) {
  for (const auto& [column, tensor] : columns)
    if (column == name) return &tensor;
  return nullptr;
}

absl::StatusOr<Tensor> Get(const Columns& columns, std::string_view name, std::string_view where) {
  if (const Tensor* tensor = Find(columns, name)) return *tensor;
  std::vector<std::string> names;
  for (const auto& [column, tensor] : columns) names.push_back(column);
  return absl::NotFoundError(
      fmt::format("{}: there is no column \"{}\"{}", where, name, DidYouMeanOneOf(name, names, "columns")));
}

}  // namespace

const Tensor& Batch::operator[](std::string_view name) const {
  static const Tensor* const missing = new Tensor();
  const Tensor* tensor = Find(columns_, name);
  return tensor != nullptr ? *tensor : *missing;
}

absl::StatusOr<Tensor> Batch::Get(std::string_view name) const {
  return meshwork::Get(columns_, name, "Batch");
}

absl::StatusOr<Dataset> Dataset::Create(Columns columns) {
  if (columns.empty()) return InvalidArgument("Dataset: has no columns; give at least one.");
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& [name, tensor] = columns[i];
    MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("Dataset: column \"{}\": ", name)));
    if (tensor.type().rank() == 0) {
      return InvalidArgument("Dataset: column \"{}\" is a scalar {}; a column has one row per example.", name,
                             tensor.type().ToString());
    }
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].first == name) {
        return InvalidArgument("Dataset: column \"{}\" is given twice; names must be unique.", name);
      }
    }
    if (tensor.shape()[0] != columns[0].second.shape()[0]) {
      return InvalidArgument("Dataset: column \"{}\" is {} but \"{}\" is {}; columns must have as many rows.",
                             columns[0].first, columns[0].second.type().ToString(), name,
                             tensor.type().ToString());
    }
  }
  Dataset dataset;
  dataset.examples_ = Batch(std::move(columns));
  return dataset;
}

absl::StatusOr<Tensor> Dataset::column(std::string_view name) const {
  return Get(columns(), name, "Dataset");
}

Dataset Dataset::Take(int64_t n) const {
  Columns rows = columns();
  for (auto& [name, tensor] : rows) tensor = tensor.Rows(0, std::clamp<int64_t>(n, 0, size()));
  Dataset dataset;
  dataset.examples_ = Batch(std::move(rows));
  return dataset;
}

BatchRange Dataset::Batches(BatchOptions options) const { return BatchRange(*this, options); }

namespace {

// Buffers that come back when the last tensor over them is gone, to be filled again: after the first few
// batches a walk allocates no more. Thread-safe; buffers may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  std::shared_ptr<void> Take(int64_t bytes) {
    std::shared_ptr<void> buffer = TakeIdle(bytes);
    if (buffer == nullptr) buffer = AllocateAligned(bytes);
    void* data = buffer.get();
    return {data, [pool = weak_from_this(), bytes, buffer = std::move(buffer)](void*) mutable {
              if (const std::shared_ptr<BufferPool> alive = pool.lock())
                alive->Return(bytes, std::move(buffer));
            }};
  }

 private:
  std::shared_ptr<void> TakeIdle(int64_t bytes) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<void>>& idle = idle_[bytes];
    if (idle.empty()) return nullptr;
    std::shared_ptr<void> buffer = std::move(idle.back());
    idle.pop_back();
    return buffer;
  }
  void Return(int64_t bytes, std::shared_ptr<void> buffer) {
    std::lock_guard lock(mutex_);
    idle_[bytes].push_back(std::move(buffer));
  }

  std::mutex mutex_;
  std::map<int64_t, std::vector<std::shared_ptr<void>>> idle_;  // by size
};

}  // namespace

namespace internal {

// Produces the batches of an epoch one after the other. With a seed, a thread gathers them into a queue of
// at most kAhead; `mutex_` guards what both sides touch. Without, Next takes views and there is no thread.
class BatchStream {
 public:
  BatchStream(Dataset dataset, BatchOptions options) : dataset_(std::move(dataset)), options_(options) {
    if (options_.shuffle_seed.has_value() && dataset_.size() > 0) {
      gatherer_ = std::thread(&BatchStream::GatherAll, this);
    }
    Next();
  }
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  ~BatchStream() {
    if (!gatherer_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    gatherer_.join();
  }

  bool ended() const { return current_.rows() == 0; }
  const Batch& current() const { return current_; }

  void Next() {
    current_ = {};
    if (taken_ == dataset_.size()) return;
    current_ = gatherer_.joinable() ? Pop() : View();
    taken_ += current_.rows();
  }

 private:
  static constexpr size_t kAhead = 2;

  int64_t RowsAt(int64_t begin) const { return std::min(options_.batch_size, dataset_.size() - begin); }

  Batch View() const {
    Columns columns = dataset_.columns();
    for (auto& [name, tensor] : columns) tensor = tensor.Rows(taken_, taken_ + RowsAt(taken_));
    return Batch(std::move(columns));
  }

  Batch Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty(); });
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  void GatherAll() {
    const std::vector<int64_t> order = ShuffledOrder(dataset_.size(), *options_.shuffle_seed, options_.epoch);
    for (int64_t begin = 0; begin < dataset_.size(); begin += options_.batch_size) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || ready_.size() < kAhead; });
        if (stopped_) return;
      }
      Batch batch = Gather(std::span(order).subspan(begin, RowsAt(begin)));
      {
        std::lock_guard lock(mutex_);
        ready_.push_back(std::move(batch));
      }
      changed_.notify_all();
    }
  }

  Batch Gather(std::span<const int64_t> rows) const {
    Columns batch;
    for (const auto& [name, column] : dataset_.columns()) {
      Type type = column.type();
      const int64_t row_bytes = type.bytes() / type.shape[0];
      type.shape[0] = static_cast<int64_t>(rows.size());
      Tensor gathered(type, buffers_->Take(type.bytes()));
      auto* to = static_cast<std::byte*>(gathered.raw());
      const auto* from = static_cast<const std::byte*>(column.raw());
      for (int64_t row : rows) {
        std::memcpy(to, from + row * row_bytes, static_cast<size_t>(row_bytes));
        to += row_bytes;
      }
      batch.emplace_back(name, std::move(gathered));
    }
    return Batch(std::move(batch));
  }

  const Dataset dataset_;
  const BatchOptions options_;
  const std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();
  Batch current_;
  int64_t taken_ = 0;  // examples in current_ and the batches before it

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  bool stopped_ = false;
  std::thread gatherer_;
};

}  // namespace internal

const Batch& BatchIterator::operator*() const { return stream_->current(); }

BatchIterator& BatchIterator::operator++() {
  stream_->Next();
  return *this;
}

bool BatchIterator::operator==(std::default_sentinel_t) const { return stream_->ended(); }

absl::Status BatchRange::status() const {
  if (options_.batch_size >= 1) return absl::OkStatus();
  return InvalidArgument("Batches: batch_size is {}; it must be at least 1.", options_.batch_size);
}

int64_t BatchRange::num_batches() const {
  if (!status().ok() || dataset_.size() == 0) return 0;
  return (dataset_.size() - 1) / options_.batch_size + 1;
}

BatchIterator BatchRange::begin() const {
  if (absl::Status wrong = status(); !wrong.ok()) throw absl::BadStatusOrAccess(std::move(wrong));
  return BatchIterator(std::make_shared<internal::BatchStream>(dataset_, options_));
}

std::vector<int64_t> ShuffledOrder(int64_t n, uint64_t seed, int64_t epoch) {
  n = std::max<int64_t>(n, 0);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, static_cast<uint64_t>(epoch));
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[random.Below(static_cast<uint64_t>(i) + 1)]);
  return order;
}

namespace {

constexpr int64_t kMnistSide = 28;

struct NamedIdx {
  std::string path;
  IdxData data;
};

absl::StatusOr<NamedIdx> ReadMnistFile(const std::string& dir, std::string_view name) {
  const std::string plain = (std::filesystem::path(dir) / name).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    absl::StatusOr<IdxData> data = ReadIdx(path);
    if (!data.ok()) return Annotate(data.status(), "LoadMnist: ");
    return NamedIdx{path, *std::move(data)};
  }
  return absl::NotFoundError(fmt::format(
      "LoadMnist: \"{}\" has neither {} nor {}.gz; give the directory that holds the four MNIST files.", dir,
      name, name));
}

// Most of the time goes into pages of memory that are new, which all cores do better than one.
template <typename T>
Tensor ScalePixels(const IdxData& pixels, int64_t n) {
  Tensor image(Type{DTypeOf<T>(), {n, kMnistSide * kMnistSide}});
  const std::span<const uint8_t> from = pixels.bytes.first(n * kMnistSide * kMnistSide);
  const std::span<T> to = image.mutable_values<T>();
  WorkerPool pool;
  pool.Run([&](int worker) {
    const size_t begin = from.size() * worker / pool.num_workers();
    const size_t end = from.size() * (worker + 1) / pool.num_workers();
    for (size_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i]) / 255;
  });
  return image;
}

absl::StatusOr<Dataset> ReadMnistPart(const std::string& dir, std::string_view part, DType dtype,
                                      int64_t most) {
  MESHWORK_ASSIGN_OR_RETURN(const NamedIdx images,
                            ReadMnistFile(dir, fmt::format("{}-images-idx3-ubyte", part)));
  const Shape& shape = images.data.shape;
  if (shape.size() != 3 || shape[1] != kMnistSide || shape[2] != kMnistSide) {
    return InvalidArgument("LoadMnist: {}: its shape is {}; MNIST images are [n,28,28].", images.path,
                           ShapeToString(shape));
  }
  MESHWORK_ASSIGN_OR_RETURN(const NamedIdx labels,
                            ReadMnistFile(dir, fmt::format("{}-labels-idx1-ubyte", part)));
  if (labels.data.shape.size() != 1) {
    return InvalidArgument("LoadMnist: {}: its shape is {}; MNIST labels are [n].", labels.path,
                           ShapeToString(labels.data.shape));
  }
  if (labels.data.shape[0] != shape[0]) {
    return InvalidArgument(
        "LoadMnist: {} holds {} but {} holds {}; every image has one label. Do both files come from the same "
        "data set?",
        images.path, Count(shape[0], "image"), labels.path, Count(labels.data.shape[0], "label"));
  }
  for (size_t i = 0; i < labels.data.bytes.size(); ++i) {
    if (labels.data.bytes[i] > 9) {
      return InvalidArgument("LoadMnist: {}: label {} is {}; labels are 0 to 9.", labels.path, i,
                             labels.data.bytes[i]);
    }
  }
  const int64_t n = std::min(shape[0], most);
  Tensor label(Type{I32, {n}});
  std::copy_n(labels.data.bytes.begin(), n, label.mutable_values<int32_t>().begin());
  Tensor image = dtype == F64 ? ScalePixels<double>(images.data, n) : ScalePixels<float>(images.data, n);
  return Dataset::Create({{"image", std::move(image)}, {"label", std::move(label)}});
}

}  // namespace

absl::StatusOr<MnistData> LoadMnist(const std::string& dir, DType dtype, const MnistLimits& keep) {
  if (dtype != F32 && dtype != F64) {
    return InvalidArgument("LoadMnist: images are asked for as {}; they are read as f32 or f64.",
                           DTypeName(dtype));
  }
  // Unpacking takes long, and one core per file.
  std::future<absl::StatusOr<Dataset>> test =
      std::async([&] { return ReadMnistPart(dir, "t10k", dtype, std::max<int64_t>(keep.test, 0)); });
  MnistData mnist;
  MESHWORK_ASSIGN_OR_RETURN(mnist.train,
                            ReadMnistPart(dir, "train", dtype, std::max<int64_t>(keep.train, 0)));
  MESHWORK_ASSIGN_OR_RETURN(mnist.test, test.get());
  return mnist;
}

}  // namespace meshwork
