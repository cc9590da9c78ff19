// A host that accepts connections, and sends nothing.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace meshwork {

// call(port), with such a host at 127.0.0.1:port.
template <typename Call>
auto AtSilentHost(Call&& call) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  bind(listening, reinterpret_cast<sockaddr*>(&address), size);
  listen(listening, 1);
  getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
  auto result = std::forward<Call>(call)(static_cast<int>(ntohs(address.sin_port)));
  close(listening);
  return result;
}

}  // namespace meshwork
