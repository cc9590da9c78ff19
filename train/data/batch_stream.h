// BatchStream: the batches of an epoch, one after the other; what a BatchIterator holds.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "meshwork/base/fork.h"
#include "meshwork/train/data/dataset.h"
#include "meshwork/train/data/dataset_parts.h"
#include "meshwork/train/data/row_range.h"

namespace meshwork::internal {

class BatchGatherer;

// The rows that are wanted of a full batch, and of the last one if it is short.
struct WantedRows {
  RowRange of_full, of_last;
};

// Batches that are no views are gathered by a thread, which is a few batches ahead. Next is called by one thread.
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
  Batch View() const;

  const std::shared_ptr<DatasetParts> parts_;
  const int64_t size_, batch_size_;
  Batch current_;
  int64_t taken_;  // examples in current_ and the batches before it
  const ForkMark made_;
  UnlessForked<BatchGatherer> gatherer_;  // null: batches are views
};

}  // namespace meshwork::internal
