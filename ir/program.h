// A Program is what spmd hands to runtime: the local graph that every device runs, and what the compile knows
// about it. A local graph parsed from text can be run as well, without the partitioner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

struct PassTiming {
  std::string pass;
  double seconds;
};

// A variable whose layout differs from the one that the program asks for.
struct ShardedState {
  std::string variable;
  Layout asked, layout;
};

// An optional pass of the compiler that was left out, because it made a wrong program.
struct LeftOutPass {
  std::string pass;
  std::string error;  // why the program that it made does not verify
};

struct Program {
  Graph body;                               // local types, each with its global type and layout
  int64_t num_domains = 1;                  // over which its devices are spread (mesh/placement.h)
  std::vector<PassTiming> passes = {};      // the time that each pass took, in order
  double verify_seconds = 0;                // the time that the proof took; 0: no proof was asked for
  std::vector<std::string> decisions = {};  // "%h dim 1 = (model): letter n of matmul (model.cc:12)"
  std::vector<std::string> conflicts = {};  // "matmul (model.cc:12): letter k lies on (model) in %w and on …"
  // State that weight-update sharding laid out (CompileOptions::shard_weight_update).
  std::vector<ShardedState> sharded_state = {};
  // Passes that were left out (CompileOptions::wrong_pass). The program is right, but sends, computes or
  // holds more than it would with them.
  std::vector<LeftOutPass> left_out = {};
};

// One line for the user of a program, to be printed as a warning; "" if no pass was left out.
std::string LeftOutWarning(std::string_view program, const std::vector<LeftOutPass>& left_out);

// A hash of the text of a program, as 16 hex digits. Processes that run together must agree on the
// fingerprint of the local program.
std::string Fingerprint(const Graph& graph);

// The collectives of a local graph, merged by type and axes, in order of first use.
struct CollectiveSummary {
  std::string type;      // "all_reduce"
  std::string axes;      // "(batch)"
  int64_t count = 0;     // per step
  int64_t bytes = 0;     // on the wire, per device and step; see WireBytes
  int64_t received = 0;  // the most of these bytes that a device receives
};
std::vector<CollectiveSummary> SummarizeCollectives(const Graph& local);

// Floating-point operations of all compute nodes: of the whole program, or, of a local graph, of one device. An
// exchange counts like the op that it stands for: one per element.
double CountFlops(const Graph& graph);

}  // namespace meshwork
