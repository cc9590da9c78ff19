#include "meshwork/train/batch_stream.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "meshwork/base/debug.h"
#include "meshwork/base/status.h"

namespace meshwork::internal {

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

BatchStream::BatchStream(std::shared_ptr<DatasetParts> parts, int64_t size, const BatchOptions& options,
                         const WantedRows& wanted)
    : parts_(std::move(parts)),
      size_(size),
      batch_size_(options.batch_size),
      wanted_(wanted),
      is_viewed_(size == 0 ||
                 (parts_->in_memory() && options.lanes == 1 && !options.shuffle_seed.has_value())),
      first_batch_(size == 0 ? 0 : std::min(options.first_batch, (size - 1) / batch_size_ + 1)),
      taken_(std::min(first_batch_ * batch_size_, size)),
      order_(size, options),
      buffers_(std::make_shared<BufferPool>()) {
  if (!is_viewed_) gatherer_ = std::thread(&BatchStream::GatherAll, this);
}

BatchStream::~BatchStream() {
  if (!gatherer_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  gatherer_.join();
}

void BatchStream::Next() {
  current_ = {};
  if (taken_ == size_) return;
  current_ = is_viewed_ ? View() : Pop();
  taken_ += current_.rows();
}

Batch BatchStream::View() const {
  Columns columns = *parts_->Load(0).value();
  const int64_t end = taken_ + std::min(batch_size_, size_ - taken_);
  for (auto& [name, tensor] : columns) tensor = tensor.Rows(taken_, end);
  return Batch(std::move(columns));
}

Batch BatchStream::Pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || failed_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failed_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

bool BatchStream::WaitForRoom() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || ready_.size() < kAhead; });
  return !stopped_;
}

void BatchStream::GatherAll() {
  std::exception_ptr failed;
  try {
    for (int64_t batch = first_batch_; batch <= (size_ - 1) / batch_size_; ++batch) {
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

absl::StatusOr<const Columns*> BatchStream::Load(int64_t part) {
  const Columns*& columns = loaded_[part];
  if (columns == nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(columns, parts_->Load(part));
  }
  return columns;
}

absl::StatusOr<Batch> BatchStream::Gather(int64_t batch) {
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
    // Reading rows that are not wanted shows where this is a NaN.
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

}  // namespace meshwork::internal
