// Where the processes of a cluster meet: the rendezvous that they are told, or one that process 0 serves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/transport/rendezvous.h"

namespace meshwork {

// Of the rendezvous, as GlooOptions has it.
struct MeetingOptions {
  std::string rendezvous;  // "host:port"; "": process 0 serves it
  std::string token;
  bool insecure = false;
  TlsFiles tls = {};
};

// "host:port" of the rendezvous: `told`, or the address of process 0. Error: neither is known.
absl::StatusOr<std::string> RendezvousOf(const Cluster& cluster, const std::string& told);

// Connects with it, and first serves it if this is process 0 and no other is named: then it is served as long as this
// process lives, as others may already be at the next transport. Errors, besides: those of RendezvousServer::Start and of
// Rendezvous::Connect.
absl::StatusOr<std::unique_ptr<Rendezvous>> MeetAt(const Cluster& cluster, const MeetingOptions& options,
                                                   std::chrono::milliseconds deadline);

}  // namespace meshwork
