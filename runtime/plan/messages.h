// Puts the data that a collective moves between domains (runtime/plan/crossing.h) into messages: in each round, at most
// one to each other domain and one from it.
//
//   all_gather on [x=2*2], 2 domains, of f32[2] of f32[8] {x}, in domain 0:
//     send      the instances of devices 0 and 1 into a buffer of 16 bytes
//     start     sending that buffer to domain 1, and receiving a buffer of 16 bytes from domain 1
//     wait      for both
//     receive   that one into the ghosts of the instances of devices 2 and 3
//     copies    the result, of the own instances and the ghosts
//
// A sum in two rounds continues with its second round: parts of the result go to the other domains, and parts from them
// arrive in the result.
//
// Data that is one range of one buffer is sent, or received, in that place: it is neither packed nor unpacked. Pure
// functions; thread-safe for different plans.
#pragma once

#include <vector>

#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/crossing.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// The steps of a collective, in three parts that run one after the other; other steps may run between the parts.
struct CrossingSteps {
  std::vector<Step> begin;   // packs, and starts the first round: once the operands are there
  std::vector<Step> middle;  // waits for it, writes the results; starts the second round, if there is one
  std::vector<Step> end;     // waits for that; nothing for one round
};

// Adds the ghosts and messages of collective `node` to `plan`, and returns its steps. `crossing`: as the domain of the
// plan sees it (CrossingPlanner::Plan). `values`: where the instances lie, per value.
CrossingSteps PlanMessages(int node, Crossing crossing, const std::vector<ValueBuffers>& values,
                           StepPlan& plan);

}  // namespace meshwork
