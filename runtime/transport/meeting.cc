#include "meshwork/runtime/transport/meeting.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The rendezvous that this process serves, by address.
struct Servers {
  const ForkMark made;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<RendezvousServer>> by_address;
};
Servers& AllServers() {
  static auto* const servers = new Servers;
  return *servers;
}

absl::Status Serve(const std::string& address, const MeetingOptions& options) {
  Servers& servers = AllServers();
  MESHWORK_RETURN_IF_ERROR(servers.made.Check("Rendezvous"));
  const std::lock_guard lock(servers.mutex);
  if (servers.by_address.contains(address)) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<RendezvousServer> server,
                            RendezvousServer::Start(address, options.token, options.insecure, options.tls));
  if (servers.by_address.empty()) {
    std::atexit([] {
      if (!AllServers().made.is_here()) return;
      const std::lock_guard last(AllServers().mutex);
      AllServers().by_address.clear();
    });
  }
  servers.by_address[address] = std::move(server);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RendezvousOf(const Cluster& cluster, const std::string& told) {
  if (!told.empty()) return told;
  const std::string& address = cluster.AddressOf(cluster.TaskOf(0));
  if (!address.empty()) return address;
  return absl::FailedPreconditionError(
      "Gloo: the cluster does not say the address of process 0; give that of a rendezvous.");
}

absl::StatusOr<std::unique_ptr<Rendezvous>> MeetAt(const Cluster& cluster, const MeetingOptions& options,
                                                   std::chrono::milliseconds deadline) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string address, RendezvousOf(cluster, options.rendezvous));
  if (options.rendezvous.empty() && cluster.process() == 0) MESHWORK_RETURN_IF_ERROR(Serve(address, options));
  return Rendezvous::Connect(address, options.token, deadline, options.tls);
}

}  // namespace meshwork
