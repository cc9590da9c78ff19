// Simulates a step of a program on any mesh, without hardware: when each op runs and each collective crosses, what a
// device holds meanwhile, and what limits the step.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, {.topology = topology}));
//   const Simulation step = Simulate(program.body, {.topology = topology, .memory_bandwidth = 2e12});
//   fmt::print("{:.1f} ms; {}\n", 1e3 * step.seconds, step.limit);
//
//   compute |matmul    |matmul   |matmul    |          |sub|sub|
//   links                        |all_reduce           |           its first reader is the first sub
//
// All devices run the same local program at the same time, so one stands for all; if dims are uneven, it has the
// largest block. An op takes the time that the machine gives (tools/simulate/machine.h). A collective takes the α–β
// time of its ring or tree over the slowest of its axes (CollectiveSeconds, ir/program_cost.h). It starts when its
// operands are there and the links are free, beside the ops that follow it; the first op that reads it waits for it.
// Collectives use the links one after the other, in the order of the program. A loop takes its length times the time of
// its body, and nothing runs beside it: only collectives of its body use the links meanwhile. A loop of unknown length
// counts as one iteration. A branch takes the time of its dearer body.
//
// Pure functions; thread-safe. No time depends on the machine that simulates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/tools/simulate/machine.h"

namespace meshwork {

enum class Lane : uint8_t { kCompute, kLinks };

// "compute", "links".
std::string_view NameOf(Lane lane);

// An op or a collective on its lane; or a barrier, the start of a crossing, or the start and end of a step. A span of a
// loop or a branch contains those of one run of its body.
struct SimulatedSpan {
  // The node of the program; within a loop or a branch, that of the outermost. The number of nodes: the start and end
  // of a step. -1: no node, such as the copy of an input of a process.
  int node = 0;
  Lane lane = Lane::kCompute;
  std::string op;                 // "matmul"; of a collective with its axes, "all_reduce over (batch)"
  std::string where;              // the user's line, "mlp.cc:12"; empty if unknown
  double start = 0, seconds = 0;  // of one run
  // For crossings between processes: the time from when the links are free again until the data has arrived.
  double latency = 0;
  int64_t times = 1;      // how often it runs in a step
  int depth = 0;          // number of loops and branches around it
  bool has_body = false;  // is a loop or a branch: spans of the next depth lie in it
  // The number of the collective, in the order of Explain (ir/plan/explain.h); -1: no collective, or the step is of a
  // process.
  int collective = -1;

  double end() const { return start + seconds; }
  bool operator==(const SimulatedSpan&) const = default;
};

// The memory that a device holds from `start` on.
struct MemoryAt {
  double start = 0;   // seconds
  int64_t bytes = 0;  // as ir/plan/memory_report.h counts them
  int node = 0;       // of the program; the number of nodes: the end of the step

  bool operator==(const MemoryAt&) const = default;
};

struct Simulation {
  double seconds = 0;  // of the step
  // The times of the ops alone, and of the collectives alone. Law: each is the sum of DearestOf's costs of its lane,
  // but for rounding.
  double compute_seconds = 0;
  double link_seconds = 0;
  double waited_seconds =
      0;  // in which the device waits for the links. Law: seconds == compute_seconds + waited_seconds
  std::vector<SimulatedSpan> spans;  // in order of start; those of a lane and a depth do not overlap
  std::vector<MemoryAt> memory;      // in order of start: per node, and for the end
  int64_t peak_bytes = 0;            // LogicalPeakBytes
  // The limit of the step: "links: all_reduce over (batch) at mlp.cc:12 takes 61 %".
  std::string limit;

  // The part of link_seconds in which ops run.
  double hidden_seconds() const { return link_seconds - waited_seconds; }
};

struct SimulateOptions {
  // Collectives run beside ops. If not, each op waits for the collectives before it.
  bool overlap = true;
};

// REQUIRES: a local program, on the mesh of machine.topology (Topology::CheckDescribes). Times may overflow to
// infinity; SimulateOn (tools/simulate/process.h) refuses them.
// Laws: without links, seconds is the sum of the ops; with overlap, it is no more than without.
Simulation Simulate(const Graph& local, const Machine& machine, const SimulateOptions& options = {});

// The ops and the collectives of one kind and line together, the dearest first.
struct SimulatedCost {
  Lane lane = Lane::kCompute;
  std::string op, where;
  double seconds = 0;  // in a step
  int64_t times = 0;   // in a step
};
std::vector<SimulatedCost> DearestOf(const Simulation& simulation);

}  // namespace meshwork
