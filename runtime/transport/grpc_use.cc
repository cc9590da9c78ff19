#include "meshwork/runtime/transport/grpc_use.h"

#include <cstddef>
#include <string>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/grpcpp.h>
#endif

namespace meshwork {

absl::Status NoGrpc(std::string_view what) {
  return absl::UnimplementedError(fmt::format(
      "{}: this build of meshwork has none; install gRPC and Gloo (libgrpc++-dev and libgloo-dev on Debian) "
      "and build again.",
      what));
}

absl::Status CheckMayUseGrpc() {
  static const ForkMark first_use;
  return first_use.Check("gRPC");
}

bool IsSameToken(std::string_view given, std::string_view token) {
  if (token.empty()) return given.empty();
  unsigned char differ = given.size() == token.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    differ |= static_cast<unsigned char>(given[i] ^ token[i % token.size()]);
  return differ == 0;
}

absl::Status CheckMayListen(const SocketAddress& address, std::string_view text, std::string_view token,
                            bool insecure) {
  if (insecure || !token.empty() || IsLoopback(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "other hosts reach {}, and there is no token: whoever reaches it could take part in the job. Set MESHWORK_TOKEN to "
      "one secret text in all processes of the job; where everybody may, the option `insecure` says so (--insecure of "
      "programs that have this flag).",
      text));
}

#ifdef MESHWORK_HAVE_GLOO

std::shared_ptr<grpc::Channel> OpenGrpcChannel(const SocketAddress& address,
                                               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                               grpc::ChannelArguments& arguments, const GrpcPings& pings) {
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, pings.ask_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, pings.answer_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const bool is_v6 = address.ip.find(':') != std::string::npos;
  return grpc::CreateCustomChannel((is_v6 ? "ipv6:" : "ipv4:") + address.ToString(), credentials, arguments);
}

void SetGrpcServerArguments(grpc::ServerBuilder& builder, const GrpcPings& pings) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, pings.ask_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, pings.answer_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

#endif

}  // namespace meshwork
