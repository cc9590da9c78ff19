// A Backend computes in a domain. It prepares step plans (runtime/plan/step_plan.h) for its kind of machine.
//
//   CpuBackend backend;                                      // runtime/cpu/cpu_backend.h
//   MESHWORK_ASSIGN_OR_RETURN(auto step, backend.Prepare(std::move(plan), variables, {}));
//   MESHWORK_RETURN_IF_ERROR(step->Run(feeds, outputs));              // as often as wanted
//
// Executor (runtime/exec/executor.h) drives a backend; users only name the backend.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor_options.h"
#include "meshwork/runtime/exec/memory.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Options of Backend::Prepare; see ExecutorOptions.
struct PrepareOptions {
  bool fuse = true;
  MatmulPrecision matmul_precision = MatmulPrecision::kFull;
  bool blocking_launches = false;
  bool poison_padding = false;
  bool profile = false;
  int trace_steps = 0;
  // Carries data to and from other domains; null if there are no others. It must outlive the step.
  Transport* transport = nullptr;
  // Makes the cross-device calls of the plan (CrossDeviceCall). A plan for memory other than the host's has none.
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;
  bool check_replicas = false;
};

// A step that can be run. Only one thread at a time may use it.
class PreparedStep {
 public:
  virtual ~PreparedStep() = default;

  // Runs the step once. `feeds`: per argument of the program, the elements of the host tensor or of the DTensor
  // (Storage::Kind says which); they are only read. Null for variables, except that a variable for which Prepare got no
  // DTensor is fed, too, and written. `outputs`: per output, the place for its elements; null if the output is not
  // wanted and is no DTensor. New values of variables that are kept (StepPlanOptions::atomic) are written to their
  // spares; the caller swaps them. Allocates nothing unless it fails. `staged`: per argument, the address of a copy of
  // the fed host tensor's elements in the backend's memory; null for an argument without such a copy. Empty: no
  // argument has one.
  // Errors (they abort the transport, and leave variables that are not kept undefined): replicas that differ; no memory
  // for a kernel or for a library that it calls; an error of the transport.
  virtual absl::Status Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                           std::span<const std::byte* const> staged) = 0;

  // Whether the last Run may have written to spares. If it has not, they hold what they held before. If it has, every
  // domain of the program has begun that step.
  virtual bool wrote_spares() const { return false; }

  // The memory that the step has allocated, without the variables: variable_bytes and spare_bytes are 0.
  virtual ExecutorMemory memory() const = 0;

  // Measurements of the steps since Prepare or ClearProfile; without steps unless profiling was asked for.
  virtual meshwork::Profile Profile() const = 0;
  virtual meshwork::Trace Trace() const = 0;
  virtual void ClearProfile() = 0;
};

// Thread-safe. A backend must outlive the steps that it has prepared; DTensors in its memory may outlive it.
class Backend {
 public:
  virtual ~Backend() = default;

  // Its name in messages: "CPU".
  virtual std::string_view name() const = 0;
  // Whether it has a kernel for this op.
  virtual bool Has(const OpRow& row) const = 0;
  // The memory that holds the variables of its steps. Several backends may share one.
  virtual std::shared_ptr<Memory> memory() const = 0;
  // Whether its steps make sums of all domains (RemoteStep::sums), as NcclAllReduce asks for.
  virtual bool sums_domains() const { return false; }

  // memory() of the step that Prepare would make. Allocates no memory for values and runs nothing. Errors: those of Prepare that
  // can be known so. REQUIRES: as for Prepare.
  virtual absl::StatusOr<ExecutorMemory> PlanMemory(StepPlan plan, const PrepareOptions& options) const = 0;
  // Makes kernels, allocates all memory except that of variables, and runs the nodes that are computed once.
  // `variables`: per argument its DTensor, with the instances that the plan was built for; invalid for
  // inputs, and for a variable whose memory is given to each step. The step shares their elements. If the plan puts the
  // new value of a variable into a spare, the variable must have a spare when the step runs. Errors: no
  // memory for a kernel or for a library that it calls; an error of the transport. Throws std::bad_alloc if
  // there is not enough memory. REQUIRES: the backend has every op of the plan; plan.program is set, if the backend is for
  // other compilers (runtime/pjrt/pjrt_backend.h).
  virtual absl::StatusOr<std::unique_ptr<PreparedStep>> Prepare(StepPlan plan, std::vector<DTensor> variables,
                                                                const PrepareOptions& options) = 0;
};

// `ordered`: a program in the order in which it runs, loops lowered (runtime/plan/loop.h). Error: an op for which
// the backend has no kernel.
absl::Status CheckKernels(const Graph& ordered, const Backend& backend);

}  // namespace meshwork
