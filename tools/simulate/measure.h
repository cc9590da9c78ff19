// Measures this machine's CPUs for tools/simulate/process.h: their roofline, and the times of the pieces of a program's
// step.
//
//   MESHWORK_ASSIGN_OR_RETURN(Machine machine, MeasureMachine({.workers = 2}));      // about a second
//   MESHWORK_RETURN_IF_ERROR(MeasureKernels(program, machine));                     // each piece alone, again and again
//   fmt::print("{}\n", MachineToJson(machine).dump(2));
//
// A piece is timed as it would run in the step, beside the others in the caches: all pieces take turns, in the order of
// the step. The machine should have nothing else to do meanwhile.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/program.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork {

class CpuBackend;

struct MeasureOptions {
  int workers = 0;  // threads; 0: one per core that this process may use
  int rounds = 7;   // of each measurement; the median counts
  // The backend whose threads are used; `workers` is ignored then. Null: new threads. It must outlive the call.
  CpuBackend* backend = nullptr;
};

// The numbers of a process, without kernels; the links are the assumed ones. Errors: workers or rounds are out of
// range.
absl::StatusOr<Machine> MeasureMachine(const MeasureOptions& options = {});

// Adds the times of the pieces of the program's step that machine.kernels does not have. Pieces that cannot be run
// alone are left to the roofline. Errors: those of ScheduleOfProcess. Throws std::bad_alloc if there is not enough
// memory for all values of the step at once.
// REQUIRES: machine.workers >= 1, as many as the backend has.
absl::Status MeasureKernels(const Program& program, Machine& machine, const MeasureOptions& options = {});

}  // namespace meshwork
