// How long the pieces of a step take (tools/simulate/pieces.h), each alone and in turn.
#pragma once

#include <map>
#include <string>

#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork {

// Seconds by key, of the pieces of the schedule and of the bodies of its loops that `machine.kernels` does not have and that
// can be run alone and do not fail: the median of `rounds`, without machine.step_seconds. A round is a step, piece by piece, after one that
// is not timed; values lie as in a step, where one that nothing reads any more leaves its memory to the next. Throws
// std::bad_alloc if there is not enough memory.
std::map<std::string, double> TimePieces(const Schedule& schedule, const Machine& machine,
                                         CpuBackend& backend, int rounds);

}  // namespace meshwork
