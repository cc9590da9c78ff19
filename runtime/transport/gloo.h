// Gloo: a transport between the processes of a cluster over TCP, one domain per process.
//
//   // TF_CONFIG={"cluster": {"worker": ["host-a:4444", "host-b:4444"]}, "task": {"type": "worker", "index": 1}}
//   MESHWORK_ASSIGN_OR_RETURN(const Cluster cluster, Cluster::FromEnvironment(ProcessEnvironment()));
//   MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> end, MakeGloo(cluster));
//   end->domain()        1, the number of this process in the cluster
//
// The processes find each other by a rendezvous (rendezvous.h): by default process 0 serves it at its own address of
// the cluster, until it ends. Other addresses of the cluster are only used for their host: data goes through ports that
// the system chooses, so the processes must reach each other at all ports.
//
// If the connection to a process breaks, an error names the process at once; if a process does not come within the
// deadline, an error names it then. Both abort all domains. The reason of an abort travels by the rendezvous, within
// milliseconds. If the rendezvous is gone, others only see that the connection of the aborted domain is closed.
//
// The rendezvous speaks TLS if MeetingOptions::tls names files; else the token goes over the network as it is. The data
// is never encrypted: use Gloo in a trusted network (docs/security.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/meeting.h"

namespace meshwork {

struct GlooOptions {
  // How long a domain waits for another one before it aborts the transport.
  std::chrono::milliseconds deadline = std::chrono::seconds(30);
  // How long the processes wait for each other when they make the transport; 0: `deadline`.
  std::chrono::milliseconds join_deadline = std::chrono::milliseconds(0);
  // The number of processes, from the first on, that have a domain; 0: all.
  int64_t num_domains = 0;
  MeetingOptions meeting = {};
  // The generation of the processes (membership.h), for jobs in which several transports use one rendezvous and new
  // processes join. The same in all processes.
  int64_t generation = 0;
};

// Whether this build has Gloo.
bool HasGloo();

// This process's end. All processes of the cluster must call it, in the same order. Errors: this build has no Gloo;
// this process holds no devices; there are fewer processes than `num_domains`; this process has no domain (NOT_FOUND);
// processes that do not come within the deadline; processes of another version, or with other options; two processes
// with one task; errors of the rendezvous, and what Gloo reports.
absl::StatusOr<std::unique_ptr<Transport>> MakeGloo(const Cluster& cluster, const GlooOptions& options = {});

}  // namespace meshwork
