// DatasetParts: the examples of a Dataset, in parts that are loaded when they are first read.
//
// Thread-safe. Loaded columns stay where they are, and unchanged, as long as the object exists.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/train/data/dataset.h"

namespace meshwork::internal {

class DatasetParts {
 public:
  // One part, in memory. Errors: those of Dataset::Create.
  static absl::StatusOr<std::shared_ptr<DatasetParts>> Create(Columns columns);
  // Errors: those of Dataset::FromParts.
  static absl::StatusOr<std::shared_ptr<DatasetParts>> Create(std::vector<Dataset::Part> parts);

  int64_t size() const { return first_.back(); }
  bool in_memory() const { return in_memory_; }  // made from columns
  // ContentsOf the first examples.
  uint64_t Contents(int64_t examples) const;

  // The place of an example. REQUIRES: 0 <= example < size().
  struct Place {
    int64_t part, row;
  };
  Place Find(int64_t example) const;

  // The columns of a part, which is loaded unless it has been. If another thread is loading it, waits. Errors, which
  // name the part: its loader's; columns that Dataset::Create refuses; another number of examples; other columns than
  // those of the part that was loaded first; a thread was loading it when this process was forked.
  absl::StatusOr<const Columns*> Load(int64_t part);
  // The columns of the part that was loaded first; if there is none, of `part`. All parts have their names and types,
  // but for dim 0. Errors: those of Load.
  absl::StatusOr<const Columns*> Like(int64_t part);
  // A column, and all columns, of the first `examples` examples. A view if these lie in one part, else a copy. Errors:
  // those of Load. REQUIRES: there is such a column; 0 <= examples <= size().
  absl::StatusOr<Tensor> Join(size_t column, int64_t examples);
  absl::StatusOr<Columns> Join(int64_t examples);

 private:
  struct State {
    Dataset::Part part;  // without `load` once it is loaded
    std::mutex mutex;    // held while the part is loaded
    std::atomic<bool> is_loaded{false}, is_loading{false};
    std::atomic<ForkMark> loader;  // while is_loading: the process whose thread holds the mutex
    Columns columns;
  };

  DatasetParts() = default;
  absl::StatusOr<Columns> CallLoad(int64_t part);
  absl::Status CheckLike(int64_t part, const Columns& columns);

  std::deque<State> states_;
  std::vector<int64_t> first_;  // example of each part; at the end, size()
  bool in_memory_ = false;

  std::mutex mutex_;  // of what follows; taken after a State's
  int64_t loaded_first_ = -1;
  Columns like_;
};

// The bytes of an example in such a column.
int64_t RowBytes(const Tensor& column);

}  // namespace meshwork::internal
