// The protocol of calls: how strangers are refused, and streams that several calls share.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/server.h"
#include "support/tls_files.h"

#ifdef MESHWORK_HAVE_GLOO
#include "support/raw_call.h"
#endif

namespace meshwork::protocol_test {
namespace {

using ::testing::HasSubstr;

class ProtocolTest : public TlsTest {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    files_ = ClientOf(kTestCertificate);
  }
  std::unique_ptr<RpcServer> Start(const TlsFiles& files) {
    return RpcServer::Start("Server", "127.0.0.1:0", {.token = "t", .tls = files}, Echo).value();
  }
  static absl::StatusOr<RpcMessage> Echo(const RpcMessage& request) {
    return RpcMessage{.fields = request.fields + "!"};
  }
  static absl::StatusOr<RpcMessage> Ask(const std::string& address, const TlsFiles& files) {
    const auto client = RpcClient::Create(
        "Server", address, {.token = "t", .deadline = std::chrono::milliseconds(300), .tls = files});
    return client.value()->Call({.call = "Ask", .fields = "hello"});
  }

  TlsFiles files_;
};

TEST_F(ProtocolTest, ServersAndClientsUnderstandEachOther) {
  const auto server = Start(files_);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const absl::StatusOr<RpcMessage> answer = Ask(fmt::format("{}:{}", host, server->port()), files_);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->fields, "hello!");
  }
}

TEST_F(ProtocolTest, AnotherAuthorityIsNotTrusted) {
  const auto server = Start(files_);
  const absl::Status status =
      Ask(fmt::format("127.0.0.1:{}", server->port()), {.authorities = File("other.pem", kOtherAuthority)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("its certificate is not trusted"));
}

TEST_F(ProtocolTest, BothNeedIt) {
  EXPECT_FALSE(Ask(fmt::format("127.0.0.1:{}", Start(files_)->port()), {}).ok());
  const auto plain = Start({});
  EXPECT_FALSE(Ask(fmt::format("127.0.0.1:{}", plain->port()), files_).ok());
}

TEST_F(ProtocolTest, AClientThatIsAskedShowsItsCertificate) {
  const auto server = Start(StrictServer());
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  EXPECT_EQ(Ask(address, files_).status(), absl::OkStatus());
  for (const TlsFiles& files : {Client(), ClientOf(kOtherCertificate)}) {
    const absl::Status status = Ask(address, files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("a certificate that the server trusts"));
  }
}

// A client keeps its streams between calls. A call that is made once takes no stream that has ended meanwhile.
TEST_F(ProtocolTest, AServerMayBeStartedAgainBetweenCalls) {
  auto server = Start({});
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  const auto client = RpcClient::Create("Server", address, {.token = "t"}).value();
  for (int life = 0; life < 3; ++life) {
    for (const char* asked : {"once", "twice", "three times"}) {
      const RpcClient::Attempt attempt = client->TryCall({.call = "Ask", .fields = asked}, std::nullopt);
      ASSERT_TRUE(attempt.answer.ok()) << attempt.answer.status() << " in life " << life;
      EXPECT_EQ(attempt.answer->fields, std::string(asked) + "!");
    }
    server.reset();
    server = RpcServer::Start("Server", address, {.token = "t"}, Echo).value();
    ASSERT_TRUE(client->WaitForConnection(std::chrono::seconds(30)));
  }
}

// Several calls at a time have a stream each.
TEST_F(ProtocolTest, CallsOfSeveralThreadsRunAtATime) {
  std::mutex mutex;
  std::condition_variable all_there;
  int there = 0;
  constexpr int kCallers = 8;
  const auto server =
      RpcServer::Start("Server", "127.0.0.1:0", {.token = "t"}, [&](const RpcMessage& request) {
        std::unique_lock lock(mutex);
        if (++there % kCallers == 0) all_there.notify_all();
        const int round = (there - 1) / kCallers;
        all_there.wait(lock, [&] { return there >= (round + 1) * kCallers; });
        return RpcMessage{.fields = request.fields};
      }).value();
  const auto client =
      RpcClient::Create("Server", fmt::format("127.0.0.1:{}", server->port()), {.token = "t"}).value();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> answers(kCallers);
    std::vector<std::thread> callers;
    for (int c = 0; c < kCallers; ++c)
      callers.emplace_back([&, c] {
        const auto answer = client->Call({.call = "Meet", .fields = std::to_string(c)});
        answers[static_cast<size_t>(c)] = answer.ok() ? answer->fields : answer.status().ToString();
      });
    for (std::thread& caller : callers) caller.join();
    for (int c = 0; c < kCallers; ++c) EXPECT_EQ(answers[static_cast<size_t>(c)], std::to_string(c));
  }
}

// A deadline ends a call and its stream, and the next call has another.
TEST_F(ProtocolTest, ACallThatTookTooLongDoesNotDisturbTheNext) {
  std::mutex mutex;
  std::condition_variable changed;
  bool may_answer = false;
  const auto server =
      RpcServer::Start("Server", "127.0.0.1:0", {.token = "t"}, [&](const RpcMessage& request) {
        std::unique_lock lock(mutex);
        if (request.call == "Wait") changed.wait(lock, [&] { return may_answer; });
        return RpcMessage{.fields = request.call};
      }).value();
  const auto client =
      RpcClient::Create("Server", fmt::format("127.0.0.1:{}", server->port()), {.token = "t"}).value();
  EXPECT_EQ(client->Call({.call = "First"})->fields, "First");
  const RpcClient::Attempt late = client->TryCall({.call = "Wait"}, std::chrono::milliseconds(50));
  EXPECT_EQ(late.answer.status().code(), absl::StatusCode::kDeadlineExceeded) << late.answer.status();
  EXPECT_TRUE(late.is_lost);
  const absl::StatusOr<RpcMessage> next = client->Call({.call = "Next"});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->fields, "Next");
  const std::lock_guard lock(mutex);
  may_answer = true;
  changed.notify_all();
}

#ifdef MESHWORK_HAVE_GLOO

// A call by a client with this protocol version; nullopt: no version.
grpc::Status Call(int port, const std::optional<std::string>& protocol, const std::string& bytes) {
  std::map<std::string, std::string> metadata = {{"meshwork-token-bin", "t"}};
  if (protocol.has_value()) metadata["meshwork-protocol"] = *protocol;
  return RawCall(fmt::format("127.0.0.1:{}", port), "/meshwork.Rpc/Call", bytes, metadata);
}

TEST_F(ProtocolTest, CallersOfAnotherVersionAndNoCallersAreRefused) {
  const auto server = Start({});
  const std::string no_message = "\xFF\xFF\xFF\xFF nonsense", empty(4, '\0');
  const std::string own = std::to_string(kRpcProtocol);
  EXPECT_TRUE(Call(server->port(), own, empty).ok());
  for (const std::optional<std::string>& protocol :
       {std::optional<std::string>("0"), {own + "0"}, {own + " "}, {}}) {
    const grpc::Status status = Call(server->port(), protocol, empty);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr(own + " of meshwork"));
  }
  EXPECT_EQ(Call(server->port(), own, no_message).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Call(server->port(), own, "\1").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Ask(fmt::format("127.0.0.1:{}", server->port()), {}).ok());  // the server still serves
}

#endif

}  // namespace
}  // namespace meshwork::protocol_test
