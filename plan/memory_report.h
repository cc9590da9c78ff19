// What one device needs of memory for a local program, known before it runs: how much, where in the program,
// and for which values.
//
//   MemoryReport report = ReportMemory(program.body);
//   fmt::print("{}", PrintMemoryReport(program.body, report));
//
//   606000 B per device at all_reduce (step.mw:4), %0; 3 values there:
//         350000 B  var %w: f32[175,500] of f32[700,500] {model,_} (step.mw:3)
//         …
//
// Blocks count, padding included. Variables live throughout, inputs until their last reader, other values
// from their node to their last reader, outputs and new values of variables to the end. What is written over
// an operand or a variable takes no memory of its own (plan/storage.h); what is copied aside at the end does.
// Kernels and collectives take none beside their operands and results; what a library allocates for itself is
// not known here, nor the gaps that a plan leaves between buffers. What the devices of a process allocate
// together, which share what is equal, is said by the runtime (Executor::PlanMemory).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A value that is live, or the values that lie in its memory one after the other: then the last of them that
// is no view.
struct LiveValue {
  ValueId value = kNoValue;
  int64_t bytes = 0;
};

struct MemoryReport {
  int64_t peak_bytes = 0;
  // The first node at which so much is live, with its operands and results; the number of nodes: the end of
  // the step, when variables get their new values.
  int node = 0;
  int64_t peak_nodes = 0;          // at so many nodes, the end counted as one
  int64_t num_live = 0;            // values there, those without elements left out
  std::vector<LiveValue> largest;  // there, at most as many as were asked for; of equals the earlier first
};

// REQUIRES: a local program. Time is linear in it.
MemoryReport ReportMemory(const Graph& local, int largest = 5);

// ReportMemory(local).peak_bytes.
int64_t LogicalPeakBytes(const Graph& local);

// "all_reduce (step.mw:4), %0", of many results the first three; "the end of the step".
std::string DescribePoint(const Graph& local, const MemoryReport& report);
// "var %w: f32[175,500] of f32[700,500] {model,_} (step.mw:3)"; "%0: f32[64,500] of … by all_reduce
// (step.mw:4)".
std::string DescribeLive(const Graph& local, ValueId value);
// The report as text: a line for the peak and one for each value.
std::string PrintMemoryReport(const Graph& local, const MemoryReport& report);

}  // namespace meshwork
