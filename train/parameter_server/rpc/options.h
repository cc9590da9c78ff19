// Options that servers and clients of a job share: its token, deadlines, the certificates of TLS.
//
//   RpcOptions options{.token = token, .deadline = 30s};
//   options.tls = {.certificate = "server.pem", .key = "server.key", .authorities = "ca.pem"};
//
// A value; it may be shared between threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "meshwork/runtime/transport/tls.h"

namespace meshwork {

struct RpcOptions {
  // Every call carries it, and a server refuses calls with another one. Without TLS it goes over the network as it is,
  // and keeps apart only jobs that meet by mistake.
  std::string token = {};
  // Lets a server listen without a token at an address that other hosts reach. It obeys whoever reaches it.
  bool insecure = false;
  // How long a client waits for the answer of a call. A server that is away may come back meanwhile.
  std::chrono::milliseconds deadline = std::chrono::minutes(1);
  // The files of a server or of a client for TLS. Without files, it speaks plain text.
  TlsFiles tls = {};
  // The largest message that is sent or taken. A message is one request or one answer, with all its tensors.
  int64_t max_message_bytes = int64_t{64} << 30;
  // So many streams of calls may be open at a server, >= 1: each keeps a thread and 1 to 2 MB besides its message. A
  // client opens one for each call that runs at a time.
  int64_t max_streams = 1024;
  // For a client: Task::ToString() of this process. A server knows by it whether this process is connected. It is sent
  // only if it consists of letters, digits and spaces.
  std::string task = {};
};

// The version of the protocol between servers and clients. Both must have the same.
inline constexpr int kRpcProtocol = 4;

}  // namespace meshwork
