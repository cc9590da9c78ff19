// The time of a step as a topology (mesh/topology.h) predicts it: for compute, and for the data that crosses between
// domains meanwhile.
//
//   MESHWORK_ASSIGN_OR_RETURN(const StepPrediction step, session.PredictTime(topology));
//   fmt::print("{:.1f} ms, {:.1f} ms of it waiting\n", 1e3 * step.seconds, 1e3 * step.waited_seconds);
//
// Runs the plan of a step against a clock. A node takes the time of its floating-point operations on one device,
// because the devices of a domain compute at the same time. An operation across domains begins to occupy the link
// between domains when it has been started and the link is free; the step waits for it until latency and bytes /
// bandwidth have passed. Data that moves within the domain takes no time. Pure functions; thread-safe.
#pragma once

#include "meshwork/mesh/topology.h"

namespace meshwork {

struct StepPlan;

struct StepPrediction {
  double seconds = 0;          // of the step
  double compute_seconds = 0;  // of the nodes alone
  double remote_seconds = 0;   // of what crosses between domains alone
  double remote_bytes =
      0;  // of what this domain sends, or of what it receives, whichever is more in each operation
  double start_seconds =
      0;  // until the first operation across domains starts, or until the end if there is none
  double waited_seconds = 0;  // in which the domain waits for what crosses; the rest is hidden

  bool operator==(const StepPrediction&) const = default;
};

// REQUIRES: topology.CheckDescribes(plan.graph->mesh()).
StepPrediction PredictTime(const StepPlan& plan, const Topology& topology);

}  // namespace meshwork
