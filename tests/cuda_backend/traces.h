// Checks of the trace of a step on a GPU (runtime/exec/trace.h): its track 0 shows steps, its track 1 the GPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "meshwork/runtime/exec/trace.h"

namespace meshwork {

inline std::vector<TraceEvent> EventsOfTrack(const Trace& trace, int track) {
  std::vector<TraceEvent> events;
  std::copy_if(trace.events.begin(), trace.events.end(), std::back_inserter(events),
               [&](const TraceEvent& event) { return event.track == track; });
  return events;
}

inline const TraceLabel& LabelOfEvent(const Trace& trace, const TraceEvent& event) {
  return trace.labels[static_cast<size_t>(event.label)];
}

inline std::string TextOf(const TraceLabel& label, const std::string& name) {
  for (const auto& [key, text] : label.texts)
    if (key == name) return text;
  return "";
}

// The slices of the GPU lie within their steps, one after the other.
inline void ExpectInOrder(const Trace& trace) {
  std::map<int64_t, TraceEvent> steps;
  int64_t end = 0;
  for (const TraceEvent& step : EventsOfTrack(trace, 0)) {
    EXPECT_GE(step.start_ns, end);
    end = step.start_ns + step.ns;
    steps[step.step] = step;
  }
  end = 0;
  for (const TraceEvent& event : EventsOfTrack(trace, 1)) {
    EXPECT_GE(event.start_ns, end);
    EXPECT_GE(event.ns, 0);
    end = event.start_ns + event.ns;
    const TraceEvent& step = steps.at(event.step);
    EXPECT_GE(event.start_ns, step.start_ns);
    EXPECT_LE(end, step.start_ns + step.ns);
  }
}

}  // namespace meshwork
