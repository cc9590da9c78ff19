// What a compile decided, for people and for programs: every collective, and why it is there.
//
//   const Explanation explanation = Explain(program, topology);
//   fmt::print("{}", ToText(explanation));
//
// Times are by the topology, where one is known; without it there are none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/program.h"
#include "meshwork/mesh/topology.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// What a device sends, receives and holds in one step.
struct StepCost {
  int64_t collectives = 0;
  int64_t bytes = 0;       // on the wire: WireBytes
  int64_t received = 0;    // of these, what a device receives at most
  double seconds = 0;      // in collectives, by the topology; 0: it is not known
  int64_t peak_bytes = 0;  // LogicalPeakBytes
};

// One value that a collective moves.
struct MovedValue {
  std::string type;      // "f32[128,500]", whole
  std::string from, to;  // layouts
  std::string location;  // the user's line, "step.mw:4"; empty if it is not known
  std::string cause;     // why it has to move
};

struct ExplainedCollective {
  std::string op;        // "all_reduce"
  std::string axes;      // "(batch)": along which data moves
  int64_t group = 1;     // devices along them
  int64_t bytes = 0;     // on the wire, per device: WireBytes
  int64_t received = 0;  // of these, what a device receives at most
  double seconds = 0;    // by the topology; 0: it is not known
  int64_t times = 1;  // in a step: in the body of a loop as often as that runs; bytes and seconds are of one
  std::vector<MovedValue> values;
};

// Another layout for something that the user laid out, and what the step costs with it.
struct LayoutChange {
  std::string value;     // "%w1"
  std::string from, to;  // layouts
  std::string location;  // where it is laid out
  StepCost cost;
};

struct LayoutSearch {
  std::vector<LayoutChange> changes;  // cheaper layouts, the cheapest first
  int64_t layouts = 0;                // all that differ in one step from what the user laid out
  int64_t tried = 0;                  // of these, those of the largest values
};

struct Explanation {
  std::string program, mesh;
  bool has_times = false;  // a topology is known
  StepCost cost;
  std::vector<ExplainedCollective> collectives;  // in the order in which they run
  std::vector<std::string> conflicts;            // ops whose tensors disagree about a layout
  std::vector<ShardedState> sharded_state;       // laid out by weight-update sharding
  std::vector<LeftOutPass> left_out;             // wrong passes of the compiler
  LayoutSearch search;                           // for cheaper layouts (spmd/cheaper_layouts.h)
};

// "12.3 µs".
std::string TimeToString(double seconds);

StepCost CostOf(const Graph& local, const Topology& topology);
Explanation Explain(const Program& program, const Topology& topology = {});

// For one screen: the causes of a bucket and the collectives of a long program beyond the first are counted,
// those that cost least.
std::string ToText(const Explanation& all);
nlohmann::ordered_json ToJson(const Explanation& all);

}  // namespace meshwork
