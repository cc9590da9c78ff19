// Times the pieces of a step (tools/simulate/pieces.h), one after the other.
#pragma once

#include <map>
#include <string>

#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork {

// Seconds by key of the pieces of the schedule and of the bodies of its loops, without machine.step_seconds: the
// median of `rounds`. Leaves out pieces that `machine.kernels` has, that cannot be run alone, or that fail. A round
// runs all pieces in the order of the step, once without and once with timing. Values lie in memory as in a step: the
// memory of a value that nothing reads any more is used again. Throws std::bad_alloc if there is not enough memory.
std::map<std::string, double> TimePieces(const Schedule& schedule, const Machine& machine,
                                         CpuBackend& backend, int rounds);

}  // namespace meshwork
