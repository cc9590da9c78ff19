#include "meshwork/train/data/batch_stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/debug.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/buffer_pool.h"
#include "meshwork/train/data/epoch_order.h"

namespace meshwork::internal {

// Gathers batches by a thread of its own, into a queue of at most kAhead.
class BatchGatherer {
 public:
  BatchGatherer(std::shared_ptr<DatasetParts> parts, int64_t size, const BatchOptions& options,
                const WantedRows& wanted)
      : parts_(std::move(parts)),
        batch_size_(options.batch_size),
        first_batch_(options.first_batch),
        end_batch_((size - 1) / options.batch_size + 1),
        wanted_(wanted),
        order_(size, options),
        buffers_(new BufferPool, DeleteUnlessForked()),
        thread_(&BatchGatherer::GatherAll, this) {}
  BatchGatherer(const BatchGatherer&) = delete;
  BatchGatherer& operator=(const BatchGatherer&) = delete;
  ~BatchGatherer() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // Waits for the next batch. Throws what the thread has thrown.
  Batch Pop();

 private:
  static constexpr size_t kAhead = 2;

  void GatherAll();
  // False if the stream has been stopped meanwhile.
  bool WaitForRoom();
  absl::StatusOr<Batch> Gather(int64_t batch);
  // The columns of a part. The lock of the parts is taken once per walk.
  absl::StatusOr<const Columns*> Load(int64_t part);

  const std::shared_ptr<DatasetParts> parts_;
  const int64_t batch_size_, first_batch_, end_batch_;
  const WantedRows wanted_;

  // Used by the thread only.
  EpochOrder order_;
  std::map<int64_t, const Columns*> loaded_;  // by part
  const std::shared_ptr<BufferPool> buffers_;

  std::mutex mutex_;  // of what both sides touch
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failed_;  // why no more batches come
  bool stopped_ = false;
  std::thread thread_;  // the last: it uses all others
};

Batch BatchGatherer::Pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || failed_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failed_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

bool BatchGatherer::WaitForRoom() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || ready_.size() < kAhead; });
  return !stopped_;
}

void BatchGatherer::GatherAll() {
  std::exception_ptr failed;
  try {
    for (int64_t batch = first_batch_; batch < end_batch_; ++batch) {
      if (!WaitForRoom()) return;
      Batch gathered = Gather(batch).value();  // which throws BadStatusOrAccess
      {
        std::lock_guard lock(mutex_);
        ready_.push_back(std::move(gathered));
      }
      changed_.notify_all();
    }
    return;
  } catch (...) {
    failed = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    failed_ = std::move(failed);
  }
  changed_.notify_all();
}

absl::StatusOr<const Columns*> BatchGatherer::Load(int64_t part) {
  const Columns*& columns = loaded_[part];
  if (columns == nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(columns, parts_->Load(part));
  }
  return columns;
}

absl::StatusOr<Batch> BatchGatherer::Gather(int64_t batch) {
  const int64_t all = order_.RowsOf(batch);
  const RowRange wanted = all == batch_size_ ? wanted_.of_full : wanted_.of_last;
  struct Source {
    const Columns* columns;
    int64_t row;
  };
  std::vector<Source> sources;
  sources.reserve(static_cast<size_t>(wanted.size()));
  for (const int64_t example : order_.ExamplesOf(batch, wanted)) {
    const DatasetParts::Place place = parts_->Find(example);
    MESHWORK_ASSIGN_OR_RETURN(const Columns* const columns, Load(place.part));
    sources.push_back({columns, place.row});
  }
  MESHWORK_ASSIGN_OR_RETURN(const Columns* const like, parts_->Like(parts_->Find(0).part));
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
  return Batch(std::move(gathered));
}

BatchStream::BatchStream(std::shared_ptr<DatasetParts> parts, int64_t size, const BatchOptions& options,
                         const WantedRows& wanted)
    : parts_(std::move(parts)), size_(size), batch_size_(options.batch_size), taken_(0) {
  if (size == 0) return;
  const int64_t first_batch = std::min(options.first_batch, (size - 1) / batch_size_ + 1);
  taken_ = std::min(first_batch * batch_size_, size);
  if (parts_->in_memory() && options.lanes == 1 && !options.shuffle_seed.has_value()) return;
  gatherer_.reset(new BatchGatherer(parts_, size, options, wanted));
}

BatchStream::~BatchStream() = default;

void BatchStream::Next() {
  current_ = {};
  if (taken_ == size_) return;
  if (gatherer_ == nullptr) {
    current_ = View();
  } else {
    if (const absl::Status status = made_.Check("Batches"); !status.ok())
      throw absl::BadStatusOrAccess(status);
    current_ = gatherer_->Pop();
  }
  taken_ += current_.rows();
}

Batch BatchStream::View() const {
  Columns columns = *parts_->Load(0).value();
  const int64_t end = taken_ + std::min(batch_size_, size_ - taken_);
  for (auto& [name, tensor] : columns) tensor = tensor.Rows(taken_, end);
  return Batch(std::move(columns));
}

}  // namespace meshwork::internal
