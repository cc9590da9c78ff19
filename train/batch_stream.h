// BatchStream: the batches of an epoch, one after the other; what a BatchIterator holds.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/train/dataset.h"
#include "meshwork/train/dataset_parts.h"
#include "meshwork/train/epoch_order.h"
#include "meshwork/train/row_range.h"

namespace meshwork::internal {

class BufferPool;

// The rows that are wanted of a full batch, and of the last one if it is short.
struct WantedRows {
  RowRange of_full, of_last;
};

// Batches that are no views are gathered by a thread, into a queue of at most kAhead. Next is called by one thread.
class BatchStream {
 public:
  // The first `size` examples; `parts` may be null if there are none. REQUIRES: the options are right, and `wanted`
  // lies within the batches.
  BatchStream(std::shared_ptr<DatasetParts> parts, int64_t size, const BatchOptions& options,
              const WantedRows& wanted);
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;
  ~BatchStream();

  bool ended() const { return current_.rows() == 0; }
  const Batch& current() const { return current_; }
  // Goes on to the next batch; to the first one at first. Throws what BatchIterator::operator++ throws; it has then
  // ended, and throws again.
  void Next();

 private:
  static constexpr size_t kAhead = 2;

  Batch View() const;
  Batch Pop();
  void GatherAll();
  // False if the stream has been stopped meanwhile.
  bool WaitForRoom();
  absl::StatusOr<Batch> Gather(int64_t batch);
  // The columns of a part. The lock of the parts is taken once per walk.
  absl::StatusOr<const Columns*> Load(int64_t part);

  const std::shared_ptr<DatasetParts> parts_;
  const int64_t size_, batch_size_;
  const WantedRows wanted_;
  const bool is_viewed_;
  const int64_t first_batch_;
  Batch current_;
  int64_t taken_;  // examples in current_ and the batches before it

  // Of the thread.
  EpochOrder order_;
  std::map<int64_t, const Columns*> loaded_;  // by part
  const std::shared_ptr<BufferPool> buffers_;

  std::mutex mutex_;  // of what both sides touch
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failed_;  // why no more batches come
  bool stopped_ = false;
  std::thread gatherer_;
};

}  // namespace meshwork::internal
