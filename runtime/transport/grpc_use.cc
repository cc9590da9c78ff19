#include "meshwork/runtime/transport/grpc_use.h"

#include <cctype>
#include <cstddef>
#include <string>
#include <utility>

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

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> GrpcServerCredentials(const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureServerCredentials();
  MESHWORK_ASSIGN_OR_RETURN(ServerPem pem, ReadServerPem(files));
  grpc::SslServerCredentialsOptions options(pem.client_authorities.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({std::move(pem.key), std::move(pem.certificate)});
  options.pem_root_certs = std::move(pem.client_authorities);
  return grpc::SslServerCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> GrpcClientCredentials(const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureChannelCredentials();
  MESHWORK_ASSIGN_OR_RETURN(ClientPem pem, ReadClientPem(files));
  return grpc::SslCredentials({.pem_root_certs = std::move(pem.authorities),
                               .pem_private_key = std::move(pem.key),
                               .pem_cert_chain = std::move(pem.certificate)});
}

std::shared_ptr<grpc::Channel> OpenGrpcChannel(const std::string& name, const SocketAddress& address,
                                               const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                               grpc::ChannelArguments& arguments, const GrpcPings& pings) {
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, name);
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

std::string WhyGrpcLost(std::string_view message) {
  // The libraries that gRPC may be built with spell the same reasons differently: CERTIFICATE_VERIFY_FAILED.
  std::string text(message);
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto says = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  if (text == "ends") return "the server has ended; start it again";
  if (says("certificate verify failed"))
    return "its certificate is not trusted: no authority that this process trusts has signed it, or it is not valid at this "
           "time; give the client the authority that signed it (MESHWORK_TLS_AUTHORITIES), and the server a valid one";
  if (says("is not in peer certificate"))
    return "its certificate does not name this host; call the server by a name that is in it, or give the server one that "
           "names the host";
  if (says("wrong version number"))
    return "it speaks no TLS, and this process does; let both speak TLS (MESHWORK_TLS_CERTIFICATE and MESHWORK_TLS_KEY "
           "of the server), or neither";
  if (says("handshake"))
    return "the two do not agree on TLS; give the server a certificate that names its host, and the client the "
           "authority that signed it";
  if (says("connection refused")) return "nobody listens there; check the address, and that the server runs";
  return "the connection broke off; check that the server runs, that both sides speak TLS or neither does, and that this "
         "process shows a certificate that the server trusts, if it asks for one";
}

}  // namespace meshwork
