#include "meshwork/runtime/transport/gloo.h"

#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_GLOO
#include <utility>

#include "meshwork/base/fork.h"
#include "meshwork/runtime/transport/gloo_link.h"
#include "meshwork/runtime/transport/messages.h"
#endif

namespace meshwork {

#ifndef MESHWORK_HAVE_GLOO

bool HasGloo() { return false; }

absl::StatusOr<std::unique_ptr<Transport>> MakeGloo(const Cluster&, const GlooOptions&) {
  return absl::UnimplementedError(
      "Gloo: this build of meshwork has none; install Gloo and gRPC (libgloo-dev and libgrpc++-dev on Debian) and "
      "build again.");
}

#else

bool HasGloo() { return true; }

absl::StatusOr<std::unique_ptr<Transport>> MakeGloo(const Cluster& cluster, const GlooOptions& options) {
  if (cluster.process() < 0)
    return absl::FailedPreconditionError(
        fmt::format("Gloo: {} holds no devices of the mesh; only the chief and the workers exchange data.",
                    cluster.task().ToString()));
  const int64_t size = cluster.num_processes();
  const int64_t domains = options.num_domains == 0 ? size : options.num_domains;
  if (domains < 1 || domains > size)
    return InvalidArgument("Gloo: {} among the {} processes of the cluster; start as many.",
                           Count(domains, "domain"), size);
  const std::shared_ptr<GlooLink> link(new GlooLink(cluster, options, domains), DeleteUnlessForked());
  MESHWORK_RETURN_IF_ERROR(link->Join());
  return MakeMessageTransport(link, {.bandwidth = 1e9, .latency = 256e-6}, options.deadline);
}

#endif

}  // namespace meshwork
