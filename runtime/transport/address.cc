#include "meshwork/runtime/transport/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList Lookup(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) found = nullptr;
  return AddressList(found, freeaddrinfo);
}

AddressList Lookup(const SocketAddress& address) {
  AddressList found = Lookup(address.ip, address.port, AI_NUMERICHOST);
  MESHWORK_CHECK(found != nullptr, "{}", address.ip);
  return found;
}

std::string IpOf(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

// Closed when destroyed.
class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status SystemError(std::string_view text, int error) {
  return absl::UnavailableError(fmt::format("{}: {}.", text, std::strerror(error)));
}

}  // namespace

std::string SocketAddress::ToString() const {
  if (ip.find(':') != std::string::npos) return fmt::format("[{}]:{}", ip, port);
  return fmt::format("{}:{}", ip, port);
}

absl::StatusOr<SocketAddress> Resolve(std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535 ||
      host.empty() || host.find_first_of(in_brackets ? "[]" : ":[]") != std::string_view::npos)
    return InvalidArgument("the address \"{}\" is not host:port, as \"host-a:4444\" or \"[::1]:4444\".",
                           text);
  const AddressList found = Lookup(std::string(host), port, 0);
  const addrinfo* best = found.get();
  for (const addrinfo* other = best; other != nullptr; other = other->ai_next) {
    if (other->ai_family != AF_INET) continue;
    best = other;
    break;
  }
  if (best == nullptr) return InvalidArgument("the host of {} has no address; check its name.", text);
  return SocketAddress{IpOf(best->ai_addr, best->ai_addrlen), port};
}

bool IsLoopback(const SocketAddress& address) {
  in_addr v4 = {};
  if (inet_pton(AF_INET, address.ip.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6 = {};
  if (inet_pton(AF_INET6, address.ip.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

absl::Status CanListen(const SocketAddress& address, std::string_view text) {
  const AddressList found = Lookup(address);
  const Socket tried(found->ai_family, SOCK_STREAM);
  const int on = 1;
  if (tried.fd() >= 0 && setsockopt(tried.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(tried.fd(), found->ai_addr, found->ai_addrlen) == 0 && listen(tried.fd(), 1) == 0)
    return absl::OkStatus();
  if (errno == EADDRINUSE)
    return absl::AlreadyExistsError(fmt::format(
        "the address {} is taken; end the process that listens there, or choose another port.", text));
  if (errno == EADDRNOTAVAIL) return InvalidArgument("the address {} is not one of this host.", text);
  return SystemError(text, errno);
}

absl::StatusOr<std::string> LocalIpTowards(const SocketAddress& address) {
  // No packet is sent.
  const AddressList found = Lookup(address);
  const Socket tried(found->ai_family, SOCK_DGRAM);
  sockaddr_storage local = {};
  socklen_t size = sizeof(local);
  if (tried.fd() < 0 || connect(tried.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(tried.fd(), reinterpret_cast<sockaddr*>(&local), &size) != 0)
    return SystemError(address.ToString(), errno);
  return IpOf(reinterpret_cast<const sockaddr*>(&local), size);
}

}  // namespace meshwork
