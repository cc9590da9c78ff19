// A simulated step as text, as JSON, and as a trace for ui.perfetto.dev.
//
//   step on [batch=2, model=4]: 172 µs
//     compute 113 µs; links 59.2 µs, waited for 59.2 µs (0 % hidden)
//     limit   compute: matmul at step.mw:4 takes 65 %
//
// Pure functions; thread-safe.
#pragma once

#include <string>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/tools/simulate/simulate.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// The times, the limit of the step, its `most` dearest ops and collectives, and the memory over time as a chart.
// `local`: the program that was simulated.
std::string ToText(const Graph& local, const Simulation& step, int most = 10);
// The same and all spans, as one JSON object.
nlohmann::ordered_json ToJson(const Graph& local, const Simulation& step);

// A track for the device and one for its links, each with its spans; spans of a loop's body lie within the loop's.
// Times are rounded to nanoseconds.
Trace TraceOf(const Graph& local, const Simulation& step);

// A chart of the memory of a device over time, `rows` lines high and `columns` wide: a column is the most memory held
// in its part of the time. A line below says how long the step is. REQUIRES: rows and columns are at least 1.
std::string MemoryChart(const Simulation& step, int rows = 8, int columns = 64);

}  // namespace meshwork
