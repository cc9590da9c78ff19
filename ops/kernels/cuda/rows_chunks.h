// The loops of a kernel of rows (rows.cc): a thread goes over its chunks of a row, and reads them from memory, registers or shared
// memory, as the plan says. Lines for an element, of number `e` in its chunk, find input 2 as m2[at].at[e].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "meshwork/ops/kernels/cuda/rows_plan.h"

namespace meshwork::cuda {

class RowsChunks {
 public:
  // Keeps `plan`.
  explicit RowsChunks(const RowsPlan& plan) : plan_(plan) {}

  // Loads an input with one element for each row: "float x2 = …;".
  std::string NarrowLoad(size_t o) const;
  // Loads all chunks that registers keep.
  std::string KeptLoads() const;
  // `lines` for each chunk of a thread. Loads several chunks at once, unless registers keep them. `is_first`: no
  // earlier stage has read them.
  std::string ForAllChunks(const std::string& lines, bool is_first) const;
  // `lines` for each element of a chunk.
  std::string ForElements(const std::string& lines) const;
  // The place in the registers that has the chunk, within ForAllChunks.
  std::string_view At() const { return plan_.is_kept ? "k" : "k - first"; }

 private:
  std::string Declarations(int64_t count) const;
  // Stores each thread's own chunks to shared memory, or loads them from there.
  std::string SharedLines(bool stores) const;
  // Loads of the chunk at `column`, to place `at` of the registers.
  std::string Loads(std::string_view at, bool is_narrow = false) const;
  // `count` chunks from number `first` on.
  std::string ForChunks(std::string_view first, int64_t count, const std::string& lines) const;

  const RowsPlan& plan_;
};

}  // namespace meshwork::cuda
