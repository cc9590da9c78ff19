// The engines that carry data between processes, called without meshwork.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"

namespace meshwork {

using Call = std::function<absl::Status()>;

class DirectEngine {
 public:
  virtual ~DirectEngine() = default;
  virtual std::string name() const = 0;
  // Calls timed(all_reduce): all_reduce() adds up `bytes` of f32 over all processes, from one memory to another. All
  // processes call it alike. Errors: those of the engine and of `timed`.
  virtual absl::Status AllReduce(int64_t bytes, const std::function<absl::Status(const Call&)>& timed) = 0;
};

// MPI, which a transport has initialised before. No transport may live while the engine is called. Errors: this build
// has no MPI.
absl::StatusOr<std::unique_ptr<DirectEngine>> MakeDirectMpi();

// Gloo, over the ring of all processes of this host; they meet in the empty folder `meeting`. Errors: this build has no
// Gloo; those of Gloo.
absl::StatusOr<std::unique_ptr<DirectEngine>> MakeDirectGloo(const Cluster& cluster,
                                                             const std::string& meeting);

}  // namespace meshwork
