// Lower bounds of the time of a step on this machine.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace meshwork {

// Numbers of the step as it is compiled for one device.
struct Floors {
  double gflop = 0;      // floating-point operations, in 10^9
  double megabytes = 0;  // inputs, read once, and variables, read and written once
  // The shortest time measured for as many operations, in products of matrices that lie in the caches, and
  // for copying as many bytes: on all workers, each with one call of oneDNN or memcpy.
  double products_ms = 0, memory_ms = 0;
};
absl::StatusOr<Floors> MeasureFloors(int64_t batch, int workers);

}  // namespace meshwork
