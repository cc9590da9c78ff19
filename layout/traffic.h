// How much a collective moves over the links of a device.
//
// Devices need not send and receive alike: of f32[64] {x} on 8 devices, x[0:8] {x} is one row per device, all
// from the first device, which sends 7 while each receives 1. Links carry both ways at once, so a collective
// costs what the busier way costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "meshwork/mesh/mesh.h"

namespace meshwork {

// In elements or bytes.
struct Traffic {
  int64_t sent = 0;      // by the device that sends most
  int64_t received = 0;  // by the device that receives most

  // The amount that the busiest link carries in one direction.
  constexpr int64_t busiest() const { return std::max(sent, received); }
  constexpr Traffic operator*(int64_t times) const { return {sent * times, received * times}; }
  bool operator==(const Traffic&) const = default;
};

// The devices among which the busiest one is sought, at most `most`. If no more than `most` devices differ on
// `axes`, these are all of them. Otherwise some coordinates are taken on every axis: all of a short axis; of
// others the ends, their neighbours and the middle. If these are too many devices, fewer coordinates are
// taken: in the end only the ends, and only of the first axes.
std::vector<int64_t> SomeDevices(const Mesh& mesh, const AxisList& axes, int64_t most);

}  // namespace meshwork
