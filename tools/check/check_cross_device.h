// CheckCrossDeviceOps checks that a cross-device op (runtime/cross_device.h) adds up and distributes as it has to. The
// library's own are tried by the same code (tests/check).
//
//   const absl::StatusOr<CrossDeviceReport> report = CheckCrossDeviceOps(mine);
//   if (!report.ok()) …   // "mine: sum of f32[7] over 3 devices: element 2 on device 12 is 1.5, and 2.25 is right."
//   fmt::print("{}", report->ToString());
//
// ExecutorOptions::check_replicas sees in a training whether devices were given different values; that all were given the
// same wrong one is seen here alone. Takes tenths of a second. The op runs in this process: one that writes to arbitrary
// memory may crash it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/cross_device.h"

namespace meshwork {

// What was tried.
struct CrossDeviceReport {
  std::string op;
  int64_t cases = 0;  // calls whose results are right
  // What the op does not do: it says Unimplemented there, and trainings that need it fail.
  std::vector<std::string> notes;

  // "RingAllReduce: 4321 calls are right\n", and the notes.
  std::string ToString() const;
};

// Calls AllReduce, Reduce and Broadcast over 1 to 8 devices: on f32, f64, bf16, f16, i32, i64 and bools; sums, products,
// largest and smallest; packs of no element, one, odd and even numbers, and many; to and from each device, by numbers of
// devices that do not start at 0 and have gaps. Compares with results in double precision: whole numbers, and what is
// copied, exactly; sums and products of reals up to as many roundings as there are terms. All devices must have the same
// bits, each call must give the same bits again, and terms and what lies around the room for results must stay as they
// are. An op that is thread-safe is called by two threads at once, too. Of an algorithm (runtime/cross_device_algorithm.h)
// the moves are checked first, as CheckMoves does: so it is right wherever it runs.
// Errors: InvalidArgument, everything that is wrong, up to eight lines; an error, or exception, of the op other than
// Unimplemented is a finding.
absl::StatusOr<CrossDeviceReport> CheckCrossDeviceOps(CrossDeviceOps& ops);

}  // namespace meshwork
