#include "meshwork/ops/kernels/cuda/rows_plan.h"

#include <algorithm>

#include "meshwork/layout/layout.h"

namespace meshwork::cuda {
namespace {

constexpr int64_t kThreadsOfRows = 256, kChunk = 4;
// Rows of at least kLongRow elements have a block of 512 threads each, and larger chunks.
constexpr int64_t kLongRow = 16384, kThreadsOfLongRow = 512, kChunkOfLongRow = 8;
// Words that a thread keeps in registers.
constexpr int64_t kMostKept = 64, kMostKeptOfLongRow = 16;
// The most bytes that a block keeps in shared memory, so that a multiprocessor with 228 KiB has two blocks: one reads
// while the other computes.
constexpr int64_t kMostSharedBytes = 112 << 10;

// The number of threads of a row: a power of two.
int64_t LanesOf(int64_t size) {
  int64_t lanes = 1;
  while (lanes < RowsPlan::kWarp && 2 * lanes * kChunk <= size) lanes *= 2;
  if (size >= kLongRow) return kThreadsOfLongRow;
  while (lanes < kThreadsOfRows && 2 * lanes * 2 * kChunk <= size) lanes *= 2;
  return lanes;
}

}  // namespace

RowsPlan::RowsPlan(std::span<const CudaChainOp> ops, std::span<const int> stored, int64_t alignment,
                   int64_t shared_bytes)
    : ops(ops), stored(stored), inputs(InputsOf(ops)), is_wide_input(inputs.size(), false) {
  text.name = ops.size() == 1 ? ops[0].row->name : "rows";
  for (const ChainInput& input : inputs) text.in.push_back(input.type);
  for (const int op : stored) text.out.push_back(TypeOf(op));
  text.in_place = ops.size() > 1;
  for (const CudaChainOp& op : ops)
    if (const auto of = CudaRowsOfFold(*op.row, *op.spec)) rows = of->rows, size = of->size;
  lanes = LanesOf(size);
  text.threads = std::max(lanes, kThreadsOfRows);
  slots = text.threads / lanes;
  chunk = size >= kLongRow ? kChunkOfLongRow : kChunk;
  chunks = (size + lanes * chunk - 1) / (lanes * chunk);
  for (size_t i = 0; i < ops.size(); ++i) Classify(i);
  // Inputs with one element for each row, or for all rows, are read once.
  for (size_t o = 0; o < inputs.size(); ++o) {
    const std::vector<Walk::Dim>& dims = inputs[o].walk.dims;
    const bool is_one =
        std::all_of(dims.begin(), dims.end(), [](const Walk::Dim& d) { return d.strides[0] == 0; });
    if (!is_wide_input[o] || !(is_one || IsOfRows(inputs[o].walk))) continue;
    inputs[o].walk = Walk::Of({rows}, std::vector<Shape>{{is_one ? 0 : 1}});
    is_wide_input[o] = false;
  }
  ChooseLoads(alignment);
  ChooseShared(std::min(shared_bytes, kMostSharedBytes));
}

int RowsPlan::Stages() const { return *std::max_element(stages.begin(), stages.end()); }

int RowsPlan::LastStage() const {
  int last = 0;
  for (size_t i = 0; i < ops.size(); ++i)
    if (kinds[i] == Kind::kFold || (kinds[i] == Kind::kWide && IsStored(i)))
      last = std::max(last, kinds[i] == Kind::kFold ? stages[i] - 1 : stages[i]);
  return last;
}

int64_t RowsPlan::SharedBytesOf(size_t input) const {
  return chunks * lanes * chunk * DTypeSize(inputs[input].type.dtype);
}

bool RowsPlan::IsStored(size_t op) const {
  return std::find(stored.begin(), stored.end(), static_cast<int>(op)) != stored.end();
}

bool RowsPlan::IsOfRows(const Walk& walk) const {
  if (walk.dims.empty() || walk.dims.back().strides[0] != 0) return false;
  if (walk.dims.size() == 1) return rows == 1;
  return walk.dims.size() == 2 && walk.dims[0].size == rows && walk.dims[0].strides[0] == 1;
}

void RowsPlan::Classify(size_t i) {
  const CudaChainOp& op = ops[i];
  const bool is_fold = !IsCudaElementwise(*op.row);
  const bool is_wide = is_fold || TypeOf(static_cast<int>(i)).num_elements() == rows * size;
  kinds.push_back(is_fold ? Kind::kFold : is_wide ? Kind::kWide : Kind::kNarrow);
  int stage = 0;
  for (const CudaChainOperand& operand : op.operands) {
    if (operand.is_op) stage = std::max(stage, stages[static_cast<size_t>(operand.index)]);
    else is_wide_input[static_cast<size_t>(operand.index)] = is_wide;
  }
  stages.push_back(stage + (is_fold ? 1 : 0));
}

void RowsPlan::ChooseLoads(int64_t alignment) {
  int64_t words = 0;
  is_packed = alignment >= 16 && size % chunk == 0;
  for (size_t o = 0; o < inputs.size(); ++o) {
    if (!is_wide_input[o]) continue;
    is_packed = is_packed && inputs[o].PacksBy(chunk);
    words += chunks * chunk * (DTypeSize(inputs[o].type.dtype) + 3) / 4;
  }
  is_kept = chunks > 0 && words <= (lanes > kThreadsOfRows ? kMostKeptOfLongRow : kMostKept);
  if (is_packed) text.alignment = 16;
}

void RowsPlan::ChooseShared(int64_t most) {
  if (is_kept || LastStage() == 0 || slots > 1) return;
  int64_t bytes = 0;
  for (size_t o = 0; o < inputs.size(); ++o)
    if (is_wide_input[o] && IsPack(o)) bytes += SharedBytesOf(o);
  int64_t joined = 0;  // bytes that folds take (Joined, rows.cc)
  for (size_t i = 0; i < ops.size(); ++i)
    if (kinds[i] == Kind::kFold)
      joined += text.threads * std::max<int64_t>(4, DTypeSize(TypeOf(static_cast<int>(i)).dtype));
  if (bytes == 0 || bytes + joined > most) return;
  text.shared_bytes = bytes;
  text.blocks_at_once = 2;
}

}  // namespace meshwork::cuda
