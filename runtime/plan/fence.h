// The fence of a step that keeps the old values of variables (runtime/plan/step_plan.h). When the fence has ended, all
// domains have begun the step.
//
//   start 0 of fence across domains: 1 byte of s0 to 1, 1 byte of s1 from 1
//   …
//   wait for 0
//   …                                                   // from here on, spares may be written
//
// Pure functions; thread-safe for different plans.
#pragma once

#include <optional>
#include <set>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

// The first node that is a collective over some of `across`, the axes across domains, or has one in its bodies.
std::optional<int> FirstCrossing(const Graph& local, AxisSet across);

// An operation of kind kStart in which each domain sends a byte to each other one. Adds its buffers to `plan`.
RemoteStep NewFence(StepPlan& plan);

// The storages that the steps of the plan write, without those of bodies.
std::set<int> StoragesWritten(const StepPlan& plan);

}  // namespace meshwork
