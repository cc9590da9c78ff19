// A Program is what spmd hands to runtime: the local graph every device runs, and what the compile
// knows about it. It can as well be parsed from text and run without the partitioner.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/traffic.h"
#include "meshwork/mesh/topology.h"

namespace meshwork {

struct PassTiming {
  std::string pass;
  double seconds;
};

// A variable that lies otherwise than the program asks.
struct ShardedState {
  std::string variable;
  Layout asked, layout;
};

// An optional pass of the compiler that made a wrong program, and was left out.
struct LeftOutPass {
  std::string pass;
  std::string error;  // why what it made does not verify
};

struct Program {
  Graph body;                               // local types, each with its global type and layout
  int64_t num_domains = 1;                  // over which its devices are spread (mesh/placement.h)
  std::vector<PassTiming> passes = {};      // what the compile spent, in order
  double verify_seconds = 0;                // and what proving the result took; 0: it was not asked for
  std::vector<std::string> decisions = {};  // "%h dim 1 = (model): letter n of matmul (model.cc:12)"
  std::vector<std::string> conflicts = {};  // "matmul (model.cc:12): letter k lies on (model) in %w and on …"
  // By weight-update sharding (CompileOptions::shard_weight_update).
  std::vector<ShardedState> sharded_state = {};
  // The program is right, and sends, computes or holds more than it would with them
  // (CompileOptions::wrong_pass).
  std::vector<LeftOutPass> left_out = {};
};

// One line for the user of a program, to be printed as a warning; "" where nothing is left out.
std::string LeftOutWarning(std::string_view program, const std::vector<LeftOutPass>& left_out);

// 16 hex digits over the text of a program. Processes that run together must agree on that of the local one.
std::string Fingerprint(const Graph& graph);

// Whether a node sends anything between devices: a collective, unless it is an exchange in which each device
// has all that it needs.
bool Communicates(const Graph& local, const Node& node);

// The collectives of a local graph, merged by type and axes, in order of first use.
struct CollectiveSummary {
  std::string type;      // "all_reduce"
  std::string axes;      // "(batch)"
  int64_t count = 0;     // per step
  int64_t bytes = 0;     // on the wire, per device and step; see WireBytes
  int64_t received = 0;  // of these, what a device receives at most
};
std::vector<CollectiveSummary> SummarizeCollectives(const Graph& local);

// How often a region of a node runs in a step: a loop without a known length counts as one iteration, and of
// two branches each as if it were chosen. 1 for a node without regions.
int64_t TimesOf(const Node& node);

// Bytes that devices send and receive for one collective: with B the bytes of the gathered or reduced buffer,
// l those of the local operand and n the group's size: all-reduce 2(n-1)/n·B, reduce-scatter and all-gather
// (n-1)/n·B, all-to-all (n-1)/n·l, collective-permute l, both ways. Blocks count, padding included.
// All-to-all-v and exchange, of which one way may be the busier: see AllToAllVTraffic
// (layout/relayout_cost.h) and ExchangeTraffic (ir/exchange.h).
Traffic WireTraffic(const Graph& local, const Node& node);
// What the busiest link carries of it in one direction.
int64_t WireBytes(const Graph& local, const Node& node);

// The axes along which a collective moves data: of its group, or those along which blocks change places.
AxisList GroupAxes(const Graph& local, const Node& node);

// What one collective takes by the topology, seconds.
double CollectiveSeconds(const Graph& local, const Node& node, const Topology& topology);

// Per value, how many operands, updates and outputs it is.
std::vector<int> CountReaders(const Graph& graph);

// Floating-point operations of one node: as its row counts, otherwise one per result element.
double FlopsOf(const Graph& graph, const Node& node);

// Floating-point operations of all compute nodes: of the whole program, or, of a local
// graph, of one device.
double CountFlops(const Graph& graph);

}  // namespace meshwork
