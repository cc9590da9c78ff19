// How much a collective moves over the links of a device.
//
// Devices need not send and receive alike: of f32[64] {x} on 8 devices, x[0:8] {x} is one row per device, all
// from the first device, which sends 7 while each receives 1. Links carry both ways at once, so the busier
// way is what a collective costs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace meshwork {

// In elements or bytes.
struct Traffic {
  int64_t sent = 0;      // by the device that sends most
  int64_t received = 0;  // by the device that receives most

  // What the busiest link carries in one direction.
  constexpr int64_t busiest() const { return std::max(sent, received); }
  constexpr Traffic operator*(int64_t times) const { return {sent * times, received * times}; }
  bool operator==(const Traffic&) const = default;
};

}  // namespace meshwork
