// A Schedule says which worker runs which rows of a step plan: instructions, the memory that they touch, each
// worker's share of them, where all workers meet, and where everything lies.
//
//   StepPlan ──MakeSchedule──▶ instructions ──PlanTiles──▶ tiles ──PlaceBarriers──▶ epochs
//            ──PlaceStorages──▶ offsets ──CheckSchedule──▶ proof that no thread can see another's leftovers
//
// Every worker walks the same list of instructions and does its slices of each. A compute step of the plan is
// one kernel for all instances (runtime/cpu/kernels.h). Several kernels in a row are one instruction if each
// needs from the kernels before it only the rows that it works on itself (runtime/cpu/fusion.h): a worker
// takes its rows through all of them, a few at a time. Rows are divided between workers as the rows that they
// are computed from were, so that no worker waits for another. Nothing here changes a number: products are
// cut at places that depend on the program alone. Plain data, independent of where memory is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/runtime/cpu/run_transfers.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/step_plan.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// Where a storage lies.
struct Place {
  enum class Kind : uint8_t {
    kUnplaced,  // until PlaceStorages runs
    kPrivate,   // in the arena of worker `index`: no other worker ever touches it
    kShared,    // in the arena that all workers share; index 0
    kConstant,  // in the arena of values that are computed once; index 0
    kVariable,  // the buffers of argument `index`
    kSpare,     // the spare of argument `index`
    kFeed,      // the tensor fed for argument `index`, a host tensor or a DTensor
    kOutput,    // the tensor for output `index`
  };
  Kind kind = Kind::kUnplaced;
  int index = 0;
  int64_t offset = 0;  // bytes
};

// A storage of the step plan, a worker's tile of rows, or an arena of a nested schedule.
struct PlacedStorage {
  int64_t bytes = 0;
  Place place;
};

// An operand or a result of a step: all instances, from the first one's buffer on.
struct StepBuffer {
  // Which rows of the value are stored: all, or, for a value that no other instruction sees, those of a tile
  // or of a strip, which worker w has in buffer + w.
  enum class Rows : uint8_t { kAll, kStrip, kTile };

  BufferId buffer = -1;
  int64_t bytes = 0;  // of all rows
  // The number of equal parts that go with the parts of the results, see Kernel::parts.
  int64_t parts = 1;
  bool is_result = false;
  Rows rows = Rows::kAll;
};

// One kernel of an instruction.
struct KernelStep {
  int node = -1;
  Kernel kernel = {};
  int num_in = 0;
  std::vector<StepBuffer> buffers = {};  // operands, then results
  std::vector<Block> blocks = {};        // the same
  int64_t instances = 1;                 // how many instances of its node it computes
  int64_t needed = 0;  // how many units are needed, from the first on; the others compute padding alone
  int reduces = -1;    // the all_reduce of its results that it makes unnecessary; -1: none
  double cost = 1;     // floating-point operations, and elements read, of all instances

  double needed_part() const {
    return kernel.units == 0 ? 1 : static_cast<double>(needed) / static_cast<double>(kernel.units);
  }
  // Whether a library computes it, in slices that its kernel defines (Kernel::bounds); it need not be a
  // product (OpRow::is_product).
  bool is_sliced() const { return !kernel.bounds.empty(); }
};

struct LoopPlan;

// A range of a storage that an instruction with bodies, or one across domains, touches.
struct Access {
  int worker = -1;  // -1: every worker
  int storage = -1;
  int64_t begin = 0, end = 0;
  bool is_write = false;
};

struct Instruction {
  enum class Kind {
    kKernel,
    kCollective,
    kPack,
    kUnpack,
    kAssign,
    kCompare,
    kLoop,
    kSend,
    kReceive,
    kRemote,
    kStart,
    kWait
  };
  Kind kind = Kind::kKernel;
  int node = -1;         // the node of the first step, an index into the graph's nodes; or -1
  bool barrier = false;  // all workers meet before it
  // What an instruction without a node is for: input "x", output "loss", variable "w".
  std::string subject = {};
  // kKernel: the steps, one after the other for each tile of rows; a product for a whole slice. A row is
  // kernel.units / rows units of each step.
  std::vector<KernelStep> steps = {};
  int64_t rows = 0;
  int64_t needed = 0;       // how many rows are computed, from the first on (KernelStep::needed)
  int64_t tile = 0;         // rows; 0: as many as a slice has
  InstanceMap items = {};   // of the first step: item i is for the devices that hold instance i
  bool one_by_one = false;  // instance by instance; slices end where items end, if items consist of rows
  // Other kinds: item i is transfers[i]. kCompare writes nothing: it reads the two buffers `from` of replicas
  // of `value`, which the two devices replicas[i] hold.
  std::vector<Transfer> transfers = {};
  ValueId value = kNoValue;
  std::vector<std::pair<int64_t, int64_t>> replicas = {};
  // kCollective by a cross-device op: its calls (CopyStep::calls). A piece of a pack is a slice of the call's first
  // transfer, followed by equal slices of its other transfers.
  std::vector<CrossDeviceCall> calls = {};
  // kRemote, kStart, kWait: what worker 0 sends to other domains and receives from them, in which operation.
  std::vector<RemoteStep::Part> sends = {}, receives = {};
  int operation = -1;
  // kLoop: the loop, which all workers run together.
  std::shared_ptr<const LoopPlan> loop = nullptr;
  std::vector<Access> accesses = {};  // the memory that kRemote, kStart, kWait and kLoop touch
  // Per worker; the units of a kernel's slices are rows. Each worker has all rows of a kernel that they run as a team.
  std::vector<std::vector<WorkSlice>> slices = {};

  // Data moves to other domains and from them.
  bool is_remote() const { return kind == Kind::kRemote || kind == Kind::kStart || kind == Kind::kWait; }
  bool is_fence() const { return is_remote() && node < 0; }
  // All workers run its kernel together (Kernel::by_team).
  bool is_by_team() const { return !steps.empty() && steps[0].kernel.by_team; }
};

// The name in profiles and traces: "kernel", "collective", ….
std::string_view NameOf(Instruction::Kind kind);

struct Schedule {
  std::shared_ptr<const Graph> graph;  // the program; nodes and values of the instructions are its
  Domain domain;                       // whose step it is
  int num_workers = 1;
  std::vector<PlacedStorage> storages;
  std::vector<Buffer> buffers;
  std::vector<Instruction> once;  // run by worker 0, before the first step
  std::vector<Instruction> instructions;
  int num_operations = 0;              // across domains (StepPlan::num_operations)
  int num_barriers = 0;                // per step
  std::vector<int64_t> private_bytes;  // size of each worker's arena
  int64_t shared_bytes = 0;
  int64_t constant_bytes = 0;

  // The worker that drives `device`. REQUIRES: the domain holds `device`.
  int OwnerOf(int64_t device) const {
    return static_cast<int>((device - domain.first_device()) * num_workers / domain.num_devices());
  }
};

// The bodies that a nested step runs, each with a schedule of its own. Their arguments are values of the
// surrounding program, and their arenas lie in that program's storages. Between iterations all workers meet.
struct LoopPlan {
  struct Body {
    Schedule schedule;
    // The buffers of the surrounding program that are the body's arenas.
    std::vector<BufferId> private_arenas;  // per worker
    BufferId shared_arena = -1, constants = -1;
  };
  NestedStep::Kind kind = NestedStep::Kind::kRepeat;
  int64_t length = 0;                    // see NestedStep
  BufferId predicate = -1;               // the same
  std::vector<BufferId> arguments = {};  // the same
  std::vector<Body> bodies = {};
};

// Does all planning for CPUs, and checks the result. With fuse=false every kernel is an instruction of its
// own.
// REQUIRES: workers >= 1.
Schedule MakeSchedule(StepPlan plan, int workers, bool fuse);

// One piece of work for AssignWork: the worker that does it unless it is cut, into how many units it can be
// cut, its cost (in floating-point operations, roughly), and the number of which cuts must be multiples.
struct WorkItem {
  int owner = 0;
  int64_t units = 1;
  double cost = 1;
  int64_t multiple = 1;
};

// Slices per worker. Law: each item with units > 0 is covered once.
std::vector<std::vector<WorkSlice>> AssignWork(std::span<const WorkItem> items, int workers);

// Divides the needed rows of kernels between workers: as the rows of an operand were divided, so that every
// worker continues with the rows that it computed itself; if there is no such operand, evenly, or not at all
// if that is not worth it.
class RowCuts {
 public:
  explicit RowCuts(int workers) : workers_(workers) {}

  // Fills in the slices. `cost`: of the whole instruction, as WorkItem::cost.
  void Assign(const Schedule& schedule, double cost, Instruction& instruction);
  // Forgets which worker wrote which rows of this storage.
  void Forget(int storage) { cuts_.erase(storage); }

 private:
  using Cut = std::vector<int64_t>;  // worker w has [cut[w], cut[w + 1])

  // The cut in rows that matches this cut in bytes, if there is one.
  std::optional<Cut> RowsOf(const Cut& bytes, const StepBuffer& at, const Instruction& instruction) const;
  Cut Even(const Instruction& instruction, double cost) const;

  const int workers_;
  std::map<int, Cut> cuts_;  // per storage that rows were written to, in bytes
};

// Calls f(worker, storage, begin, end, is_write) for every range of bytes that an instruction touches.
template <typename F>
void ForAccesses(const Schedule& schedule, const Instruction& instruction, F&& f) {
  for (int worker = 0; worker < static_cast<int>(instruction.slices.size()); ++worker) {
    for (const WorkSlice& slice : instruction.slices[worker]) {
      if (instruction.kind == Instruction::Kind::kLoop || instruction.is_remote()) {
        for (const Access& access : instruction.accesses)
          if (access.worker < 0 || access.worker == worker)
            f(worker, access.storage, access.begin, access.end, access.is_write);
        continue;
      }
      const auto whole = [&](BufferId id, bool is_write) {
        const Buffer& buffer = schedule.buffers[id];
        f(worker, buffer.storage, buffer.offset, buffer.offset + buffer.bytes, is_write);
      };
      if (instruction.kind != Instruction::Kind::kKernel) {
        for (BufferId from : instruction.transfers[slice.item].from) whole(from, false);
        if (instruction.kind != Instruction::Kind::kCompare)
          whole(instruction.transfers[slice.item].to, true);
        continue;
      }
      for (const KernelStep& step : instruction.steps) {
        for (const StepBuffer& at : step.buffers) {
          if (at.rows != StepBuffer::Rows::kAll) {
            whole(at.buffer + worker, at.is_result);
            continue;
          }
          const Buffer& first = schedule.buffers[at.buffer];
          // The parts that have to do with these rows.
          const int64_t part = at.bytes / std::max<int64_t>(at.parts, 1);
          const int64_t divisor = std::gcd(at.parts, instruction.rows);  // products stay small
          const int64_t parts = at.parts / divisor, rows = instruction.rows / divisor;
          const int64_t begin = slice.begin / rows * parts * part + slice.begin % rows * parts / rows * part;
          const int64_t end =
              slice.end / rows * parts * part + (slice.end % rows * parts + rows - 1) / rows * part;
          f(worker, first.storage, first.offset + begin, first.offset + end, at.is_result);
        }
      }
    }
  }
}

}  // namespace meshwork
