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
// All planning is done by Create (see runtime/schedule.h): Run allocates the output tensors and
// nothing else. Devices are driven in lockstep by the workers of the pool; what is the same on
// several devices is stored and computed once. The numbers depend on the program and its mesh
// alone, never on the number of workers or on sharing.
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
#include "ops/program.h"
#include "runtime/communicator.h"
#include "runtime/dtensor.h"
#include "runtime/schedule.h"
#include "runtime/tensor.h"
#include "runtime/worker_pool.h"

namespace meshwork {

struct ExecutorOptions {
  // One instance of what is the same on several devices; otherwise one per device, for comparison.
  bool share = true;
  // Fill all temporary memory with NaN (bytes 0xFF) before each step: what is in padding, or left
  // over from another value, then shows if anything reads it.
  bool poison_padding = false;
};

// What a program needs here, all devices together. Arguments that are host tensors do not count.
struct ExecutorMemory {
  int64_t private_bytes = 0;   // arenas of the workers
  int64_t shared_bytes = 0;    // arena of values that several workers touch
  int64_t variable_bytes = 0;  // bound variables, also if other executors share them
  int num_barriers = 0;        // per step
  int num_instructions = 0;    // per step
};

class Executor {
 public:
  // Plans the program and binds its variables to the DTensors of the same names, adding the missing
  // ones as zeros. Errors, which leave `variables` as it was: those of CheckLocalProgram; a variable
  // whose type or layout differs from the DTensor's; a collective that does not fit its layouts.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program& program, WorkerPool& pool,
                                                          const ExecutorOptions& options,
                                                          std::map<std::string, DTensor>* variables);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // One step. `feeds`: a tensor per input. `outputs`, if not null, is replaced by a fresh tensor per
  // output. Fed tensors are only read, and only during the call.
  // Errors found before anything runs: a feed that is missing, unknown, or of another type. An error
  // of the communicator leaves the variables undefined.
  absl::Status Run(const std::map<std::string, Tensor>& feeds, std::map<std::string, Tensor>* outputs);

  const ExecutorMemory& memory() const { return memory_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  // Room for one kernel call's pointers.
  struct alignas(64) CallArgs {
    std::vector<const void*> in;
    std::vector<void*> out;
  };

  Executor(const Program& program, WorkerPool& pool, const ExecutorOptions& options);

  absl::Status Prepare(std::map<std::string, DTensor>& variables);
  void AllocateArenas();
  absl::Status PrepareCollectives();

  absl::Status CheckFeeds(const std::map<std::string, Tensor>& feeds) const;
  std::string Signature() const;  // "step(x: f32[128,784], y: i32[128])", the inputs
  void Poison();
  void RunWorker(int worker, bool unpack);
  void RunKernel(const Instruction& instruction, int worker);

  Graph graph_;
  WorkerPool& pool_;
  const ExecutorOptions options_;
  Schedule schedule_;
  ExecutorMemory memory_;
  std::vector<DTensor> variables_;                   // per argument; invalid for inputs
  std::vector<std::shared_ptr<void>> arenas_;        // per worker, then the shared one
  std::vector<std::byte*> addresses_;                // per buffer
  std::vector<std::vector<BufferId>> feed_buffers_;  // per argument: those that follow its host tensor
  std::vector<BufferId> output_buffers_;             // per output
  std::unique_ptr<Communicator> communicator_;
  std::vector<std::unique_ptr<Collective>> collectives_;  // per instruction, null for other kinds
  std::vector<CallArgs> call_args_;                       // per worker
  std::vector<absl::Status> statuses_;                    // per worker, of the step under way
};

}  // namespace meshwork
