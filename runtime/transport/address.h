// Addresses of sockets, as a cluster names them: "host-a:4444", "[::1]:4444".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

struct SocketAddress {
  std::string ip;  // "127.0.0.1", "::1"
  int port = 0;

  std::string ToString() const;  // "127.0.0.1:4444", "[::1]:4444"
  bool operator==(const SocketAddress&) const = default;
};

// The address of a host and port. If a host has several addresses, the first one of IP version 4 if there is one.
// Errors: `text` is not host:port; the host has no address.
absl::StatusOr<SocketAddress> Resolve(std::string_view text);

// Whether only processes of this host can reach it: 127.0.0.0/8, in either version of IP, or ::1. Not 0.0.0.0, which is
// every address of the host.
bool IsLoopback(const SocketAddress& address);

// Whether this process could listen there. `text`: the address as the user knows it, for errors. Errors: another
// process listens there; it is not an address of this host; what the system says.
absl::Status CanListen(const SocketAddress& address, std::string_view text);

// The IP address of this host from which `address` is reached. Errors: what the system says.
absl::StatusOr<std::string> LocalIpTowards(const SocketAddress& address);

}  // namespace meshwork
