// Executor: runs a local program on the virtual devices of a domain.
//
//   CpuBackend backend;                                 // a worker per core (runtime/cpu/cpu_backend.h)
//   std::map<std::string, DTensor> state;               // variables, by name
//   MESHWORK_ASSIGN_OR_RETURN(auto init, Executor::Create(init_program, backend, {}, &state));
//   MESHWORK_ASSIGN_OR_RETURN(auto step, Executor::Create(step_program, backend, {}, &state));
//   MESHWORK_RETURN_IF_ERROR(init->Run({}, nullptr));
//   std::map<std::string, Tensor> outputs;
//   MESHWORK_RETURN_IF_ERROR(step->Run({{"x", images}, {"y", labels}}, &outputs));   // outputs.at("loss")
//
// If the same memory is fed again and again, bind a step to it once; the step then allocates nothing:
//
//   MESHWORK_ASSIGN_OR_RETURN(BoundStep bound,
//                             step->Bind({{"x", images}, {"y", labels}}, step->NewOutputs()));
//   for (…) {
//     …write the next batch into images and labels…
//     MESHWORK_RETURN_IF_ERROR(bound.Run());                     // bound.outputs().at("loss")
//   }
//
// All planning is done by Create. The executor decides in which order the program runs and in which storage each value
// lies (runtime/plan/step_plan.h); the backend decides how it runs. Memory that a kernel library allocates inside a
// kernel is not planned. Devices are driven in lockstep; values that are the same on several devices are stored and
// computed once. The numbers depend on the program, its mesh and whether devices are coalesced, never on the number of
// workers, on sharing or on fusion.
//
// If there are several domains (ExecutorOptions::transport), all of them create, bind and run alike. Create
// succeeds in all of them or in none. But if a domain does not run a step, because its Bind failed, the
// others wait for it until the transport's deadline, which ends the transport. Session (session/session.h)
// makes the domains agree first.
//
// Programs that share variables (init, step, one per batch size) are bound to one map of DTensors. They must not run at
// the same time. All see the values that the last step left, even if that step has swapped a DTensor with its spare. An
// executor runs one step at a time. The backend must outlive the executor; the map need not.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/exec/bound_step.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor_options.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/runtime/plan/predict.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

class Backend;
class PreparedStep;
struct StepPlan;

class Executor {
 public:
  // Plans the program and binds its variables to the DTensors of the same names, adding the missing
  // ones as zeros. Errors, which leave `variables` as it was: those of CheckLocalProgram; a variable whose
  // type, layout or domain differs from the DTensor's; a collective that does not fit its layouts; no memory
  // for a kernel that is run once; a program for another number of domains than the transport's, or another
  // program than the other domains'; an output that is in several domains and not distributed.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program& program, Backend& backend,
                                                          const ExecutorOptions& options,
                                                          std::map<std::string, DTensor>* variables);
  // The memory that Create would allocate for the program if its variables were new: memory() of the
  // executor, from the same plan. Allocates no tensor and runs nothing. Errors: those of CheckLocalProgram; a
  // collective that does not fit its layouts.
  static absl::StatusOr<ExecutorMemory> PlanMemory(const Program& program, const Backend& backend,
                                                   const ExecutorOptions& options);
  // The time of a step as a topology predicts it (runtime/plan/predict.h), from the same plan. Errors, besides: the
  // topology is of another mesh.
  static absl::StatusOr<StepPrediction> PredictTime(const Program& program, const Backend& backend,
                                                    const ExecutorOptions& options, const Topology& topology);
  // The plan of this domain's step, for simulations. Errors: those of PlanMemory.
  static absl::StatusOr<StepPlan> PlanStep(const Program& program, const Backend& backend,
                                           const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // A step on this memory. `feeds`: a tensor per input; they are only read, and only during steps. `outputs`:
  // the wanted outputs, which must not overlap each other, the feeds or the variables. Errors: a feed that is
  // missing, unknown, or of another type; an output that is unknown, of another type, or overlaps other
  // memory.
  absl::StatusOr<BoundStep> Bind(std::map<std::string, Tensor> feeds, std::map<std::string, Tensor> outputs);
  // The same if some inputs and outputs are distributed: DTensors as NewFeed and NewOutput make them. A
  // distributed output that is missing gets new memory, or the memory of the feed that it replaces
  // (ExecutorOptions::in_place), which is then written. Errors, besides: a DTensor of another type, layout or
  // domain, or in another memory; a DTensor for an input or output that is not distributed; a staged tensor that
  // is not the one which is fed, or lies in another memory.
  absl::StatusOr<BoundStep> Bind(StepMemory memory);
  // A fresh tensor per output that is not distributed.
  std::map<std::string, Tensor> NewOutputs() const;
  // Zeros, for the distributed input, or output, of this name. Errors: there is no such input or output; it is not
  // distributed.
  absl::StatusOr<DTensor> NewFeed(std::string_view name) const;
  absl::StatusOr<DTensor> NewOutput(std::string_view name) const;

  // One step, bound to these feeds and, if `outputs` is not null, to NewOutputs(), which replace the contents
  // of `outputs`. Errors: those of Bind, found before anything runs, and of BoundStep::Run.
  absl::Status Run(const std::map<std::string, Tensor>& feeds, std::map<std::string, Tensor>* outputs);

  // Measurements of the steps since Create or ClearProfile; without steps unless options.profile or
  // trace_steps.
  meshwork::Profile Profile() const;
  // When each instruction of the last steps since then ran; empty unless options.trace_steps.
  meshwork::Trace Trace() const;
  void ClearProfile();

  const ExecutorMemory& memory() const { return memory_; }
  // The step that the backend has prepared.
  const PreparedStep& step() const { return *step_; }

 private:
  DTensor NewDTensor(ValueId id) const;
  Executor(std::shared_ptr<const Graph> graph, const Domain& domain, const Backend& backend,
           const ExecutorOptions& options, const ExecutorMemory& memory, std::map<std::string, DTensor> state,
           std::shared_ptr<std::vector<DTensor>> updated, std::shared_ptr<PreparedStep> step);

  const std::shared_ptr<const Graph> graph_;  // as it was given
  const Domain domain_;
  const Backend& backend_;
  const std::set<std::string> distributed_;
  const InPlace in_place_;
  const ExecutorMemory memory_;
  const std::map<std::string, DTensor> state_;  // the variables
  // The variables whose spares the steps write; null if there are none.
  const std::shared_ptr<std::vector<DTensor>> updated_;
  const std::shared_ptr<StepRecord> record_;
  const bool names_step_;  // in errors of steps
  const std::shared_ptr<PreparedStep> step_;
};

}  // namespace meshwork
