// Clusters of this host, for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "fmt/format.h"
#include "meshwork/mesh/cluster.h"

namespace meshwork {

// A port of 127.0.0.1 on which nobody listens; each call returns another port. It lies below those that Linux gives to
// connections (32768 and more), so that none of these takes it while a server that a test has killed is away.
inline int FreePort() {
  constexpr int kFirst = 10'000, kCount = 22'000, kBetweenProcesses = 61;
  static int given = 0;
  while (true) {
    const int port = kFirst + (getpid() * kBetweenProcesses + given++) % kCount;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (is_free) return port;
  }
}

// TF_CONFIG of worker `index` among `num_workers` at 127.0.0.1: worker 0 at `port`, others at ports 1, 2, ….
inline std::string LocalTfConfig(int64_t num_workers, int64_t index, int port) {
  std::string workers = fmt::format("\"127.0.0.1:{}\"", port);
  for (int64_t i = 1; i < num_workers; ++i) workers += fmt::format(", \"127.0.0.1:{}\"", i);
  return fmt::format(R"({{"cluster": {{"worker": [{}]}}, "task": {{"type": "worker", "index": {}}}}})",
                     workers, index);
}

inline Cluster LocalCluster(int64_t num_workers, int64_t index, int port) {
  return Cluster::FromTfConfig(LocalTfConfig(num_workers, index, port)).value();
}

}  // namespace meshwork
