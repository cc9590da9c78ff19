// A StepPlan is what one domain does in a step: what runs, for which instances, in which storage. A *domain*
// is one memory and the processors that use it.
//
//   Program ──Arrange──▶ order ──VaryingAxes──▶ instances ──BuildStepPlan──▶ steps in storages
//           ──Backend::Prepare──▶ a step that can be run
//
// The end of a data-parallel step as ToString prints it; s3 is the storage of the variable:
//
//   matmul+all_reduce f32[4,3,2] f32[4,3,2] -> f32[2,2]: s5*4 s8*4 -> s9    four devices' products, as one sum
//   mul f32[2,2] f32[] -> f32[2,2]: s9 s4 -> s9
//   sub f32[2,2] f32[2,2] -> f32[2,2]: s3 s9 -> s3                          in place
//
// A plan contains no worker, no address and no kernel; a backend (runtime/exec/backend.h) decides these. A plan
// decides what follows from the program and its layouts alone: how many instances a value has, which values
// share a storage, which feeds can be viewed, which sums are made by the kernel that computes their terms,
// what is computed once, what is compared and what is set aside.
//
// The steps, in order: feeds that cannot be viewed are packed; the nodes run; replicas are compared, if asked
// for; outputs are unpacked; variables that could not be written in place are written.
//
// With StepPlanOptions::atomic a variable's new value goes to its spare (Storage::Kind::kSpare) instead, and the old
// value stays. Until it is overwritten, the spare holds the value before the last step, and other domains may still
// have to go back to that. So nothing writes to a spare before all domains have begun this step: a domain that has
// begun it has ended the last one. Domains tell each other that they have begun by an operation for this purpose, the
// *fence*. The fence starts first. It is waited for behind the first collective across domains, where each domain waits
// for others anyway. New values that are computed before that are copied to the spares at the end of the step. Plain
// data.
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
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/cross_device_algorithm.h"
#include "meshwork/runtime/plan/transfer.h"

namespace meshwork {

// A node is computed, for all instances of its results.
struct ComputeStep {
  int node = -1;
  // The spec of the kernel: for all items in one, as OpRow::stack wrote it (runtime/plan/coalesce.h), or, with
  // one_by_one, for each item.
  KernelSpec spec;
  InstanceMap items;  // item i is for the devices that hold instance i of the results
  bool one_by_one = false;
  int64_t instances = 1;  // of the node; as many as items, unless the step reduces them
  // The number of items that are computed, from the first on; the blocks of the others are only padding.
  int64_t needed = 0;
  int reduces = -1;  // the all_reduce of the node's result that the step makes unnecessary; -1: none
  // The node depends on no argument: it is computed before the first step, and kept.
  bool once = false;
  // For KernelArgs: the blocks of the operands, then those of the results. One list for all items, or one for each
  // item.
  std::vector<std::vector<Block>> blocks = {};
  std::vector<ValueBuffers> in = {}, out = {};
};

// One call of a cross-device op (runtime/plan/cross_device.h): a pack and its devices.
struct CrossDeviceCall {
  int first = 0;                      // transfers [first, first + results) have its terms as sources
  int results = 1;                    // one per device, in their order; or 1, for the first device only
  std::vector<int64_t> devices = {};  // of the terms
};

// How a cross-device op makes all_reduces.
struct CrossDevicePlan {
  int64_t bytes_per_pack = 0;                       // see ExecutorOptions
  bool in_parts = false;                            // CrossDeviceOps::is_thread_safe
  const CrossDeviceAlgorithm* algorithm = nullptr;  // the op as data; null: it is code
  // The plan makes the moves of the algorithm by copies and sums, a CopyStep for each round; otherwise the op is
  // called.
  bool makes_moves = false;
};

// Data moves within the domain.
struct CopyStep {
  // kSend: from a collective's operands to messages; kReceive: from messages to ghosts. In the second round of a sum,
  // both are parts of results. kCompare writes nothing.
  enum class Kind : uint8_t { kPack, kCollective, kSend, kReceive, kUnpack, kAssign, kCompare };

  Kind kind = Kind::kCollective;
  int node = -1;             // of a collective; otherwise -1
  std::string subject = {};  // without a node, what the step is for: input "x", output "loss", variable "w"
  std::vector<Transfer> transfers = {};
  // Per transfer, the device that it is for; for a message, the first device of the domain.
  std::vector<int64_t> devices = {};
  // kCompare: transfer i reads the two replicas of `value` that the devices replicas[i] hold.
  ValueId value = kNoValue;
  std::vector<std::pair<int64_t, int64_t>> replicas = {};
  // kCollective by a cross-device op: its calls, which share out the transfers, and whether it takes packs in pieces.
  std::vector<CrossDeviceCall> calls = {};
  bool in_parts = false;

  // Adds a transfer that is for `device`, unless it moves nothing.
  void Add(Transfer transfer, int64_t device);
};

// Data moves to other domains and from them (runtime/exec/transport.h). Sent data is packed before; received data
// lies in ghosts or results, or is unpacked into them afterwards (runtime/plan/crossing.h). In a body, this happens
// as often as the body runs. Between kStart and kWait of an operation, no step writes what it sends, or touches what
// it receives.
struct RemoteStep {
  static constexpr int64_t kAllDomains = -1;
  // A reduction over all domains (runtime/plan/domain_sums.h).
  struct Sum {
    DType dtype = F32;
    ReduceOp op = ReduceOp::kSum;
    int64_t elements = 0;
  };
  enum class Kind : uint8_t { kRun, kStart, kWait };  // kRun: both
  struct Part {
    int64_t domain = 0;    // the other domain; with sums kAllDomains
    BufferId buffer = -1;  // is sent or received as a whole
  };
  Kind kind = Kind::kRun;
  int node = -1;       // -1: the fence
  int operation = -1;  // below StepPlan::num_operations; kStart and kWait have the same
  std::vector<Part> sends = {}, receives = {};  // each ascending by domain
  // Reductions instead of messages: the data of sends[i] in all domains, reduced as sums[i] says, goes to receives[i]
  // in each.
  std::vector<Sum> sums = {};
  std::vector<int> guarded = {};  // of the fence: storages that are not touched until it has ended

  bool is_fence() const { return node < 0; }
};

struct StepPlan;

// A loop or a branch (runtime/plan/loop.h): its bodies are plans whose arguments lie in storages of this plan.
struct NestedStep {
  enum class Kind : uint8_t { kRepeat, kWhile, kBranch };

  Kind kind = Kind::kRepeat;
  int node = -1;
  int64_t length = 0;       // kRepeat: how often the body runs
  BufferId predicate = -1;  // a bool. kWhile: bodies[0] writes it, bodies[1] runs while it is true
  std::vector<ValueBuffers> in = {}, out = {};  // values that the bodies may read, and values that they write
  std::vector<BufferId> arguments = {};         // per argument of every body: where its first instance lies
  std::vector<StepPlan> bodies;                 // kBranch: bodies[0] if the predicate is true, else bodies[1]
};

using Step = std::variant<ComputeStep, CopyStep, RemoteStep, NestedStep>;

struct StepPlan {
  std::shared_ptr<const Graph> graph;  // the program; nodes and values of the steps are its
  // The same program before it was put in order, with its loops: for a backend that hands it to another compiler. Null in plans of
  // bodies, and in those of BuildStepPlan. Arguments, outputs and updates are those of `graph`.
  std::shared_ptr<const Graph> program = nullptr;
  Domain domain;  // whose step it is
  std::vector<Storage> storages;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  int num_operations = 0;  // across domains, in this plan without its bodies

  // Returns its number.
  int AddStorage(const Storage& storage);
  // Adds buffers of `bytes` each, one behind the other from the start of a storage; returns the first.
  BufferId AddBuffers(int64_t count, int64_t bytes, int storage);

  // The bytes of all instances of a value together.
  int64_t BytesOf(const ValueBuffers& value) const {
    return value.instances.count() * buffers[value.first].bytes;
  }
};

struct StepPlanOptions {
  // The domain whose step is planned, on the mesh of the program; nothing: one domain with all devices.
  std::optional<Domain> domain = {};
  // The inputs and outputs that are DTensors of this domain, by name. Others are whole host tensors.
  std::set<std::string> distributed = {};
  // Whether kernels read host tensors in place (Memory::is_host).
  bool host_is_read = true;
  // Transport::latency_bytes of the transport.
  int64_t latency_bytes = 0;
  // The most bytes of collectives across domains that may be under way at a time: of each, the operands or the results
  // on one device, whichever are more. Within this limit a collective starts as soon as its operands are there. 0: each
  // ends where it starts.
  int64_t bytes_under_way = 0;
  // Outputs that are new values of variables; they are written to the variables only.
  std::set<std::string> kept = {};
  bool share = true;     // see ExecutorOptions
  bool coalesce = true;  // the same
  // Compare the new values of outputs and variables wherever a layout says that devices hold the same block
  // and the block is stored more than once.
  bool check_replicas = false;
  // The old values of variables stay, and the new ones go to spares. This does not hold for inputs that outputs
  // replace, because these are fed.
  bool atomic = false;
  // For the body of a loop: the memory of inputs is given in the same way as that of variables (`variables`
  // of BuildStepPlan has their instances).
  bool arguments_are_bound = false;
  // A cross-device op makes the all_reduces within the domain. nullopt: transfers make them, or the kernels that
  // compute their terms.
  std::optional<CrossDevicePlan> cross_device = {};
  // The backend makes sums of all domains itself, where it can (RemoteStep::sums), in an order of its own.
  bool sums_domains = false;

  bool coalesces() const { return coalesce && share; }  // without sharing, ops run device by device
};

// The plan of a program in the order in which it runs, loops lowered (LowerLoops). `variables`: per
// argument, the instances of its state; ignored for inputs. Errors: a collective that does not fit its
// layouts. REQUIRES: CheckLocalProgram(*local). Laws: each buffer lies in its storage; every element of an
// output is written; data that a step reads was written before it, or lies in an argument.
absl::StatusOr<StepPlan> BuildStepPlan(std::shared_ptr<const Graph> local,
                                       const std::vector<InstanceMap>& variables,
                                       const StepPlanOptions& options);

// The storages and the steps, one per line, those of bodies indented; for tests and for reading.
std::string ToString(const StepPlan& plan);

}  // namespace meshwork
