// EpochOrder: which example each row of each batch of an epoch is; the rule stands at BatchesOptions.
//
// Not thread-safe: orders of lanes are made when they are first needed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "meshwork/runtime/exec/row_range.h"
#include "meshwork/train/data/dataset.h"

namespace meshwork::internal {

class EpochOrder {
 public:
  // Of the epoch that is so many after the options'. REQUIRES: size >= 0, options.batch_size >= 1, options.lanes >= 1,
  // and lanes divides batch_size.
  EpochOrder(int64_t size, const BatchesOptions& options, uint64_t later = 0);

  // REQUIRES: 0 <= batch < ⌈size / batch_size⌉.
  int64_t RowsOf(int64_t batch) const;
  // The examples that these rows of a batch are. Takes memory for the lanes of these rows only.
  // Law: the rows of all batches are the examples 0 to size - 1, each once.
  // REQUIRES: 0 <= rows.begin <= rows.end <= RowsOf(batch).
  std::vector<int64_t> ExamplesOf(int64_t batch, RowRange rows);

 private:
  struct Place {
    int64_t lane, index;  // in the lane's order
  };
  Place PlaceOf(int64_t batch, int64_t row) const;
  int64_t LaneSize(int64_t lane) const { return size_ / lanes_ + (lane < size_ % lanes_ ? 1 : 0); }
  int64_t FirstOf(int64_t lane) const;
  // The order of a lane, counted from its first example.
  const std::vector<int64_t>& OrderOf(int64_t lane);

  const int64_t size_, batch_size_, lanes_, epoch_;
  const std::optional<uint64_t> seed_;
  std::map<int64_t, std::vector<int64_t>> orders_;  // by lane; none without a seed
};

}  // namespace meshwork::internal
