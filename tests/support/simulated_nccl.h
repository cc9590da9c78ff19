// The communicators and exchanges of the simulated NCCL (simulated_cuda.h).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/runtime/cuda/nccl_api.h"

namespace meshwork {

// One rank.
struct SimulatedComm {
  std::string id;  // of its clique
  int rank = 0, device = 0;
  bool is_finalized = false;
  int looks = 0;  // polls left until a pending call has ended
  // Held by captured exchanges, and by the graphs made of them.
  std::shared_ptr<const int> held = std::make_shared<const int>(0);
};

// Bytes that one rank sends to another, or receives from it.
struct SimulatedPart {
  bool is_sent = false;
  int peer = 0;
  uintptr_t address = 0;
  size_t bytes = 0;
};

struct SimulatedPost {
  SimulatedPart part;
  bool is_done = false;
};

// The term of one rank in a sum of all ranks, and the address where it gets the sum.
struct SimulatedSum {
  uintptr_t from = 0, to = 0;
  size_t count = 0;
  NcclType type = NcclType::kBytes;
  NcclOp op = NcclOp::kSum;
};

struct SimulatedTerm {
  SimulatedSum sum;
  bool is_done = false;
};

// One run of a group of parts or of sums.
struct SimulatedExchange {
  uintptr_t comm = 0;
  int device = 0;
  std::vector<SimulatedPart> parts;
  std::vector<SimulatedSum> sums;
  bool has_begun = false;
  std::vector<std::shared_ptr<SimulatedPost>> posts;  // the parts that have begun
  std::vector<std::shared_ptr<SimulatedTerm>> terms;

  bool is_done() const {
    for (const auto& post : posts)
      if (!post->is_done) return false;
    for (const auto& term : terms)
      if (!term->is_done) return false;
    return true;
  }
};

// The ranks with the same id.
struct SimulatedClique {
  int num_ranks = 0;
  std::map<int, int> devices;  // of the ranks that have joined
  bool shares_gpus = false;
  std::set<int> gone;                             // ranks that have finalized or aborted
  std::map<int, const SimulatedExchange*> begun;  // by rank: the exchange under way
  using Posts = std::deque<std::shared_ptr<SimulatedPost>>;
  std::map<std::pair<int, int>, Posts> sent,
      received;  // by sender and receiver: those that wait for each other
  std::map<int, std::deque<std::shared_ptr<SimulatedTerm>>> terms;  // by rank
};

// The exchanges that a thread has collected since ncclGroupStart.
struct SimulatedGroup {
  int depth = 0;
  uintptr_t comm = 0;
  CUstream stream = nullptr;
  std::vector<SimulatedPart> parts;
  std::vector<SimulatedSum> sums;
  NcclResult result = NcclResult::kSuccess;
};

}  // namespace meshwork
