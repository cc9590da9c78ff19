// Who may call the servers of a job: every call of every server, without a token, with a wrong one and with the right
// one.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"

#ifdef MESHWORK_HAVE_GLOO
#include "support/raw_call.h"
#endif

namespace meshwork::access_test {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "a token";

// Counts the calls that reach it.
class WatchedStore : public ParameterStore {
 public:
  absl::StatusOr<Pulled> Pull(const PullRequest&) override { return ++calls, Pulled(); }
  absl::StatusOr<Pushed> Push(const PushRequest&) override { return ++calls, Pushed(); }
  absl::StatusOr<SequenceSet> TakenFrom(const std::string&) override { return ++calls, SequenceSet(); }
  absl::StatusOr<int64_t> Save() override { return ++calls, 0; }
  void Stop() override {}

  std::atomic<int> calls = 0;
};

class AccessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  }
  std::unique_ptr<StoreServer> ServeStore(const std::string& address, const RpcOptions& options) {
    return StoreServer::Start(store_, address, options).value();
  }
  static std::unique_ptr<WorkerServer> ServeClosures(const std::string& address, const RpcOptions& options) {
    return WorkerServer::Start({}, address, options).value();
  }

  const std::shared_ptr<WatchedStore> store_ = std::make_shared<WatchedStore>();
};

#ifdef MESHWORK_HAVE_GLOO

// The server's answer to `bytes`, the beginning of a stream, from a caller with these metadata.
grpc::Status Send(int port, const std::map<std::string, std::string>& metadata, const std::string& bytes) {
  return RawCall(fmt::format("127.0.0.1:{}", port), "/meshwork.Rpc/Call", bytes, metadata);
}

std::string BytesOfCall(const std::string& name) {
  std::string bytes;
  const std::vector<MessagePart> parts = PartsOf({.call = name}).value();
  for (const MessagePart& part : parts)
    bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
  return bytes;
}

// Calls a server without the right token, for each of `calls`: the error says no more than "token".
void ExpectStrangersAreRefused(int port, const std::vector<std::string>& calls, const std::string& token) {
  const std::string protocol = std::to_string(kRpcProtocol);
  std::vector<std::optional<std::string>> wrong = {std::nullopt, "",         "A token",
                                                   "a toke",     "a token ", "a tokena token"};
  if (token.empty()) wrong = {std::nullopt, "any"};
  for (const std::string& call : calls) {
    for (const std::optional<std::string>& said : wrong) {
      SCOPED_TRACE(fmt::format("{} with token {}", call, said.value_or("none")));
      std::map<std::string, std::string> metadata = {{"meshwork-protocol", protocol}};
      if (said.has_value()) metadata["meshwork-token-bin"] = *said;
      const grpc::Status status = Send(port, metadata, BytesOfCall(call));
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(status.error_message(), "token");
    }
  }
}

// A call that is added to a server is in its list, and so here.
TEST_F(AccessTest, EveryCallNeedsTheToken) {
  const auto store = ServeStore("127.0.0.1:0", {.token = kToken});
  const auto worker = ServeClosures("127.0.0.1:0", {.token = kToken});
  EXPECT_THAT(StoreServer::Calls(),
              testing::IsSupersetOf({"Hello", "Pull", "Push", "Save", "Shutdown", "TakenFrom"}));
  EXPECT_THAT(WorkerServer::Calls(), testing::IsSupersetOf({"Ping", "Run", "Shutdown"}));
  ExpectStrangersAreRefused(store->port(), StoreServer::Calls(), kToken);
  ExpectStrangersAreRefused(worker->port(), WorkerServer::Calls(), kToken);
  EXPECT_EQ(store_->calls, 0);
  EXPECT_FALSE(store->WaitForShutdown(std::chrono::milliseconds(0)));
  EXPECT_FALSE(worker->WaitForShutdown(std::chrono::milliseconds(0)));

  for (const auto& [port, calls] :
       {std::pair(store->port(), StoreServer::Calls()), std::pair(worker->port(), WorkerServer::Calls())}) {
    const auto client =
        RpcClient::Create("Server", fmt::format("127.0.0.1:{}", port), {.token = kToken}).value();
    for (const std::string& call : calls) {
      RpcMessage request{.call = call};
      AddJob(JobOf({}), request);
      const absl::Status status = client->Call(request).status();
      EXPECT_NE(status.code(), absl::StatusCode::kUnauthenticated) << call << ": " << status;
      EXPECT_NE(status.code(), absl::StatusCode::kUnimplemented) << call << ": " << status;
    }
  }
  EXPECT_GE(store_->calls, 3);
  EXPECT_TRUE(store->WaitForShutdown(std::chrono::milliseconds(0)));
  EXPECT_TRUE(worker->WaitForShutdown(std::chrono::milliseconds(0)));
}

// On loopback a job needs no token. Then it has none: a caller with any token belongs to another job.
TEST_F(AccessTest, AServerWithoutATokenRefusesOtherJobs) {
  const auto store = ServeStore("127.0.0.1:0", {});
  ExpectStrangersAreRefused(store->port(), StoreServer::Calls(), "");
  EXPECT_EQ(store_->calls, 0);
}

// The size of a single chunk is bounded, whoever sends it.
TEST_F(AccessTest, LargerChunksThanClientsSendAreRefused) {
  const auto store = ServeStore("127.0.0.1:0", {.token = kToken});
  const std::map<std::string, std::string> metadata = {{"meshwork-protocol", std::to_string(kRpcProtocol)},
                                                       {"meshwork-token-bin", kToken}};
  const std::string bytes = BytesOfCall("Hello");
  EXPECT_TRUE(Send(store->port(), metadata, bytes).ok());
  const grpc::Status status = Send(store->port(), metadata, bytes + std::string((size_t{1} << 20) + 1, '\0'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Send(store->port(), metadata, bytes).ok());
}

#endif

// Addresses that other hosts can reach need a token, or the option `insecure`.
TEST_F(AccessTest, OtherHostsNeedATokenUnlessItIsSaidOtherwise) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    EXPECT_EQ(StoreServer::Start(store_, address, {}).status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(WorkerServer::Start({}, address, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  for (const RpcOptions& options : {RpcOptions{.token = kToken}, RpcOptions{.insecure = true}}) {
    const auto store = ServeStore("0.0.0.0:0", options);
    const auto worker = ServeClosures("0.0.0.0:0", options);
    EXPECT_TRUE(ShutDownServer(fmt::format("127.0.0.1:{}", store->port()), options).ok());
    EXPECT_TRUE(ShutDownServer(fmt::format("127.0.0.1:{}", worker->port()), options).ok());
    EXPECT_TRUE(store->WaitForShutdown(std::chrono::milliseconds(0)));
    EXPECT_TRUE(worker->WaitForShutdown(std::chrono::milliseconds(0)));
  }
}

// Streams that clients keep for later calls count, too; those of clients that have gone do not.
TEST_F(AccessTest, StreamsThatAreOpenAreBounded) {
  constexpr int64_t kMost = 3;
  RpcOptions options{.token = kToken, .max_streams = kMost};
  const auto store = ServeStore("127.0.0.1:0", options);
  const std::string address = fmt::format("127.0.0.1:{}", store->port());
  std::vector<std::unique_ptr<RpcClient>> clients;
  for (int64_t i = 0; i < kMost; ++i) {
    clients.push_back(RpcClient::Create("Server", address, options).value());
    ASSERT_TRUE(clients.back()->Call({.call = "Hello"}).ok());
  }
  const auto more = RpcClient::Create("Server", address, options).value();
  const absl::Status refused = more->Call({.call = "Hello"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), HasSubstr("3 streams"));
  for (const auto& client : clients) EXPECT_TRUE(client->Call({.call = "Hello"}).ok());
  clients.pop_back();
  // The server hears of it a little later.
  while (!more->Call({.call = "Hello"}).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (const auto& client : clients) EXPECT_TRUE(client->Call({.call = "Hello"}).ok());
}

}  // namespace
}  // namespace meshwork::access_test
