// Clusters of this host, for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <string>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/cluster.h"

namespace meshwork {

// A port of 127.0.0.1 on which nobody listens; each call returns another port.
inline int FreePort() {
  static auto* const given = new std::set<int>;
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  MESHWORK_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                 getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  const int port = ntohs(address.sin_port);
  return given->insert(port).second ? port : FreePort();
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
