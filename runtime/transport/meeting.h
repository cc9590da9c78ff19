// Where the processes of a cluster meet: the rendezvous that they are told, or one that process 0 serves.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/transport/rendezvous.h"

namespace meshwork {

// How the processes of a job find each other.
struct MeetingOptions {
  // "host:port" of a rendezvous that runs, for this run of the job alone; "": process 0 serves it.
  std::string rendezvous = {};
  // The token of the job, the same in all processes.
  std::string token = {};
  // Process 0 may serve the rendezvous without a token at an address that other hosts reach.
  bool insecure = false;
  // TLS of the rendezvous. Process 0 needs a certificate and its key if it serves the rendezvous; all processes need
  // authorities. No files: plain text.
  TlsFiles tls = {};
};

// "host:port" of the rendezvous: `told`, or the address of process 0. Error: neither is known.
absl::StatusOr<std::string> RendezvousOf(const Cluster& cluster, const std::string& told);

// Connects with the rendezvous. Process 0 first starts to serve it, if no other one is named. It is then served as long
// as this process lives, because others may already be at the next transport. Errors, besides: those of
// RendezvousServer::Start and of Rendezvous::Connect.
absl::StatusOr<std::unique_ptr<Rendezvous>> MeetAt(const Cluster& cluster, const MeetingOptions& options,
                                                   std::chrono::milliseconds deadline);

}  // namespace meshwork
