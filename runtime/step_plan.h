// A StepPlan is what one domain does in a step: what runs, for which instances, in which storage. A *domain*
// is one memory and what computes on it.
//
//   Program ──Arrange──▶ order ──VaryingAxes──▶ instances ──BuildStepPlan──▶ steps in storages
//           ──Backend::Prepare──▶ a step that can be run
//
//   func step(%x: f32[4] of f32[8] {x}, var %w: f32[4] {_}) {
//     %g = mul %x, %w : f32[4] {_ | sum:x}
//     …
//
// A plan knows no worker, no address and no kernel; a backend (runtime/backend.h) decides these. Decided here
// is what needs only the program and its layouts: how many instances a value has, which values share a
// storage, which feeds can be viewed, which sums are made where their terms are computed, what is computed
// once, what is compared and what is set aside.
//
// The steps, in order: feeds that cannot be viewed are packed; the nodes run; replicas are compared, if asked
// for; outputs are unpacked; variables that could not be written in place are written. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/runtime/buffers.h"
#include "meshwork/runtime/transfer.h"

namespace meshwork {

// A node is computed, for all instances of its results.
struct ComputeStep {
  int node = -1;
  // What a kernel is made for: all items in one, as OpRow::stack wrote it (runtime/coalesce.h), or, with
  // one_by_one, each of them.
  KernelSpec spec;
  InstanceMap items;  // item i is for the devices that hold instance i of the results
  bool one_by_one = false;
  int64_t instances = 1;  // of the node; as many as items, unless it reduces them
  // Items from the first on that are computed; the others are blocks that are padding alone.
  int64_t needed = 0;
  int reduces = -1;  // the all_reduce of its result that it does away with; -1: there is none
  // It depends on no argument: it is computed before the first step, and kept.
  bool once = false;
  // For KernelArgs: of the operands, then of the results. One list for all items, or one for each.
  std::vector<std::vector<Block>> blocks = {};
  std::vector<ValueBuffers> in = {}, out = {};
};

// Data moves within the domain.
struct CopyStep {
  // kSend and kReceive: between what a collective reads, or ghosts, and what crosses. kCompare writes
  // nothing.
  enum class Kind : uint8_t { kPack, kCollective, kSend, kReceive, kUnpack, kAssign, kCompare };

  Kind kind = Kind::kCollective;
  int node = -1;             // of a collective; otherwise -1
  std::string subject = {};  // what it is for without a node: input "x", output "loss", variable "w"
  std::vector<Transfer> transfers = {};
  // Per transfer the device that it is for; the first of the domain where it is for a message.
  std::vector<int64_t> devices = {};
  // kCompare: transfer i reads the two replicas of `value` that the devices replicas[i] hold.
  ValueId value = kNoValue;
  std::vector<std::pair<int64_t, int64_t>> replicas = {};

  // Adds a transfer that is for `device`, unless it moves nothing.
  void Add(Transfer transfer, int64_t device);
};

// Data moves to other domains and from them (runtime/transport.h). What is sent has been packed before, and
// what is received lies in ghosts, or is unpacked into these, afterwards (runtime/crossing.h). In bodies it
// happens as often as these run.
struct RemoteStep {
  struct Part {
    int64_t domain = 0;    // the other one
    BufferId buffer = -1;  // all of it
  };
  int node = -1;
  std::vector<Part> sends = {}, receives = {};  // each ascending by domain
};

struct StepPlan;

// A loop or a branch (runtime/loop.h): its bodies are plans whose arguments lie in storages of this one.
struct NestedStep {
  enum class Kind : uint8_t { kRepeat, kWhile, kBranch };

  Kind kind = Kind::kRepeat;
  int node = -1;
  int64_t length = 0;       // kRepeat: how often the body runs
  BufferId predicate = -1;  // a bool. kWhile: bodies[0] writes it, bodies[1] runs while it is true
  std::vector<ValueBuffers> in = {}, out = {};  // what the bodies may read, and what they write
  std::vector<BufferId> arguments = {};         // per argument of every body: where its first instance lies
  std::vector<StepPlan> bodies = {};            // kBranch: bodies[0] if the predicate is true, else bodies[1]
};

using Step = std::variant<ComputeStep, CopyStep, RemoteStep, NestedStep>;

struct StepPlan {
  std::shared_ptr<const Graph> graph;  // the program; nodes and values of the steps are its
  Domain domain;                       // whose step it is
  std::vector<Storage> storages;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;

  // Returns its number.
  int AddStorage(const Storage& storage);
  // Adds buffers of `bytes` each, one behind the other from the start of a storage; returns the first.
  BufferId AddBuffers(int64_t count, int64_t bytes, int storage);

  // What the instances of a value take, one behind the other.
  int64_t BytesOf(const ValueBuffers& value) const {
    return value.instances.count() * buffers[value.first].bytes;
  }
};

struct StepPlanOptions {
  // Whose step is planned, on the mesh of the program; nothing: that of a domain with all devices.
  std::optional<Domain> domain = {};
  // The inputs and outputs that are DTensors of this domain, by name. Others are whole host tensors.
  std::set<std::string> distributed = {};
  // Whether kernels read host tensors where they lie (Memory::is_host).
  bool host_is_read = true;
  // Outputs that the program keeps in a variable that it updates, which are not written anywhere else.
  std::set<std::string> kept = {};
  bool share = true;     // see ExecutorOptions
  bool coalesce = true;  // the same
  // Compare what outputs and variables get wherever a layout says that it is the same and it is stored more
  // than once.
  bool check_replicas = false;
  // The memory of inputs is given as that of variables is (`variables` of BuildStepPlan has their
  // instances): of the body of a loop.
  bool arguments_are_bound = false;

  bool coalesces() const { return coalesce && share; }  // what is not shared is computed device by device
};

// The plan of a program in the order in which it runs, loops lowered (LowerLoops). `variables`: per
// argument, the instances of its state; ignored for inputs. Errors: a collective that does not fit its
// layouts. REQUIRES: CheckLocalProgram(*local). Laws: each buffer lies in its storage; every element of an
// output is written; what a step reads was written before it, or lies in an argument.
absl::StatusOr<StepPlan> BuildStepPlan(std::shared_ptr<const Graph> local,
                                       const std::vector<InstanceMap>& variables,
                                       const StepPlanOptions& options);

// The storages and the steps, those of bodies indented, one per line; for tests and for reading.
std::string ToString(const StepPlan& plan);

}  // namespace meshwork
