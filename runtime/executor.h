// Executor: runs a local program on the virtual devices of this process.
//
//   WorkerPool pool;                                    // one worker per core
//   std::map<std::string, DTensor> state;               // variables, by name
//   ASSIGN_OR_RETURN(auto init, Executor::Create(init_program, pool, {}, &state));
//   ASSIGN_OR_RETURN(auto step, Executor::Create(step_program, pool, {}, &state));
//   RETURN_IF_ERROR(init->Run({}, nullptr));
//   std::map<std::string, Tensor> outputs;
//   RETURN_IF_ERROR(step->Run({{"x", images}, {"y", labels}}, &outputs));   // outputs.at("loss")
//
// Where the same memory is fed again and again, a step is bound to it once, and then allocates nothing:
//
//   ASSIGN_OR_RETURN(BoundStep bound, step->Bind({{"x", images}, {"y", labels}}, step->NewOutputs()));
//   for (…) {
//     …write the next batch into images and labels…
//     RETURN_IF_ERROR(bound.Run());                     // bound.outputs().at("loss")
//   }
//
// All planning is done by Create (see runtime/schedule.h). What a kernel library allocates inside a kernel is
// its own affair. Devices are driven in lockstep by the workers of the pool; what is the same on
// several devices is stored and computed once. The numbers depend on the program, its mesh and whether
// devices are coalesced, never on the number of workers, on sharing or on fusion.
//
// Programs that share variables (init, step, one per batch size) are bound to one map of DTensors; they
// must not run at the same time. An executor runs one step at a time; the pool must outlive it, the
// map need not.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/debug.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/communicator.h"
#include "meshwork/runtime/dtensor.h"
#include "meshwork/runtime/profile.h"
#include "meshwork/runtime/replicas.h"
#include "meshwork/runtime/schedule.h"
#include "meshwork/runtime/tensor.h"
#include "meshwork/runtime/trace.h"
#include "meshwork/runtime/worker_pool.h"

namespace meshwork {

struct ExecutorOptions {
  // One instance of what is the same on several devices; otherwise one per device, for comparison.
  bool share = true;
  // Ops of devices that read the same operand run as one, and sums of what they compute are made where it is
  // computed (runtime/coalesce.h); otherwise device by device, as always without sharing. Sums then come out
  // in another order.
  bool coalesce = true;
  // Chains of ops run a few rows at a time (runtime/fusion.h); otherwise op by op, for comparison.
  bool fuse = true;
  // Fill all temporary memory, and the padding of variables, with NaN (bytes 0xFF) before each step: what is
  // in padding, or left over from another value, then shows if anything reads it.
  bool poison_padding = kDebugBuild;
  // Compare what becomes an output or a variable's new value wherever its layout says that devices hold the
  // same and each has its own (see runtime/replicas.h). With share=true that is only what the program does
  // not prove to be the same.
  bool check_replicas = kDebugBuild;
  // Measure every instruction of every step; see Profile().
  bool profile = false;
  // Record when each instruction of the last so many steps ran; see Trace(). Measures for a profile, too.
  int trace_steps = 0;
};

// What a program needs here, all devices together. Inputs and outputs, which are host tensors, do not count,
// nor do the tables of the plan itself, and the cache line that an empty arena takes.
struct ExecutorMemory {
  int64_t private_bytes = 0;   // arenas of the workers
  int64_t shared_bytes = 0;    // arena of values that several workers touch
  int64_t constant_bytes = 0;  // what is computed once
  int64_t variable_bytes = 0;  // bound variables, also if other executors share them
  int num_barriers = 0;        // per step
  int num_instructions = 0;    // per step

  int64_t total_bytes() const { return private_bytes + shared_bytes + constant_bytes + variable_bytes; }
  bool operator==(const ExecutorMemory&) const = default;
};

class Executor;

// A step with the memory that it reads and writes, which it keeps alive. Made by Executor::Bind; the
// executor must outlive it. One step of an executor runs at a time, bound or not.
class BoundStep {
 public:
  // One step, on what the fed tensors hold now. Allocates nothing unless it fails. Errors, after which the
  // variables are undefined: one of the communicator; replicas that differ; no memory for a kernel or a
  // library that it calls.
  absl::Status Run();
  // By name; written anew by each step.
  const std::map<std::string, Tensor>& outputs() const { return outputs_; }

 private:
  friend class Executor;
  explicit BoundStep(Executor& executor) : executor_(&executor) {}

  Executor* executor_;
  std::map<std::string, Tensor> feeds_, outputs_;
  std::vector<std::byte*> feed_addresses_;    // per argument; null for variables
  std::vector<std::byte*> output_addresses_;  // per output; null where it is not asked for
};

class Executor {
 public:
  // Plans the program and binds its variables to the DTensors of the same names, adding the missing
  // ones as zeros. Errors, which leave `variables` as it was: those of CheckLocalProgram; a variable
  // whose type or layout differs from the DTensor's; a collective that does not fit its layouts.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program& program, WorkerPool& pool,
                                                          const ExecutorOptions& options,
                                                          std::map<std::string, DTensor>* variables);
  // What Create would allocate for the program on so many workers, where its variables are new: memory() of
  // the executor, by the plan that it allocates by. Allocates no tensor and runs nothing. Errors: those of
  // CheckLocalProgram; a collective that does not fit its layouts. REQUIRES: workers >= 1.
  static absl::StatusOr<ExecutorMemory> PlanMemory(const Program& program, int workers,
                                                   const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // A step on this memory. `feeds`: a tensor per input; they are only read, and only during steps.
  // `outputs`: those that are wanted, all apart from each other and from the feeds.
  // Errors: a feed that is missing, unknown, or of another type; an output that is unknown, of another type,
  // or not apart.
  absl::StatusOr<BoundStep> Bind(std::map<std::string, Tensor> feeds, std::map<std::string, Tensor> outputs);
  // A fresh tensor per output.
  std::map<std::string, Tensor> NewOutputs() const;

  // One step, bound to these feeds and, if `outputs` is not null, to NewOutputs(), which replace what is in
  // it. Errors: those of Bind, found before anything runs, and of BoundStep::Run.
  absl::Status Run(const std::map<std::string, Tensor>& feeds, std::map<std::string, Tensor>* outputs);

  // What the steps took since Create or ClearProfile; without steps unless options.profile or trace_steps.
  meshwork::Profile Profile() const;
  // When what ran in the last steps since then; empty unless options.trace_steps.
  meshwork::Trace Trace() const;
  void ClearProfile();

  const ExecutorMemory& memory() const { return memory_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  friend class BoundStep;

  // What a worker needs of its own during a step.
  struct alignas(64) WorkerState {
    std::vector<const void*> in;  // room for one kernel call's pointers
    std::vector<void*> out;
    absl::Status status;  // the first error of the communicator
    // The first replicas found to differ: instruction, item, and where; -1: none.
    int instruction = -1, item = -1;
    Difference difference;
  };

  Executor(const Program& program, WorkerPool& pool, const ExecutorOptions& options);

  // All that is decided before anything is allocated.
  struct Plan {
    Schedule schedule;
    ExecutorMemory memory;
  };
  static absl::StatusOr<Plan> MakePlan(const Graph& graph, int workers, const ExecutorOptions& options,
                                       const std::map<std::string, DTensor>& variables);

  // A schedule with addresses: the program's, or that of the body of a loop.
  struct Level {
    const Graph* graph = nullptr;
    const Schedule* schedule = nullptr;
    std::vector<std::byte*> addresses;                        // per buffer
    std::vector<std::unique_ptr<Collective>> collectives;     // per instruction, null for other kinds
    std::vector<std::vector<std::unique_ptr<Level>>> bodies;  // per instruction, of loops
    const LoopPlan::Body* body = nullptr;                     // null for the program's
    bool follows_feeds = false;  // an argument of the body, or of one in it, lies in a feed
  };

  absl::Status Prepare(std::map<std::string, DTensor>& variables);
  void MakeRoom(const Schedule& schedule);
  void AllocateArenas();
  absl::Status PrepareLevel(Level& level);
  void PlaceBody(Level& body, const Level& around);
  static void FollowFeeds(Level& level);
  void RunOnce(const Level& level);

  absl::Status RunBound(const BoundStep& bound);
  void Poison();
  void RunWorker(int worker);
  // False if there is nothing to do: the output is not asked for.
  bool RunInstruction(const Level& level, size_t i, int worker);
  void RunKernels(const Level& level, size_t i, int worker);
  void RunStep(const Level& level, const Instruction& instruction, const KernelStep& step, int64_t begin,
               int64_t end, int64_t strip, int worker);
  void RunCollective(const Level& level, size_t i, int worker);
  void RunKernelsOrFail(const Level& level, size_t i, int worker);
  bool AnyFailed() const;  // REQUIRES: no worker runs
  void RunLoop(const Level& level, size_t i, int worker);
  void RunBody(const Level& body, int worker);
  void Compare(size_t i, int worker);
  absl::Status StepStatus() const;

  Graph graph_;
  WorkerPool& pool_;
  const ExecutorOptions options_;
  Schedule schedule_;
  ExecutorMemory memory_;
  std::vector<DTensor> variables_;             // per argument; invalid for inputs
  std::vector<Padding> paddings_;              // of the variables
  std::vector<std::shared_ptr<void>> arenas_;  // per worker, then the shared one and that of constants
  Level root_;
  std::vector<std::vector<BufferId>> feed_buffers_;  // per argument: those that follow its host tensor
  std::vector<BufferId> output_buffers_;             // per output
  std::unique_ptr<Communicator> communicator_;
  std::vector<WorkerState> workers_;
  bool leaves_ = false;                 // the loop that runs: written by worker 0, read behind a barrier
  std::unique_ptr<Profiler> profiler_;  // null unless options.profile or trace_steps
};

}  // namespace meshwork
