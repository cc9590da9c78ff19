// The clock that simulations of steps run against (runtime/plan/predict.h, tools/simulate/simulate.h): a device that computes, and
// links that meanwhile carry one message after the other.
//
//   OverlapClock clock;
//   clock.Compute(3);                                          // now: 3
//   const double there = clock.Cross(clock.now, 4, /*latency=*/1);   // from 3 to 7, there at 8
//   clock.Compute(2);                                          // now: 5
//   clock.WaitUntil(there);                                    // now: 8; 3 s of that waited
//
// All times are seconds. Plain data. Law: now == compute_seconds + waited_seconds.
#pragma once

#include <algorithm>

#include "meshwork/mesh/placement.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

// The link of the slowest axis that leads from one domain to others; any link if no axis does.
Link LinkBetweenDomains(const Placement& placement, const Topology& topology);

struct OverlapClock {
  double now = 0;         // of the device
  double links_free = 0;  // when everything so far has been sent
  double compute_seconds = 0, link_seconds = 0, waited_seconds = 0;

  void Compute(double seconds) {
    now += seconds;
    compute_seconds += seconds;
  }
  // Sends data that is ready at time `ready`. It begins to cross as soon as the links are free, and occupies them for
  // `seconds`. Returns the time at which it has arrived.
  double Cross(double ready, double seconds, double latency) {
    links_free = std::max(ready, links_free) + seconds;
    link_seconds += latency + seconds;
    return links_free + latency;
  }
  void WaitUntil(double time) {
    waited_seconds += std::max(0.0, time - now);
    now = std::max(now, time);
  }
  // Repeats what has happened since `before`, `times` more times.
  void Repeat(const OverlapClock& before, double times) {
    now += times * (now - before.now);
    compute_seconds += times * (compute_seconds - before.compute_seconds);
    link_seconds += times * (link_seconds - before.link_seconds);
    waited_seconds += times * (waited_seconds - before.waited_seconds);
  }
};

}  // namespace meshwork
