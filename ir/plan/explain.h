// The decisions of a compile, for people and for programs: every collective, and why it is there.
//
//   const Explanation explanation = Explain(program, topology);
//   fmt::print("{}", ToText(explanation));
//
// Times are by the topology; without a topology there are no times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/ir/program.h"
#include "meshwork/mesh/topology.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// One value that a collective moves.
struct MovedValue {
  std::string type;      // "f32[128,500]", whole
  std::string from, to;  // layouts
  std::string location;  // the user's line, "step.mw:4"; empty if unknown
  std::string cause;     // why it has to move
  int64_t bytes = 0;     // of a device's block of `from`
};

struct ExplainedCollective {
  std::string op;        // "all_reduce"
  std::string axes;      // "(batch)": along which data moves
  int64_t group = 1;     // the number of devices along these axes
  int64_t bytes = 0;     // on the wire, per device: WireBytes
  int64_t received = 0;  // the most of these bytes that a device receives
  double seconds = 0;    // by the topology; 0: unknown
  int64_t times = 1;     // how often it runs in a step (see TimesOf); bytes and seconds are for one run
  std::vector<MovedValue> values;
};

// Another layout for a value that the user laid out, and what the step then costs and sends.
struct LayoutChange {
  std::string value;     // "%w1"
  int64_t others = 0;    // so many values that are like it, of other layers, change with it
  std::string from, to;  // layouts
  std::string location;  // where the user laid it out
  StepCost cost;
  std::vector<ExplainedCollective> collectives =
      {};  // of the step with this layout, in the order in which they run
};

struct LayoutSearch {
  std::vector<LayoutChange> changes;  // cheaper layouts, the cheapest first
  int64_t layouts = 0;                // all layouts that differ in one step from the user's
  int64_t tried = 0;                  // how many of these were looked at, by the planner or by a compile
};

struct Explanation {
  std::string program, mesh;
  bool has_times = false;  // a topology is known
  StepCost cost;
  std::vector<ExplainedCollective> collectives;  // in the order in which they run
  std::vector<std::string> conflicts;            // ops whose tensors disagree about a layout
  std::vector<ShardedState> sharded_state;       // laid out by weight-update sharding
  std::vector<LeftOutPass> left_out;             // wrong passes of the compiler
  LayoutSearch search;                           // for cheaper layouts (spmd/auto/cheaper_layouts.h)
};

// "12.3 µs".
std::string TimeToString(double seconds);

Explanation Explain(const Program& program, const Topology& topology = {});

// The explanation as text for one screen. Only the first causes of a bucket are shown, and only the most
// expensive collectives of a long program; the others are counted.
std::string ToText(const Explanation& all);
nlohmann::ordered_json ToJson(const Explanation& all);

}  // namespace meshwork
