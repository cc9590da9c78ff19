// The step of processes that hold the devices of a mesh as virtual ones (meshwork run; Processes,
// train/cluster/processes.h).
//
//   Machine machine = MeasureMachine({}).value();                       // tools/simulate/measure.h
//   MESHWORK_RETURN_IF_ERROR(MeasureKernels(program, machine));
//   MESHWORK_ASSIGN_OR_RETURN(const Simulation step, SimulateProcess(program, machine));
//
// A process computes values that are equal on several devices once, runs an op for all its devices together, and runs
// several ops row by row; a collective between its own devices is a copy, or only another order of a sum. So the
// simulation follows the plan that the process would run, instruction by instruction (runtime/cpu/schedule.h). Each
// takes the measured time of its piece (tools/simulate/pieces.h), or a time by the roofline of the process. Data that
// crosses between processes takes the link over the slowest axis that leads to others, beside compute as in
// runtime/plan/overlap.h. One process stands for all, but each crossing takes as long as for the process that carries
// most data in it.
//
// Pure functions; thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/tools/simulate/simulate.h"

namespace meshwork {

// The schedule of one of program.num_domains processes. `machine`: its workers and links count. Errors: the
// domains cannot share the mesh (Placement::Create); those of Executor::PlanStep.
absl::StatusOr<Schedule> ScheduleOfProcess(const Program& program, const Machine& machine,
                                           const SimulateOptions& options = {}, int64_t domain = 0);

// Nodes of the spans and of the memory are those of the program in the order in which it runs. The memory is that of
// one device; the process needs less per device, as it stores equal values once. REQUIRES: machine.workers >= 1; the
// topology is of the program's mesh (Topology::CheckDescribes). Errors: those of ScheduleOfProcess; a time is not
// finite.
absl::StatusOr<Simulation> SimulateProcess(const Program& program, const Machine& machine,
                                           const SimulateOptions& options = {});

// SimulateProcess if the machine has workers, else Simulate. Errors: those of SimulateProcess; a time is not finite.
absl::StatusOr<Simulation> SimulateOn(const Program& program, const Machine& machine,
                                      const SimulateOptions& options = {});

}  // namespace meshwork
