// Where buffers lie in one arena: a static plan from their sizes and lifetimes.
//
//   PlanBuffers({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}})  ->  offsets {0, 128, 0}, peak 228
//
// A buffer is live over an inclusive range of ticks: instructions, or whole epochs between barriers
// where several threads share the arena. Buffers whose ranges meet never overlap in memory.
//
// Greedy by decreasing size, each in the tightest gap that fits (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", arXiv 2001.03288, section 5): within a few percent of
// the lower bound on the graphs of networks. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/graph.h"

namespace meshwork {

struct BufferRequest {
  int64_t bytes = 0;  // 0 takes no room and lies at offset 0
  int begin = 0;      // first tick at which it is live
  int end = 0;        // last one; REQUIRES: begin <= end
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // per request, multiples of the alignment
  int64_t peak = 0;              // bytes of the arena
};

// Laws: requests live at a common tick are disjoint; peak >= MaxLiveBytes(requests).
MemoryPlan PlanBuffers(std::span<const BufferRequest> requests, int64_t alignment = 64);

// The lower bound of every plan: the most bytes live at one tick.
int64_t MaxLiveBytes(std::span<const BufferRequest> requests);

// What one device needs of a local program: the most bytes of arguments and values live at one
// node. Variables live throughout, inputs until their last reader, a value from its node to its
// last reader, outputs and new variable values to the end. Every value counts on its own: writing
// in place and sharing equal values between the devices of a process only lower it.
int64_t LogicalPeakBytes(const Graph& local);

}  // namespace meshwork
