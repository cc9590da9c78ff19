// The places of buffers in one arena: a static plan from their sizes and lifetimes.
//
//   PlanBuffers({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}})  ->  offsets {0, 128, 0}, peak 228
//
// A buffer is live over an inclusive range of ticks: instructions, or whole epochs between barriers
// where several threads share the arena. Buffers with a common tick never overlap in memory.
//
// Greedy by decreasing size, each in the tightest gap that fits (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", arXiv 2001.03288, section 5): within a few percent of
// the lower bound on the graphs of networks. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace meshwork {

struct BufferRequest {
  int64_t bytes = 0;  // 0 takes no room and lies at offset 0
  int begin = 0;      // first tick at which it is live
  int end = 0;        // last tick at which it is live; REQUIRES: begin <= end
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // per request, multiples of the alignment
  int64_t peak = 0;              // bytes of the arena
};

// Laws: requests live at a common tick are disjoint; peak >= MaxLiveBytes(requests).
MemoryPlan PlanBuffers(std::span<const BufferRequest> requests, int64_t alignment = 64);

// The bytes live at each tick; the largest int64_t where there are more.
std::vector<int64_t> LiveBytes(std::span<const BufferRequest> requests);

// The lower bound of every plan: the most bytes live at one tick.
int64_t MaxLiveBytes(std::span<const BufferRequest> requests);

}  // namespace meshwork
