// The steps of an all_reduce that a cross-device op makes (runtime/plan/cross_device.h).
//
//   all_reduce %a, %b over 4 devices, bytes_per_pack large enough for both:
//
//   a of device d ──copy──▶                                  ──copy──▶ result of a on device d
//                           pack of device d ──one call──▶ pack
//   b of device d ──copy──▶                                  ──copy──▶ result of b on device d
//
// A tensor that is a pack by itself is not copied. Where the plan makes the moves of an algorithm
// (CrossDevicePlan::makes_moves), the calls are steps of copies and sums instead, one for each round of all packs
// together. Packs are cut at the same places as for calls (CrossDeviceOps::kPieceBytes), so both ways add up the terms
// of an element in the same order.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// Appends the steps of all_reduce `node` to the plan. `values`: per value, where its instances lie; each result has an
// instance per device of the group, or one for all (VaryingAxes). Errors: those of PlanCollective; wrong moves of the
// algorithm (CheckMoves), even if the op is called and the plan does not make them.
absl::Status AddCrossDevice(int node, const std::vector<ValueBuffers>& values, const CrossDevicePlan& options,
                            StepPlan& plan);

}  // namespace meshwork
