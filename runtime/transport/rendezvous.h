// Rendezvous: a key-value service over gRPC, by which the processes of a job find each other.
//
//   auto server = RendezvousServer::Start("0.0.0.0:4444", token);         // in one process, or meshwork rendezvous
//   auto rendezvous = Rendezvous::Connect("host-a:4444", token, 30s);     // in each
//   (*rendezvous)->Set("address of worker 1", "10.0.0.7:38211", 30s);
//   (*rendezvous)->Get("address of worker 0", 30s);                       // waits until it is set
//
// Every request carries the job's token; one with another token is refused. With TlsFiles (tls.h) server and clients
// speak TLS. Without TLS, requests go over the network as they are. The token then only keeps apart jobs that meet by
// mistake, because anyone who reads the network has it.
//
// The server keeps everything in memory until it ends: at most 256 MiB, and at most 4096 requests whose token it has
// not read yet; while there are so many, further requests get the answer of a server that is away. Both classes may be
// used by several threads. In the child of a fork, if one of them was made before the fork, all functions here fail.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/transport/tls.h"

namespace meshwork {

class RendezvousServer {
 public:
  // The calls that a client may make, by their names for gRPC.
  static std::vector<std::string> Calls();
  // Listens at host:port; port 0 chooses a free one. `insecure`: an address that other hosts reach needs no token.
  // `tls`: if it names anything, only clients that speak TLS are served. Errors: this build has no gRPC; the address is
  // wrong, not one of this host, or taken; it needs a token; those of ReadServerPem.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(const std::string& address,
                                                                 const std::string& token,
                                                                 bool insecure = false,
                                                                 const TlsFiles& tls = {});
  // Clients that wait are told that the server ends.
  virtual ~RendezvousServer() = default;

  virtual int port() const = 0;
};

// A client. Errors of all calls: UNAVAILABLE, the server does not answer, or the two do not agree on TLS;
// PERMISSION_DENIED, it serves a job with another token.
class Rendezvous {
 public:
  static constexpr int64_t kMaxKeyBytes = 512, kMaxValueBytes = int64_t{1} << 20;

  // Waits until the server is there, at most for `deadline`. `tls`: if it names anything, the client speaks TLS.
  // Errors: this build has no gRPC; the address is wrong; those of ReadClientPem.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Connect(const std::string& address,
                                                             const std::string& token,
                                                             std::chrono::milliseconds deadline,
                                                             const TlsFiles& tls = {});
  virtual ~Rendezvous() = default;

  // REQUIRES, here and below: keys of at most kMaxKeyBytes, values of at most kMaxValueBytes.
  virtual absl::Status Set(const std::string& key, const std::string& value,
                           std::chrono::milliseconds deadline) = 0;

  // Sets the value unless the key has one. Returns the key's value.
  virtual absl::StatusOr<std::string> SetFirst(const std::string& key, const std::string& value,
                                               std::chrono::milliseconds deadline) = 0;

  // Waits until the key has a value. A server that goes away may come back meanwhile. Errors: nobody has set the
  // key within the deadline (DEADLINE_EXCEEDED).
  virtual absl::StatusOr<std::string> Get(const std::string& key, std::chrono::milliseconds deadline) = 0;

  // The key's value, if it has one now; else NOT_FOUND.
  virtual absl::StatusOr<std::string> Find(const std::string& key, std::chrono::milliseconds deadline) = 0;

  // Calls `told` once, on another thread, when the key has a value or the server goes away.
  class Watch {
   public:
    // Afterwards `told` is not called any more. Not to be called by `told`.
    virtual ~Watch() = default;
  };
  virtual std::unique_ptr<Watch> WatchKey(const std::string& key,
                                          std::function<void(absl::StatusOr<std::string>)> told) = 0;
};

}  // namespace meshwork
