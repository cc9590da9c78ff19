// The clock of a step: a device runs items in order, beside links that carry one message after the other. Predictions
// and simulations (runtime/plan/predict.h, tools/simulate/simulate.h, tools/simulate/process.h) write a program as
// items, and read all times from here.
//
//   constexpr auto kCross = StepItem::Kind::kCross;
//   const StepTimes step = TimeItems({{.seconds = 3},                                   // computes from 0 to 3
//                                     {.kind = kCross, .seconds = 4, .latency = 1},     // from 3 to 7, there at 8
//                                     {.seconds = 2},                                   // from 3 to 5
//                                     {.reads = {1}}});                                 // waits from 5 to 8
//   step.clock.now;             // 8
//   step.clock.waited_seconds;  // 3
//
// All times are seconds. Pure functions and plain data; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/mesh/placement.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct StepItem {
  enum class Kind : uint8_t {
    kCompute,  // the device computes, or only waits
    kCross,    // data crosses the links, while the device goes on
    kRepeat,   // the bodies run one after the other, `times` times
    kBranch,   // one of the bodies runs: the first of those that take longest
  };
  Kind kind = Kind::kCompute;
  int label = -1;               // of its span; -1: it has none
  std::vector<int> reads = {};  // earlier items of the same list: it waits until they have ended, or arrived
  double seconds = 0;           // in which it computes, or occupies the links
  double latency = 0;           // kCross: from when the links are free again until the data has arrived
  double bytes = 0;             // kCross
  // kCross: the data is sent as soon as all items that it reads have ended, even before the device comes to this item.
  // If not, it is sent when the device is there, whatever it reads.
  bool early = false;
  bool waits = false;  // kCross: the device waits until the data has arrived
  // kRepeat, kBranch: when it begins and when a body ends, no data is on the way. So all turns are alike: one is run,
  // on a clock of its own. If not, the first turn may wait for data that was sent before; two are run, and all later
  // ones are like the second.
  bool alone = false;
  int64_t times = 1;  // kRepeat; at least 1, or 0 if it is alone
  std::vector<std::vector<StepItem>> bodies = {};
};

// When an item with a label runs; within a loop in the first turn.
struct ItemSpan {
  int label = 0;
  double start = 0, seconds = 0;  // of one run; of a loop, of all its turns
  int64_t times = 1;              // how often it runs
  int depth = 0;                  // number of loops and branches around it
};

// A device and its links. Law: now == compute_seconds + waited_seconds, but for rounding.
struct OverlapClock {
  double now = 0;         // of the device
  double links_free = 0;  // when everything so far has been sent
  double compute_seconds = 0, link_seconds = 0, waited_seconds = 0;
  double link_bytes = 0;
  std::optional<double> first_sent =
      {};  // when the first message was ready; not those of items that are alone

  void Compute(double seconds);
  void WaitUntil(double time);
  // Sends the data of an item that is ready at time `ready`; it begins to cross as soon as the links are free. Returns
  // the time at which it has arrived.
  double Cross(double ready, const StepItem& item);
  // Repeats what has happened between two times of a clock, `times` times.
  void Repeat(const OverlapClock& before, const OverlapClock& after, double times);
};

struct StepTimes {
  OverlapClock clock;           // at the end
  std::vector<ItemSpan> spans;  // by start, then by depth; a kCompute of 0 seconds has none
  std::vector<double> reached;  // per item, when the device comes to it; and then the end
};

StepTimes TimeItems(const std::vector<StepItem>& items);

// The item of data that crosses from when the device is there.
StepItem CrossingItem(double bytes, const Link& link, bool waits);
// The item of a loop or a branch, without its bodies. A loop of unknown length runs once.
StepItem NestedItem(NestedStep::Kind kind, int64_t length);

// The link of the slowest axis that leads from one domain to others; any link if no axis does.
Link LinkBetweenDomains(const Placement& placement, const Topology& topology);

// The bytes that an operation across domains sends, or receives, whichever are more.
double BytesCrossing(const std::vector<Buffer>& buffers, const std::vector<RemoteStep::Part>& sends,
                     const std::vector<RemoteStep::Part>& receives);

}  // namespace meshwork
