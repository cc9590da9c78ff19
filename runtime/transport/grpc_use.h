// Functions for everything that uses gRPC. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/transport/address.h"
#include "meshwork/runtime/transport/tls.h"

namespace grpc {
class Channel;
class ChannelArguments;
class ChannelCredentials;
class ServerBuilder;
class ServerCredentials;
}  // namespace grpc

namespace meshwork {

// The error of a build without gRPC. `what`: the class that is missing, "Rendezvous".
absl::Status NoGrpc(std::string_view what);

// gRPC can be used by one process, but not by its children as well. Error: this process is a child of one that has
// called this.
absl::Status CheckMayUseGrpc();

// Whether a caller has the job's token. The time that it takes depends only on the size of `given`, so it reveals
// neither which byte differs nor how long the token is.
bool IsSameToken(std::string_view given, std::string_view token);

// Checks whether a server may listen at `address`: without a token only on loopback, unless `insecure`. `text`: the
// address as the user knows it. Error: other hosts reach it, and there is no token.
absl::Status CheckMayListen(const SocketAddress& address, std::string_view text, std::string_view token,
                            bool insecure);

// How often one side asks whether the other one is there, and how long it waits for an answer. When a network has been
// cut, dead connections remain, and TCP would try them for minutes after the network is back.
struct GrpcPings {
  int ask_ms = 5000, answer_ms = 5000;
};

// Plain text if `files` names nothing, else TLS. Errors: those of ReadServerPem and of ReadClientPem.
// REQUIRES: this build has gRPC.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> GrpcServerCredentials(const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> GrpcClientCredentials(const TlsFiles& files);

// A channel to `address`, which shares its connection with no other channel and goes through no proxy. A server that is
// away is tried every 500 ms. It asks whether the server is there while a call or a stream runs. `name`: host:port as
// the user knows it; a server's certificate must name that host. `arguments`: what it needs besides. REQUIRES: this
// build has gRPC.
std::shared_ptr<grpc::Channel> OpenGrpcChannel(const std::string& name, const SocketAddress& address,
                                               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                               grpc::ChannelArguments& arguments,
                                               const GrpcPings& pings = {});

// Sets arguments by which the server shares its port with no other process, asks whether its clients are there, and
// lets them ask. REQUIRES: this build has gRPC.
void SetGrpcServerArguments(grpc::ServerBuilder& builder, const GrpcPings& pings = {});

// Why a call was lost, and what to do: a sentence without its full stop. `message`: that of gRPC's status UNAVAILABLE.
std::string WhyGrpcLost(std::string_view message);

}  // namespace meshwork
