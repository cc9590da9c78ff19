#include "meshwork/runtime/cpu/fusion.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace meshwork {
namespace {

constexpr size_t kMostSteps = 64;
// A step is not made to work on longer rows than it would alone if they are longer than this: bytes of one
// value.
constexpr int64_t kLongRow = 16 << 10;
// The most bytes that the steps of a tile touch: they fit in an L1 cache of 32 KiB or more.
constexpr int64_t kTileBytes = 24 << 10;
// A step reads an operand that only goes by so many times as fast as it makes results.
constexpr int64_t kGoesBy = 16;
// Tiles of elements begin at cache lines.
constexpr int64_t kLine = 64;

}  // namespace

bool Group::Add(KernelStep& step, const std::vector<Buffer>& buffers) {
  std::vector<Access> added;
  for (const StepBuffer& at : step.buffers)
    added.push_back({buffers[at.buffer].storage, at.bytes, at.parts, step.kernel.units, at.is_result});
  int64_t rows = step.kernel.units;
  if (!empty()) {
    if (!step.kernel.by_rows || !steps_[0].kernel.by_rows || step.is_sliced() || rows == 0 || rows_ == 0 ||
        steps_.size() >= kMostSteps)
      return false;
    rows = std::gcd(rows, rows_);
    if (steps_[0].is_sliced() && rows != rows_) return false;
    if (!IsWorthIt(added, step.kernel.units, rows)) return false;
    std::vector<Access> all = accesses_;
    all.insert(all.end(), added.begin(), added.end());
    if (!IsSafe(all, rows)) return false;
  }
  rows_ = rows;
  steps_.push_back(std::move(step));
  accesses_.insert(accesses_.end(), added.begin(), added.end());
  return true;
}

std::vector<KernelStep> Group::Take() {
  accesses_.clear();
  return std::exchange(steps_, {});
}

// A storage that one step writes must be touched row by row by all others.
bool Group::IsSafe(const std::vector<Access>& accesses, int64_t rows) const {
  std::vector<int> written;
  for (const Access& access : accesses)
    if (access.is_write) written.push_back(access.storage);
  std::sort(written.begin(), written.end());
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.parts % rows == 0 || !std::binary_search(written.begin(), written.end(), access.storage);
  });
}

// Steps with the same rows cost nothing to run together. Others must use a result of the steps before, and
// rows must not become too long.
bool Group::IsWorthIt(const std::vector<Access>& added, int64_t units, int64_t rows) const {
  if (rows == rows_ && rows == units) return true;
  const bool shares = std::any_of(added.begin(), added.end(), [&](const Access& access) {
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& before) {
      return before.is_write && before.storage == access.storage;
    });
  });
  const auto is_long = [&](const Access& access) {
    return access.parts % rows == 0 && access.units > rows && access.bytes / rows > kLongRow;
  };
  // The rows of a product are given, and Arrange has put steps behind it only for its epilogue.
  if (steps_[0].is_sliced()) return true;
  return shares && std::none_of(added.begin(), added.end(), is_long) &&
         std::none_of(accesses_.begin(), accesses_.end(), is_long);
}

namespace {

// How a storage is used.
struct Use {
  int instruction = -1;  // the only one that touches it; -2: several
  bool whole = false;    // some step touches more of it than its rows
  bool by_product = false;
};

// Gives the instruction's own storages memory for some rows.
class Tiler {
 public:
  explicit Tiler(Schedule& schedule) : schedule_(schedule), uses_(schedule.storages.size()) {
    for (size_t i = 0; i < schedule.instructions.size(); ++i) FindUses(static_cast<int>(i));
  }

  void Run() {
    for (size_t i = 0; i < schedule_.instructions.size(); ++i)
      if (schedule_.instructions[i].steps.size() > 1) Plan(static_cast<int>(i));
  }

 private:
  int StorageOf(BufferId buffer) const { return schedule_.buffers[buffer].storage; }

  void Touch(int storage, int instruction, bool whole) {
    Use& use = uses_[storage];
    use.whole |= whole;
    if (use.instruction == -1) use.instruction = instruction;
    else if (use.instruction != instruction) use.instruction = -2;
  }

  void FindUses(int i) {
    const Instruction& instruction = schedule_.instructions[i];
    for (const Transfer& transfer : instruction.transfers) {
      for (BufferId from : transfer.from) Touch(StorageOf(from), i, /*whole=*/true);
      if (transfer.to >= 0) Touch(StorageOf(transfer.to), i, /*whole=*/true);
    }
    for (const Access& access : instruction.accesses) Touch(access.storage, i, /*whole=*/true);
    for (const KernelStep& step : instruction.steps) {
      for (const StepBuffer& at : step.buffers) {
        Touch(StorageOf(at.buffer), i, instruction.rows == 0 || at.parts % instruction.rows != 0);
        uses_[StorageOf(at.buffer)].by_product |= step.is_sliced();
      }
    }
  }

  bool IsOwn(int storage, int i) const {
    return uses_[storage].instruction == i && !uses_[storage].whole &&
           schedule_.storages[storage].place.kind == Place::Kind::kUnplaced;
  }

  void Plan(int i) {
    Instruction& instruction = schedule_.instructions[i];
    int64_t most_rows = 0;  // of a slice
    for (const std::vector<WorkSlice>& slices : instruction.slices)
      for (const WorkSlice& slice : slices) most_rows = std::max(most_rows, slice.end - slice.begin);
    if (most_rows == 0) return;
    instruction.tile = TileRows(instruction, most_rows);
    std::vector<std::pair<int, BufferId>>
        replaced;  // storages, and the buffers of worker 0 that stand for them
    for (KernelStep& step : instruction.steps) {
      for (StepBuffer& at : step.buffers) {
        const int storage = StorageOf(at.buffer);
        if (!IsOwn(storage, i)) continue;
        const bool strip = uses_[storage].by_product;
        auto found = std::find_if(replaced.begin(), replaced.end(),
                                  [&](const auto& entry) { return entry.first == storage; });
        if (found == replaced.end()) {
          const int64_t rows = strip ? most_rows : instruction.tile;
          replaced.emplace_back(storage, NewTiles(rows * (at.bytes / instruction.rows)));
          found = replaced.end() - 1;
        }
        at.buffer = found->second;
        at.rows = strip ? StepBuffer::Rows::kStrip : StepBuffer::Rows::kTile;
      }
    }
  }

  // How the steps of an instruction use rows of a storage.
  struct RowUse {
    int storage;
    int64_t bytes;  // of a row
    size_t step;    // the first that touches it
    bool shared = false, counted = false;
  };

  // Whether the step makes so little of this operand, as of a matrix that it multiplies by a vector, that the operand does
  // not push out of the cache what the steps share.
  static bool GoesBy(const KernelStep& step, const StepBuffer& operand) {
    int64_t made = 0;
    for (const StepBuffer& at : step.buffers) made += at.is_result ? at.bytes : 0;
    return !operand.is_result && operand.bytes / kGoesBy >= made;
  }

  std::vector<RowUse> RowUses(const Instruction& instruction) const {
    std::vector<RowUse> uses;
    for (size_t k = 0; k < instruction.steps.size(); ++k) {
      const KernelStep& step = instruction.steps[k];
      for (const StepBuffer& at : step.buffers) {
        if (at.parts % instruction.rows != 0) continue;
        const int storage = StorageOf(at.buffer);
        auto use = std::find_if(uses.begin(), uses.end(),
                                [storage](const RowUse& other) { return other.storage == storage; });
        if (use == uses.end())
          use =
              uses.insert(uses.end(), {.storage = storage, .bytes = at.bytes / instruction.rows, .step = k});
        use->shared |= use->step != k;
        use->counted |= !step.is_sliced() && !GoesBy(step, at);
      }
    }
    return uses;
  }

  // The number of rows of a tile, so that the data that the steps touch fits in kTileBytes; all if they share none.
  int64_t TileRows(const Instruction& instruction, int64_t most_rows) const {
    int64_t row_bytes = 0, smallest = kLine;
    bool shares = false;
    for (const RowUse& use : RowUses(instruction)) {
      shares |= use.shared;
      if (!use.counted) continue;
      row_bytes += use.bytes;
      smallest = std::min(smallest, std::max<int64_t>(use.bytes, 1));
    }
    if (!shares) return most_rows;
    const int64_t multiple = std::max<int64_t>(1, kLine / smallest);
    const int64_t rows = kTileBytes / std::max<int64_t>(row_bytes, 1) / multiple * multiple;
    return std::min(most_rows, std::max(rows, multiple));
  }

  BufferId NewTiles(int64_t bytes) {
    const auto first = static_cast<BufferId>(schedule_.buffers.size());
    for (int w = 0; w < schedule_.num_workers; ++w) {
      schedule_.buffers.push_back({bytes, static_cast<int>(schedule_.storages.size()), 0});
      schedule_.storages.push_back({bytes, {}});
    }
    return first;
  }

  Schedule& schedule_;
  std::vector<Use> uses_;
};

}  // namespace

void PlanTiles(Schedule& schedule) { Tiler(schedule).Run(); }

}  // namespace meshwork
