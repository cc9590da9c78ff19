// What keeps others away: TLS, and the version of the protocol.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/parameter_server/rpc/client.h"
#include "meshwork/parameter_server/rpc/server.h"
#include "meshwork/runtime/transport/gloo.h"
#include "support/temp_dir.h"
#include "support/tls_files.h"

#ifdef MESHWORK_HAVE_GLOO
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#endif

namespace meshwork {
namespace {

using ::testing::HasSubstr;

class TlsTest : public TempDirTest {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    files_ = {.certificate = File("server.pem", kTestCertificate),
              .key = File("server.key", kTestKey),
              .authorities = File("ca.pem", kTestAuthority)};
  }
  std::unique_ptr<RpcServer> Start(const TlsFiles& files) {
    return RpcServer::Start(
               "Server", "127.0.0.1:0", {.token = "t", .tls = files},
               [](const RpcMessage& request) { return RpcMessage{.fields = request.fields + "!"}; })
        .value();
  }
  static absl::StatusOr<RpcMessage> Ask(const std::string& address, const TlsFiles& files) {
    const auto client = RpcClient::Create(
        "Server", address, {.token = "t", .deadline = std::chrono::milliseconds(300), .tls = files});
    return client.value()->Call({.call = "Ask", .fields = "hello"});
  }

  TlsFiles files_;
};

TEST_F(TlsTest, ServersAndClientsUnderstandEachOther) {
  const auto server = Start(files_);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const absl::StatusOr<RpcMessage> answer = Ask(fmt::format("{}:{}", host, server->port()), files_);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->fields, "hello!");
  }
}

TEST_F(TlsTest, AnotherAuthorityIsNotTrusted) {
  const auto server = Start(files_);
  const absl::Status status =
      Ask(fmt::format("127.0.0.1:{}", server->port()), {.authorities = File("other.pem", kOtherAuthority)})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(MessageOf(status)), HasSubstr("do not agree on TLS"));
}

TEST_F(TlsTest, BothNeedIt) {
  EXPECT_FALSE(Ask(fmt::format("127.0.0.1:{}", Start(files_)->port()), {}).ok());
  const auto plain = Start({});
  EXPECT_FALSE(Ask(fmt::format("127.0.0.1:{}", plain->port()), files_).ok());
}

#ifdef MESHWORK_HAVE_GLOO

// A caller of another version, or none at all.
grpc::Status Call(int port, const std::optional<std::string>& protocol, const std::string& bytes) {
  grpc::GenericStub stub(
      grpc::CreateChannel(fmt::format("ipv4:127.0.0.1:{}", port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  if (protocol.has_value()) context.AddMetadata("meshwork-protocol", *protocol);
  context.AddMetadata("meshwork-token-bin", "t");
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::ByteBuffer received;
  std::mutex mutex;
  std::condition_variable ended;
  std::optional<grpc::Status> result;
  stub.UnaryCall(&context, "/meshwork.Rpc/Call", grpc::StubOptions(), &sent, &received,
                 [&](const grpc::Status& status) {
                   const std::lock_guard lock(mutex);
                   result = status;
                   ended.notify_all();
                 });
  std::unique_lock lock(mutex);
  ended.wait(lock, [&] { return result.has_value(); });
  return *result;
}

TEST_F(TlsTest, CallersOfAnotherVersionAndNoCallersAreRefused) {
  const auto server = Start({});
  const std::string no_message = "\xFF\xFF\xFF\xFF nonsense", empty(4, '\0');
  EXPECT_TRUE(Call(server->port(), "1", empty).ok());
  for (const std::optional<std::string>& protocol : {std::optional<std::string>("0"), {"2"}, {"1 "}, {}}) {
    const grpc::Status status = Call(server->port(), protocol, empty);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr("1 of meshwork"));
  }
  EXPECT_EQ(Call(server->port(), "1", no_message).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Call(server->port(), "1", "\1").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Ask(fmt::format("127.0.0.1:{}", server->port()), {}).ok());  // it still serves
}

#endif

}  // namespace
}  // namespace meshwork
