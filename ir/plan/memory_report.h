// The memory that one device needs for a local program, known before it runs: how much, where in the program,
// and for which values.
//
//   MemoryReport report = ReportMemory(program.body);
//   fmt::print("{}", PrintMemoryReport(program.body, report));
//
//   606000 B per device at all_reduce (step.mw:4), %0; 3 values there:
//         350000 B  var %w: f32[175,500] of f32[700,500] {model,_} (step.mw:3)
//         …
//
// Whole blocks count, padding included. Variables live throughout, inputs until their last reader, other
// values from their node to their last reader, outputs and new values of variables to the end. A result that
// is written over an operand or a variable takes no memory of its own (ir/plan/storage.h); a value that is
// copied aside at the end does. Kernels and collectives take no memory besides their operands and results;
// the memory that libraries allocate for themselves and the gaps between buffers are not known here. The
// devices of a process share equal values; the runtime says how much they allocate together
// (Executor::PlanMemory).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

// A live value. If several values lie in its memory one after the other, the last of them that is not a view.
struct LiveValue {
  ValueId value = kNoValue;
  int64_t bytes = 0;
};

struct MemoryReport {
  int64_t peak_bytes = 0;
  // The first node at which peak_bytes are live, with its operands and results. The number of nodes stands
  // for the end of the step, when variables get their new values.
  int node = 0;
  int64_t peak_nodes = 0;          // at how many nodes peak_bytes are live; the end counts as one
  int64_t num_live = 0;            // values live at `node`, those without elements left out
  std::vector<LiveValue> largest;  // of these, at most as many as asked for; among equals the earlier first
};

// REQUIRES: a local program. Takes time linear in the program.
MemoryReport ReportMemory(const Graph& local, int largest = 5);

// Per node, and then for the end of the step, the bytes that are live. REQUIRES: a local program.
// Law: the most of them is LogicalPeakBytes.
std::vector<int64_t> LiveBytesOfNodes(const Graph& local);

// ReportMemory(local).peak_bytes.
int64_t LogicalPeakBytes(const Graph& local);

// "all_reduce (step.mw:4), %0", with at most three results; or "the end of the step".
std::string DescribePoint(const Graph& local, const MemoryReport& report);
// "var %w: f32[175,500] of f32[700,500] {model,_} (step.mw:3)"; "%0: f32[64,500] of … by all_reduce
// (step.mw:4)".
std::string DescribeLive(const Graph& local, ValueId value);
// The report as text: a line for the peak and one for each value.
std::string PrintMemoryReport(const Graph& local, const MemoryReport& report);

}  // namespace meshwork
