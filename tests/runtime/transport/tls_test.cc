// The rendezvous over TLS: who may join, and what an eavesdropper on the network can read.
#include "meshwork/runtime/transport/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "support/clusters.h"
#include "support/environment.h"
#include "support/tls_files.h"

namespace meshwork::tls_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2), kImpatient{200};
constexpr char kToken[] = "the token of the job";

class RendezvousTlsTest : public TlsTest {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  }
  static std::unique_ptr<RendezvousServer> Start(const TlsFiles& files,
                                                 const std::string& address = "127.0.0.1:0") {
    return RendezvousServer::Start(address, kToken, /*insecure=*/false, files).value();
  }
  static std::string AddressOf(const RendezvousServer& server, const char* host = "127.0.0.1") {
    return fmt::format("{}:{}", host, server.port());
  }
};

TEST(TlsFilesTest, AreThoseOfTheEnvironment) {
  EXPECT_FALSE(TlsFilesOf(EnvironmentOf({{"MESHWORK_TOKEN", "secret"}})).any());
  const TlsFiles files = TlsFilesOf(EnvironmentOf({{"MESHWORK_TLS_CERTIFICATE", "a"},
                                                   {"MESHWORK_TLS_KEY", "b"},
                                                   {"MESHWORK_TLS_AUTHORITIES", "c"},
                                                   {"MESHWORK_TLS_CLIENT_AUTHORITIES", "d"}}));
  EXPECT_THAT(std::vector({files.certificate, files.key, files.authorities, files.client_authorities}),
              ElementsAre("a", "b", "c", "d"));
  for (const char* name : {"CERTIFICATE", "KEY", "AUTHORITIES", "CLIENT_AUTHORITIES"})
    EXPECT_TRUE(TlsFilesOf(EnvironmentOf({{fmt::format("MESHWORK_TLS_{}", name), "file"}})).any()) << name;
}

TEST_F(RendezvousTlsTest, WhoTrustsTheServerMeets) {
  const auto server = Start(Server());
  for (const char* host : {"127.0.0.1", "localhost"}) {
    for (const TlsFiles& files : {Client(), ClientOf(kTestCertificate)}) {
      const auto client = Rendezvous::Connect(AddressOf(*server, host), kToken, kPatient, files);
      ASSERT_TRUE(client.ok()) << client.status();
      ASSERT_EQ((*client)->Set("key", host, kPatient), absl::OkStatus());
      EXPECT_EQ((*client)->Get("key", kPatient).value(), host);
    }
  }
}

TEST_F(RendezvousTlsTest, ACertificateMayBeItsOwnAuthority) {
  TlsFiles files = ServerOf(kOwnAuthority);
  files.authorities = files.client_authorities = files.certificate;
  const auto server = Start(files);
  EXPECT_EQ(Rendezvous::Connect(AddressOf(*server), kToken, kPatient, files).status(), absl::OkStatus());
  EXPECT_FALSE(Rendezvous::Connect(AddressOf(*server), kToken, kImpatient, Client()).ok());
}

TEST_F(RendezvousTlsTest, AClientThatIsAskedShowsItsCertificate) {
  const auto server = Start(StrictServer());
  const auto connect = [&](const TlsFiles& files, std::chrono::milliseconds deadline) {
    return Rendezvous::Connect(AddressOf(*server), kToken, deadline, files).status();
  };
  EXPECT_EQ(connect(ClientOf(kTestCertificate), kPatient), absl::OkStatus());
  EXPECT_EQ(connect(ClientOf(kOtherCertificate), kImpatient).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(connect(Client(), kImpatient).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(connect({}, kImpatient).code(), absl::StatusCode::kUnavailable);
}

TEST_F(RendezvousTlsTest, TheTokenIsNeededAllTheSame) {
  const TlsFiles client = ClientOf(kTestCertificate);
  for (const TlsFiles& files : {Server(), StrictServer()}) {
    const auto server = Start(files);
    for (const char* token : {"", "the token of the jo", "the token of the job "})
      EXPECT_EQ(Rendezvous::Connect(AddressOf(*server), token, kPatient, client).status().code(),
                absl::StatusCode::kPermissionDenied)
          << token;
    EXPECT_EQ(RendezvousServer::Start("0.0.0.0:0", "", /*insecure=*/false, files).status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(RendezvousServer::Start("0.0.0.0:0", "", /*insecure=*/true, files).status(), absl::OkStatus());
  }
}

TEST_F(RendezvousTlsTest, AServerMayBeStartedAgain) {
  auto server = Start(Server());
  const std::string address = AddressOf(*server);
  const auto client = Rendezvous::Connect(address, kToken, kPatient, Client()).value();
  server.reset();
  std::string seen;
  std::thread waiting([&] { seen = client->Get("key", kPatient).value(); });
  server = Start(Server(), address);
  const auto other = Rendezvous::Connect(address, kToken, kPatient, Client()).value();
  EXPECT_EQ(other->Set("key", "value", kPatient), absl::OkStatus());
  waiting.join();
  EXPECT_EQ(seen, "value");
}

// Forwards the bytes between one client and a server, and keeps them.
class Eavesdropper {
 public:
  explicit Eavesdropper(int server_port) : port_(FreePort()), listening_(socket(AF_INET, SOCK_STREAM, 0)) {
    const sockaddr_in own = Loopback(port_);
    MESHWORK_CHECK(bind(listening_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0 &&
                   listen(listening_, 1) == 0);
    thread_ = std::thread([this, server_port] { Listen(server_port); });
  }
  int port() const { return port_; }
  // REQUIRES: the client has disconnected.
  std::string Heard() {
    thread_.join();
    return heard_;
  }

 private:
  static sockaddr_in Loopback(int port) {
    return {.sin_family = AF_INET,
            .sin_port = htons(static_cast<uint16_t>(port)),
            .sin_addr = {htonl(INADDR_LOOPBACK)}};
  }
  void Listen(int server_port) {
    const int client = accept(listening_, nullptr, nullptr), server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in there = Loopback(server_port);
    MESHWORK_CHECK(connect(server, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) == 0);
    pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    for (bool open = true; open;) {
      poll(ends, 2, -1);
      for (int from = 0; from < 2; ++from)
        if (ends[from].revents != 0) open = PassOn(ends[from].fd, ends[1 - from].fd) && open;
    }
    for (int fd : {client, server, listening_}) close(fd);
  }
  bool PassOn(int from, int to) {
    char bytes[4096];
    const ssize_t count = recv(from, bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    heard_.append(bytes, static_cast<size_t>(count));
    return send(to, bytes, static_cast<size_t>(count), MSG_NOSIGNAL) == count;
  }

  const int port_, listening_;
  std::string heard_;
  std::thread thread_;
};

TEST_F(RendezvousTlsTest, WhoReadsTheNetworkReadsNothingOfIt) {
  const auto heard = [&](const TlsFiles& server_files, const TlsFiles& client_files) {
    const auto server = Start(server_files);
    Eavesdropper between(server->port());
    auto client =
        Rendezvous::Connect(fmt::format("127.0.0.1:{}", between.port()), kToken, kPatient, client_files)
            .value();
    EXPECT_EQ(client->Set("address of worker 1", "10.0.0.7:38211", kPatient), absl::OkStatus());
    client.reset();
    return between.Heard();
  };
  const std::string plain = heard({}, {}), encrypted = heard(Server(), Client());
  for (const char* secret : {kToken, "address of worker 1", "10.0.0.7:38211"}) {
    EXPECT_THAT(plain, HasSubstr(secret));
    EXPECT_THAT(encrypted, Not(HasSubstr(secret)));
  }
  EXPECT_GT(encrypted.size(), 500u);
}

// Process 0 serves the rendezvous.
TEST_F(RendezvousTlsTest, ThreeProcessesJoin) {
  constexpr int64_t kProcesses = 3;
  const int port = FreePort();
  const TlsFiles first = StrictServer(), shown = ClientOf(kTestCertificate);
  std::vector<std::vector<std::string>> said(kProcesses);
  std::vector<absl::Status> statuses(kProcesses);
  const auto join = [&](int64_t process) -> absl::Status {
    GlooOptions options{.deadline = kPatient, .meeting = {.token = kToken, .tls = shown}};
    if (process == 0) {
      options.meeting.tls = first;
      options.meeting.tls.authorities = authorities_;
    }
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Transport> end,
                              MakeGloo(LocalCluster(kProcesses, process, port), options));
    MESHWORK_ASSIGN_OR_RETURN(said[process], end->AllGather("names", fmt::format("process {}", process)));
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int64_t process = 0; process < kProcesses; ++process)
    threads.emplace_back([&, process] { statuses[process] = join(process); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_THAT(said, Each(ElementsAre("process 0", "process 1", "process 2")));
  const std::string address = fmt::format("127.0.0.1:{}", port);
  EXPECT_FALSE(Rendezvous::Connect(address, kToken, kImpatient).ok());
  EXPECT_EQ(Rendezvous::Connect(address, kToken, kPatient, shown).status(), absl::OkStatus());
}

}  // namespace
}  // namespace meshwork::tls_test
