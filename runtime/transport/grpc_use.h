// What all that use gRPC have in common. Thread-safe.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/transport/address.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ChannelCredentials;
class ServerBuilder;
}  // namespace grpc

namespace meshwork {

// Of a build without gRPC: there is no `what`, "Rendezvous".
absl::Status NoGrpc(std::string_view what);

// gRPC can be used by one process, and no child of it. Error: this process is a child of one that has called this.
absl::Status CheckMayUseGrpc();

// Whether a caller has the job's token. The time that it takes depends on the size of `given` alone: it says neither which
// byte differs nor how long the token is.
bool IsSameToken(std::string_view given, std::string_view token);

// Where a server may listen: without a token on loopback alone, unless `insecure`. `text`: the address as the user knows it.
// Error: other hosts reach it, and there is no token.
absl::Status CheckMayListen(const SocketAddress& address, std::string_view text, std::string_view token,
                            bool insecure);

// How often one side asks whether the other one is there, and how long it waits for an answer. A network that was cut leaves
// connections behind that are dead, and TCP would try them for minutes after it is healed.
struct GrpcPings {
  int ask_ms = 5000, answer_ms = 5000;
};

// A channel to `address`, which shares its connection with no other channel and goes through no proxy. A server that is away
// is tried every 500 ms. It asks whether the server is there while a call or a stream runs. `arguments`: what it needs besides.
// REQUIRES: this build has gRPC.
std::shared_ptr<grpc::Channel> OpenGrpcChannel(const SocketAddress& address,
                                               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                               grpc::ChannelArguments& arguments,
                                               const GrpcPings& pings = {});

// Such that the server shares its port with no other process, asks whether its clients are there, and lets them ask.
// REQUIRES: this build has gRPC.
void SetGrpcServerArguments(grpc::ServerBuilder& builder, const GrpcPings& pings = {});

}  // namespace meshwork
