// Connect: the transport between the processes of a cluster, by the engine that fits.
//
//   MESHWORK_ASSIGN_OR_RETURN(Cluster cluster, Cluster::FromEnvironment(ProcessEnvironment()));
//   MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, Connect(cluster));
//   options.executor.transport = transport.get();    // null if this process is alone
//
// Process p of the cluster has domain p. Processes::Join (train/cluster/processes.h) does both, as flags say.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/meeting.h"

namespace meshwork {

// The engine that carries the data. kAuto: MPI between processes that a launcher has started, else Gloo.
enum class Engine { kAuto, kMpi, kGloo };
std::string_view NameOf(Engine engine);  // "auto", "mpi", "gloo"
// The engine that kAuto means for this cluster.
Engine AutoEngine(const Cluster& cluster);

struct ConnectOptions {
  Engine engine = Engine::kAuto;
  // How long a process waits for another one, here and in every operation.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  MeetingOptions meeting = {};
  int64_t generation = 0;  // of GlooOptions
};

// All processes of the cluster that hold devices must call it, in the same order. Null for a process that is alone.
// Errors: this process holds no devices; this build has not the engine; the processes do not have the same
// version of meshwork; MPI has started other processes than the cluster names; those of MakeMpi and MakeGloo.
absl::StatusOr<std::unique_ptr<Transport>> Connect(const Cluster& cluster,
                                                   const ConnectOptions& options = {});

}  // namespace meshwork
