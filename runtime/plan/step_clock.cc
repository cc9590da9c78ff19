#include "meshwork/runtime/plan/step_clock.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/saturate.h"

namespace meshwork {
namespace {

StepTimes Run(const std::vector<StepItem>& items, const OverlapClock& from, int depth);

// Adds a body, which began at the end of `to`, or on a clock of its own, then `times` times.
void Append(StepTimes& to, StepTimes&& body, bool own_clock, double times) {
  for (ItemSpan& span : body.spans) {
    if (own_clock) span.start += to.clock.now;
    to.spans.push_back(span);
  }
  if (own_clock) to.clock.Repeat({}, body.clock, times);
  else to.clock = body.clock;
}

// One turn of the bodies.
StepTimes Turn(const StepItem& item, const OverlapClock& from, int depth) {
  StepTimes turn{.clock = from};
  for (const std::vector<StepItem>& items : item.bodies) {
    const bool is_branch = item.kind == StepItem::Kind::kBranch;
    StepTimes body = Run(items, item.alone ? OverlapClock{} : is_branch ? from : turn.clock, depth);
    if (!is_branch) Append(turn, std::move(body), item.alone, 1);
    else if (&items == &item.bodies[0] || body.clock.now > turn.clock.now) turn = std::move(body);
  }
  return turn;
}

void RunBodies(const StepItem& item, int depth, StepTimes& step) {
  const auto times = static_cast<double>(item.times);
  const double start = step.clock.now;
  StepTimes turns = Turn(item, item.alone ? OverlapClock{} : step.clock, depth + 1);
  double seconds = times * turns.clock.now;
  if (!item.alone) {
    if (item.times > 1) {
      const OverlapClock first = std::exchange(turns.clock, Turn(item, turns.clock, depth + 1).clock);
      turns.clock.Repeat(first, turns.clock, static_cast<double>(item.times - 2));
    }
    seconds = turns.clock.now - start;
  }
  if (item.label >= 0) step.spans.push_back({item.label, start, seconds, 1, depth});
  for (ItemSpan& span : turns.spans) span.times = SaturatedProduct(span.times, item.times);
  if (item.times == 0) turns.spans.clear();
  Append(step, std::move(turns), item.alone, times);
  step.clock.links_free = std::max(step.clock.links_free, step.clock.now);
}

StepTimes Run(const std::vector<StepItem>& items, const OverlapClock& from, int depth) {
  StepTimes step{.clock = from};
  OverlapClock& clock = step.clock;
  std::vector<double> ended;
  for (const StepItem& item : items) {
    const auto add_span = [&](double start) {
      if (item.label >= 0) step.spans.push_back({item.label, start, item.seconds, 1, depth});
    };
    step.reached.push_back(clock.now);
    double ready = 0;
    for (int read : item.reads) ready = std::max(ready, ended[static_cast<size_t>(read)]);
    if (item.kind == StepItem::Kind::kCross) {
      ended.push_back(clock.Cross(item.early ? ready : clock.now, item));
      add_span(ended.back() - item.latency - item.seconds);
      if (item.waits) clock.WaitUntil(ended.back());
      continue;
    }
    clock.WaitUntil(ready);
    if (item.kind == StepItem::Kind::kCompute) {
      if (item.seconds > 0) add_span(clock.now);
      clock.Compute(item.seconds);
    } else {
      RunBodies(item, depth, step);
    }
    ended.push_back(clock.now);
  }
  step.reached.push_back(clock.now);
  // A body's spans stand behind that of their loop, which may have begun at the same time.
  std::stable_sort(step.spans.begin(), step.spans.end(), [](const ItemSpan& a, const ItemSpan& b) {
    return std::pair(a.start, a.depth) < std::pair(b.start, b.depth);
  });
  return step;
}

double BytesOf(const std::vector<Buffer>& buffers, const std::vector<RemoteStep::Part>& parts) {
  double bytes = 0;
  for (const RemoteStep::Part& part : parts)
    bytes += static_cast<double>(buffers[static_cast<size_t>(part.buffer)].bytes);
  return bytes;
}

}  // namespace

void OverlapClock::Compute(double seconds) {
  now += seconds;
  compute_seconds += seconds;
}

void OverlapClock::WaitUntil(double time) {
  waited_seconds += std::max(0.0, time - now);
  now = std::max(now, time);
}

double OverlapClock::Cross(double ready, const StepItem& item) {
  if (!first_sent.has_value()) first_sent = ready;
  links_free = std::max(ready, links_free) + item.seconds;
  link_seconds += item.latency + item.seconds;
  link_bytes += item.bytes;
  return links_free + item.latency;
}

void OverlapClock::Repeat(const OverlapClock& before, const OverlapClock& after, double times) {
  for (double OverlapClock::*sum :
       {&OverlapClock::now, &OverlapClock::compute_seconds, &OverlapClock::link_seconds,
        &OverlapClock::waited_seconds, &OverlapClock::link_bytes})
    this->*sum += times * (after.*sum - before.*sum);
}

StepTimes TimeItems(const std::vector<StepItem>& items) { return Run(items, {}, 0); }

StepItem CrossingItem(double bytes, const Link& link, bool waits) {
  return {.kind = StepItem::Kind::kCross,
          .seconds = bytes / link.bandwidth,
          .latency = link.latency,
          .bytes = bytes,
          .waits = waits};
}

StepItem NestedItem(NestedStep::Kind kind, int64_t length) {
  return {.kind = kind == NestedStep::Kind::kBranch ? StepItem::Kind::kBranch : StepItem::Kind::kRepeat,
          .times = kind == NestedStep::Kind::kRepeat ? length : 1};
}

Link LinkBetweenDomains(const Placement& placement, const Topology& topology) {
  const std::vector<Link> links = topology.LinksOf(placement.mesh());
  std::optional<Link> slowest;
  for (int axis : placement.across().ToList())
    slowest = slowest.has_value() ? Slowest(*slowest, links[static_cast<size_t>(axis)])
                                  : links[static_cast<size_t>(axis)];
  return slowest.value_or(Link{.bandwidth = 1, .latency = 0});  // nothing crosses
}

double BytesCrossing(const std::vector<Buffer>& buffers, const std::vector<RemoteStep::Part>& sends,
                     const std::vector<RemoteStep::Part>& receives) {
  return std::max(BytesOf(buffers, sends), BytesOf(buffers, receives));
}

}  // namespace meshwork
