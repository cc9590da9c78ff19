#include "meshwork/runtime/transport/connect.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/mpi.h"

namespace meshwork {
namespace {

absl::StatusOr<std::unique_ptr<Transport>> ConnectByMpi(const Cluster& cluster,
                                                        const ConnectOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                            MakeMpi({.deadline = options.deadline, .num_domains = cluster.num_processes()}));
  if (transport->domain() == cluster.process()) return transport;
  absl::Status status = InvalidArgument(
      "Connect: {} is process {} of the cluster and rank {} of MPI; start the processes in the order of the cluster.",
      cluster.task().ToString(), cluster.process(), transport->domain());
  transport->Abort(status);
  return status;
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectByGloo(const Cluster& cluster,
                                                         const ConnectOptions& options) {
  return MakeGloo(
      cluster, {.deadline = options.deadline, .meeting = options.meeting, .generation = options.generation});
}

}  // namespace

std::string_view NameOf(Engine engine) {
  switch (engine) {
    case Engine::kAuto: return "auto";
    case Engine::kMpi: return "mpi";
    case Engine::kGloo: return "gloo";
  }
  return "";
}

Engine AutoEngine(const Cluster& cluster) {
  const bool is_launched =
      cluster.source() == Cluster::Source::kMpi || cluster.source() == Cluster::Source::kSlurm;
  return is_launched ? Engine::kMpi : Engine::kGloo;
}

absl::StatusOr<std::unique_ptr<Transport>> Connect(const Cluster& cluster, const ConnectOptions& options) {
  if (cluster.process() < 0)
    return absl::FailedPreconditionError(
        fmt::format("Connect: {} holds no devices of the mesh; only the chief and the workers exchange data.",
                    cluster.task().ToString()));
  if (cluster.num_processes() == 1) return nullptr;
  const Engine engine = options.engine == Engine::kAuto ? AutoEngine(cluster) : options.engine;
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, engine == Engine::kMpi
                                                                      ? ConnectByMpi(cluster, options)
                                                                      : ConnectByGloo(cluster, options));
  MESHWORK_RETURN_IF_ERROR(Agree(*transport, "meshwork", std::string(MESHWORK_VERSION)));
  return transport;
}

}  // namespace meshwork
