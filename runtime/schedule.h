// A Schedule is what the workers of one process do in a step: instructions, the buffers they touch,
// who does which part, where all workers meet, and where each buffer lies.
//
//   Program ──VaryingAxes──▶ instances ──BuildSchedule──▶ instructions ──PlaceBarriers──▶ epochs
//           ──PlaceBuffers──▶ offsets ──CheckSchedule──▶ proof that no thread can see another's leftovers
//
// Every worker walks the same list of instructions in program order and does its slices of each. A
// node is run once per instance of its results, by the worker that drives the instance's lowest
// device: device d of D belongs to worker floor(d·W/D). Where that would leave workers idle, and
// the node is worth it and can be cut, every worker does a part. Nothing here changes a number.
//
// A step is: inputs that cannot be viewed are packed; the nodes run; replicas are compared, if asked for;
// outputs are unpacked; variables that could not be written in place are written. Plain data, independent of
// where memory is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/graph.h"
#include "ops/kernel.h"
#include "runtime/collective.h"
#include "runtime/sharing.h"
#include "runtime/transfer.h"

namespace meshwork {

// Where a buffer lies.
struct Place {
  enum class Kind : uint8_t {
    kUnplaced,  // PlaceBuffers will say
    kPrivate,   // arena of worker `index`: one worker alone ever touches the buffer
    kShared,    // the arena all workers share; index 0
    kVariable,  // the buffers of argument `index`
    kFeed,      // the host tensor fed for argument `index`
    kOutput,    // the host tensor of output `index`
  };
  Kind kind = Kind::kUnplaced;
  int index = 0;
  int64_t offset = 0;  // bytes
};

// One instance of a value, or a host tensor.
struct Buffer {
  int64_t bytes = 0;
  Place place;
};

// Buffers [first, first + count) are the instances of one value, or of several values in turn where
// one is written over the other. They are placed together.
struct Storage {
  BufferId first = 0;
  int count = 0;
};

struct Instruction {
  enum class Kind { kKernel, kCollective, kPack, kUnpack, kAssign, kCompare };
  Kind kind = Kind::kKernel;
  int node = -1;         // index into the graph's nodes, or -1
  bool barrier = false;  // all workers meet before it
  // What a step without a node works for: input "x", output "loss", variable "w".
  std::string subject = {};
  // kKernel: item i runs the kernel on buffers[i·(in+out)…], operands first, then results.
  Kernel kernel = {};
  int num_in = 0, num_out = 0;
  InstanceMap items = {};  // item i is for the devices that hold instance i
  std::vector<BufferId> buffers = {};
  // Per buffer of each item if the row reads its blocks; otherwise those of one item: every buffer whole.
  std::vector<Block> blocks = {};
  // Other kinds: item i is transfers[i]. kCompare writes nothing: it reads the two buffers `from` of replicas
  // of `value`, which the two devices replicas[i] hold.
  std::vector<Transfer> transfers = {};
  ValueId value = kNoValue;
  std::vector<std::pair<int64_t, int64_t>> replicas = {};
  // Per worker.
  std::vector<std::vector<WorkSlice>> slices = {};

  // Calls f(buffer, is_write) for what an item touches.
  template <typename F>
  void ForAccesses(int item, F&& f) const;
};

struct Schedule {
  int num_workers = 1;
  std::vector<Buffer> buffers;
  std::vector<Storage> storages;  // what PlaceBuffers places
  std::vector<Instruction> instructions;
  int num_barriers = 0;                // per step
  std::vector<int64_t> private_bytes;  // size of each worker's arena
  int64_t shared_bytes = 0;

  // The worker that drives `device` of `mesh`.
  int OwnerOf(int64_t device, const Mesh& mesh) const {
    return static_cast<int>(device * num_workers / mesh.num_devices());
  }
};

// The whole of planning, checked. `variables`: per argument, the instances of its state; ignored for
// inputs. With check_replicas, what outputs and variables get is compared wherever a layout says that it
// is the same and it is stored more than once. Errors: a collective that does not fit its layouts.
// REQUIRES: CheckLocalProgram(local).
absl::StatusOr<Schedule> MakeSchedule(const Graph& local, const std::vector<InstanceMap>& variables,
                                      int workers, bool share, bool check_replicas = false);

// One piece of work for AssignWork: who does it unless it is cut, how far it can be cut, how long it
// takes (in floating-point operations, roughly), and what a cut must be a multiple of.
struct WorkItem {
  int owner = 0;
  int64_t units = 1;
  double cost = 1;
  int64_t multiple = 1;
};

// Slices per worker. Law: each item with units > 0 is covered once.
std::vector<std::vector<WorkSlice>> AssignWork(std::span<const WorkItem> items, int workers);

template <typename F>
void Instruction::ForAccesses(int item, F&& f) const {
  if (kind == Kind::kKernel) {
    const BufferId* mine = buffers.data() + static_cast<size_t>(item) * (num_in + num_out);
    for (int i = 0; i < num_in + num_out; ++i) f(mine[i], i >= num_in);
    return;
  }
  for (BufferId from : transfers[item].from) f(from, false);
  if (kind != Kind::kCompare) f(transfers[item].to, true);
}

}  // namespace meshwork
