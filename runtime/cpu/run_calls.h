// Calling a cross-device op (runtime/plan/cross_device.h) for the packs of an instruction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/cpu/schedule.h"
#include "meshwork/runtime/plan/cross_device.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Room for the pointers of one call.
struct CallRoom {
  std::vector<const std::byte*> terms;
  std::vector<std::byte*> results;

  void MakeFor(const CrossDeviceCall& call);
};

// The exception that an op threw, as an error without the op's name. REQUIRES: called in a catch clause.
absl::Status CaughtFromCrossDeviceOps();

// Makes the calls of a worker. `addresses` is indexed by BufferId. With `marks`, the memory of the results is filled
// before the call, for the first device with other bytes than for the others: if the op does not write an element, its
// replicas differ. Errors: those of the op, and what it throws, with its name.
// REQUIRES: instruction.calls; room for each call.
absl::Status RunCalls(CrossDeviceOps& ops, const Instruction& instruction, int worker,
                      std::span<std::byte* const> addresses, bool marks, CallRoom& room);

}  // namespace meshwork
