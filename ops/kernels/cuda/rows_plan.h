// The plan of a kernel of rows (rows.cc): the threads of a row, the stage in which each op is computed, and where
// inputs stay between stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/cuda/chain_text.h"
#include "meshwork/ops/kernels/cuda/cuda_kernel.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

struct RowsPlan {
  static constexpr int64_t kWarp = 32;
  enum class Kind { kWide, kNarrow, kFold };  // wide: all elements of rows; narrow: one for each row

  // Parameters as for MakeCudaRows. Keeps `ops` and `stored`.
  RowsPlan(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment,
           int64_t shared_bytes);

  std::span<const CudaChainOp> ops;
  std::span<const int> stored;
  std::vector<ChainInput> inputs;
  std::vector<bool> is_wide_input;  // has elements of rows; otherwise one for each row
  std::vector<Kind> kinds;          // per op
  std::vector<int> stages;  // the one in which an op is computed; a fold is there for the ops of its stage
  KernelText text{.name = {}, .in = {}, .out = {}, .body = {}};  // all but the body and the grid
  int64_t rows = 0, size = 0;
  int64_t chunk = 0;   // elements that a thread has side by side
  int64_t lanes = 1;   // threads of a row
  int64_t slots = 1;   // rows of a block
  int64_t chunks = 0;  // of a thread
  // is_packed: whole chunks are read and written at once. is_kept: a thread keeps its chunks of all wide inputs in
  // registers.
  bool is_packed = false, is_kept = false;

  const Type& TypeOf(int op) const { return ops[static_cast<size_t>(op)].spec->results[0].local; }
  // Whether a wide input has one element for each element of a chunk, rather than one for the whole chunk.
  bool IsPack(size_t input) const { return !is_packed || inputs[input].moves(); }
  int Stages() const;
  // The last stage that goes over rows.
  int LastStage() const;
  // Bytes of shared memory that the input takes if it is kept there.
  int64_t SharedBytesOf(size_t input) const;

 private:
  bool IsStored(size_t op) const;
  bool IsOfRows(const Walk& walk) const;
  void Classify(size_t op);
  // Chunks begin at multiples of 4 elements, so that Packs are aligned if rows are.
  void ChooseLoads(int64_t alignment);
  // Keeps the wide inputs in shared memory if several stages read them and each row has a block of its own.
  void ChooseShared(int64_t most);
};

}  // namespace meshwork::cuda
