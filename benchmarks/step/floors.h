// The time below which no step can come on this machine.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace meshwork {

// Of the step as it is compiled for one device.
struct Floors {
  double gflop = 0;      // floating-point operations, in 10^9
  double megabytes = 0;  // inputs, read once, and variables, read and written once
  // The fastest that this machine was seen to do as many operations in products of matrices that lie in the
  // caches, and to copy as many bytes; on all workers, by one call of oneDNN and of memcpy each.
  double products_ms = 0, memory_ms = 0;
};
absl::StatusOr<Floors> MeasureFloors(int64_t batch, int workers);

}  // namespace meshwork
