// Useless files of TLS, and errors of the rendezvous if two processes do not agree on TLS.
#include "meshwork/runtime/transport/tls.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "meshwork/train/cluster/processes.h"
#include "support/clusters.h"
#include "support/environment.h"
#include "support/silent_host.h"
#include "support/tls_files.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#endif

namespace meshwork::tls_test {
namespace {

constexpr std::chrono::milliseconds kShortly{500};

class TlsErrors : public TlsTest {
 protected:
  // A client of this server.
  absl::Status Meet(const TlsFiles& server, const TlsFiles& client, const std::string& token = "a token") {
    const auto serving =
        RendezvousServer::Start("127.0.0.1:0", "a token", /*insecure=*/false, server).value();
    return Rendezvous::Connect(Seen(serving->port()), token, kShortly, client).status();
  }
  std::string Seen(int port) {
    hidden_.emplace_back(fmt::format(":{}", port), ":PORT");
    return fmt::format("127.0.0.1:{}", port);
  }
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    hidden_.emplace_back(dir(), "DIR");
    ExpectErrors(area, mistakes, hidden_);
  }

  std::vector<std::pair<std::string, std::string>> hidden_;
};

TEST_F(TlsErrors, Files) {
  const std::string large = File("large", std::string(size_t{5} << 20, 'x')), text = File("text", "no PEM");
  const auto with = [](TlsFiles files, std::string TlsFiles::*which, const std::string& path) {
    files.*which = path;
    return files;
  };
  const auto serve = [](const TlsFiles& files) { return ReadServerPem(files).status(); };
  const auto call = [](const TlsFiles& files) { return ReadClientPem(files).status(); };
  Expect("tls_files", {
                          MISTAKE(serve({.authorities = authorities_})),
                          MISTAKE(serve(with(Server(), &TlsFiles::key, ""))),
                          MISTAKE(serve(with(Server(), &TlsFiles::key, Path("none")))),
                          MISTAKE(serve(with(Server(), &TlsFiles::key, text))),
                          MISTAKE(serve(with(Server(), &TlsFiles::certificate, dir()))),
                          MISTAKE(serve(with(Server(), &TlsFiles::certificate, large))),
                          MISTAKE(serve(with(Server(), &TlsFiles::certificate, text))),
                          MISTAKE(serve(with(Server(), &TlsFiles::certificate, authorities_))),
                          MISTAKE(serve(with(Server(), &TlsFiles::client_authorities, text))),
                          MISTAKE(serve(ServerOf(kExpiredCertificate))),
                          MISTAKE(serve(ServerOf(kEarlyCertificate))),
                          MISTAKE(call(Server())),
                          MISTAKE(call({.client_authorities = authorities_})),
                          MISTAKE(call(with(Client(), &TlsFiles::key, key_))),
                          MISTAKE(call(with(Client(), &TlsFiles::authorities, Path("none")))),
                          MISTAKE(call(with(Client(), &TlsFiles::authorities, key_))),
                          MISTAKE(call(ClientOf(kExpiredCertificate))),
                      });
}

#ifdef MESHWORK_HAVE_GLOO

TEST_F(TlsErrors, Rendezvous) {
  const TlsFiles stranger{.authorities = File("other.pem", kOtherAuthority)};
  // A server whose certificate expired while it ran.
  const auto meet_expired = [&] {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({kTestKey, kExpiredCertificate});
    grpc::CallbackGenericService nothing;
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&nothing);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    const absl::Status status = Rendezvous::Connect(Seen(port), "a token", kShortly, Client()).status();
    server->Shutdown();
    return status;
  };
  const auto meet_silent = [&] {
    return AtSilentHost(
        [&](int port) { return Rendezvous::Connect(Seen(port), "a token", kShortly, Client()).status(); });
  };
  const auto join = [&](const TlsFiles& server, const TlsFiles& client) {
    const auto serving = RendezvousServer::Start("127.0.0.1:0", "", /*insecure=*/false, server).value();
    Seen(serving->port());
    return MakeGloo(LocalCluster(2, 1, serving->port()),
                    {.join_deadline = kShortly, .meeting = {.tls = client}})
        .status();
  };
  const Environment environment = EnvironmentOf(
      {{"TF_CONFIG", LocalTfConfig(2, 1, /*port=*/2)}, {"MESHWORK_TLS_AUTHORITIES", Path("none")}});
  Expect("tls_rendezvous",
         {
             MISTAKE(RendezvousServer::Start("127.0.0.1:0", "", false, ServerOf(kExpiredCertificate))),
             MISTAKE(Rendezvous::Connect("127.0.0.1:1", "", kShortly, Server())),
             MISTAKE(Meet(Server(), {})),
             MISTAKE(Meet({}, Client())),
             MISTAKE(Meet(Server(), stranger)),
             MISTAKE(Meet(ServerOf(kOtherCertificate), Client())),
             MISTAKE(Meet(ServerOf(kElsewhereCertificate), Client())),
             MISTAKE(meet_expired()),
             MISTAKE(meet_silent()),
             MISTAKE(Meet(StrictServer(), Client())),
             MISTAKE(Meet(StrictServer(), ClientOf(kOtherCertificate))),
             MISTAKE(Meet(StrictServer(), ClientOf(kTestCertificate), "another token")),
             MISTAKE(Processes::Join({}, environment)),
             MISTAKE(join(Server(), {})),
             MISTAKE(join({}, Client())),
             MISTAKE(join(Server(), stranger)),
         });
}

#endif

}  // namespace
}  // namespace meshwork::tls_test
