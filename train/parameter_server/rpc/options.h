// What servers and clients of a job have in common: its token, deadlines, the certificates of TLS.
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
  // Every call carries it, and a server refuses calls with another one. Without TLS it goes over the network as it is, and
  // keeps apart only jobs that meet by mistake.
  std::string token = {};
  // A server at an address that other hosts reach may listen without a token: whoever reaches it is obeyed.
  bool insecure = false;
  // How long a client waits for the answer of a call. A server that is away may come back meanwhile.
  std::chrono::milliseconds deadline = std::chrono::minutes(1);
  // What a server and a client are given. Nothing: they speak plain text.
  TlsFiles tls = {};
  // The largest message that is sent or taken. A message is one request or one answer, with all its tensors.
  int64_t max_message_bytes = int64_t{64} << 30;
  // So many streams of calls may be open at a server, >= 1: each keeps a thread and 1 to 2 MB besides its message. A client
  // opens one for each call that runs at a time.
  int64_t max_streams = 1024;
  // Of a client: Task::ToString() of this process, by which a server knows whether it is connected. Letters, digits and
  // spaces; else it is not sent.
  std::string task = {};
};

// The version of what servers and clients say to each other. Both must have the same.
inline constexpr int kRpcProtocol = 4;

}  // namespace meshwork
