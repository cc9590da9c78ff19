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
#include "meshwork/runtime/trace.h"
#include "meshwork/tools/simulate/simulate.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// The times, what limits the step, its `most` dearest ops and collectives, and the memory over time as a chart.
// `local`: the program that was simulated.
std::string ToText(const Graph& local, const Simulation& step, int most = 10);
// The same and all spans, as one JSON object.
nlohmann::ordered_json ToJson(const Graph& local, const Simulation& step);

// A track for the device and one for its links, each with its spans, those of a loop in the loop's. Times are rounded to
// nanoseconds.
Trace TraceOf(const Graph& local, const Simulation& step);

// What a device holds as time passes: columns of equal time, the most that it holds in each; `rows` high, `columns` wide.
// One line each, and one below that says how long it is. REQUIRES: rows and columns are at least 1.
std::string MemoryChart(const Simulation& step, int rows = 8, int columns = 64);

}  // namespace meshwork
