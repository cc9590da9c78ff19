// The ends of a transport for a test: of loopback; of MPI if mpirun has started the test; of Gloo if
// examples/multi_worker/launch has started it with MESHWORK_TEST_LAUNCHED.
//
// With MPI or Gloo each process plays one domain: it makes the same trials in the same order as all others,
// and compares what all domains have computed.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/runtime/transport/mpi.h"
#include "support/clusters.h"

namespace meshwork {

// Processes that share few cores take their time.
inline constexpr std::chrono::milliseconds kJoinDeadline = std::chrono::minutes(2);

// By domain: the end of a domain that this process plays, nullptr for the others.
using Ends = std::vector<std::unique_ptr<Transport>>;

inline bool IsLaunchedByMpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr;
}
inline bool IsLaunchedForGloo() { return std::getenv("MESHWORK_TEST_LAUNCHED") != nullptr; }
inline bool IsLaunched() { return IsLaunchedByMpi() || IsLaunchedForGloo(); }

// Puts an end in its place; does nothing where this process has no domain.
inline void PlaceEnd(absl::StatusOr<std::unique_ptr<Transport>> end, Ends& ends) {
  if (end.ok()) ends[static_cast<size_t>((*end)->domain())] = *std::move(end);
  else MESHWORK_CHECK(end.status().code() == absl::StatusCode::kNotFound, "{}", MessageOf(end.status()));
}

inline Ends MakeMpiEnds(int64_t num_domains, std::chrono::milliseconds deadline) {
  Ends ends(static_cast<size_t>(num_domains));
  PlaceEnd(MakeMpi({.deadline = deadline, .join_deadline = kJoinDeadline, .num_domains = num_domains}), ends);
  return ends;
}

// The ends of this process, which plays four workers unless it was launched as one of them.
inline Ends MakeGlooEnds(int64_t num_domains, std::chrono::milliseconds deadline) {
  const GlooOptions options{.deadline = deadline, .join_deadline = kJoinDeadline, .num_domains = num_domains};
  Ends ends(static_cast<size_t>(num_domains));
  if (IsLaunchedForGloo()) {
    PlaceEnd(MakeGloo(Cluster::FromEnvironment(ProcessEnvironment()).value(), options), ends);
    return ends;
  }
  static const int port = FreePort();
  std::vector<std::thread> workers;
  for (int64_t w = 0; w < 4; ++w)
    workers.emplace_back([&, w] { PlaceEnd(MakeGloo(LocalCluster(4, w, port), options), ends); });
  for (std::thread& worker : workers) worker.join();
  return ends;
}

inline Ends MakeEnds(int64_t num_domains, std::chrono::milliseconds deadline) {
  if (IsLaunchedByMpi()) return MakeMpiEnds(num_domains, deadline);
  if (IsLaunchedForGloo()) return MakeGlooEnds(num_domains, deadline);
  return MakeLoopback(num_domains, {.deadline = deadline});
}

}  // namespace meshwork
