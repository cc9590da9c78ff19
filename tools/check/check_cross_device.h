// CheckCrossDeviceOps checks that a cross-device op (runtime/plan/cross_device.h) adds up and distributes correctly.
// The library's own ops are tried by the same code (tests/tools/check).
//
//   const absl::StatusOr<CrossDeviceReport> report = CheckCrossDeviceOps(mine);
//   if (!report.ok()) …   // "mine: sum of f32[7] over 3 devices: element 2 on device 12 is 1.5, and 2.25 is right."
//   fmt::print("{}", report->ToString());
//
// During a training, ExecutorOptions::check_replicas detects that devices were given different values. Only this check
// detects that all were given the same wrong value. It takes tenths of a second. The op runs in this process, so an op
// that writes to arbitrary memory may crash it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/plan/cross_device.h"

namespace meshwork {

// What was tried.
struct CrossDeviceReport {
  std::string op;
  int64_t cases = 0;  // calls whose results are right
  // Calls that the op does not support: it returns Unimplemented for them, and trainings that need them fail.
  std::vector<std::string> notes;

  // "RingAllReduce: 4321 calls are right\n", and the notes.
  std::string ToString() const;
};

// Calls AllReduce, Reduce and Broadcast over 1 to 8 devices: on f32, f64, bf16, f16, i32, i64 and bool; with sums,
// products, the largest and the smallest; on packs of no element, one, odd and even numbers of elements, and many; to
// and from each device, with device numbers that do not start at 0 and have gaps. Compares with results in double
// precision: whole numbers and copied values exactly; sums and products of reals up to as many roundings as there are
// terms. All devices must have the same bits, each call must give the same bits again, and the terms and the memory
// around the results must stay unchanged. A thread-safe op is also called by two threads at once. For an algorithm
// (runtime/plan/cross_device_algorithm.h) the moves are checked first, as CheckMoves does, so that it is right wherever
// it runs.
// Errors: InvalidArgument with everything that is wrong, up to eight lines. An error of the op other than
// Unimplemented, or an exception, counts as wrong.
absl::StatusOr<CrossDeviceReport> CheckCrossDeviceOps(CrossDeviceOps& ops);

}  // namespace meshwork
