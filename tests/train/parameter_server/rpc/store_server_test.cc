// A store on the other side of a connection.
#include "meshwork/train/parameter_server/rpc/store_server.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/runtime/transport/gloo.h"
#include "support/clusters.h"
#include "support/forks.h"
#include "support/memory_store.h"

namespace meshwork::store_server_test {
namespace {

const RpcOptions kOptions{.token = std::string("a token\0", 8), .deadline = std::chrono::minutes(1)};

class StoreServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    stored_->pieces["table"] = Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6});
    Start("127.0.0.1:0");
  }

  void Start(const std::string& address, const JobFacts& facts = {}) {
    store_ = std::make_shared<MemoryStore>(stored_);
    server_ = StoreServer::Start(store_, address, kOptions, facts).value();
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  std::unique_ptr<RemoteStore> Connect(const RpcOptions& options = kOptions) const {
    return RemoteStore::Connect(address_, options).value();
  }

  std::shared_ptr<StoredPieces> stored_ = std::make_shared<StoredPieces>();
  std::shared_ptr<MemoryStore> store_;
  std::unique_ptr<StoreServer> server_;
  std::string address_;
};

PushRequest PushOf(int64_t sequence, float gradient) {
  return {.pusher = "worker 0",
          .sequence = sequence,
          .gradients = {{{"table", Tensor::From<int64_t>({1}, {1})},
                         Tensor::From<float>({1, 2}, {gradient, gradient})}}};
}

TEST_F(StoreServerTest, PullsAndPushes) {
  const auto store = Connect();
  const Pushed pushed = store->Push(PushOf(1, 0.5f)).value();
  EXPECT_EQ(pushed.version, 1);
  EXPECT_TRUE(pushed.applied);
  EXPECT_FALSE(store->Push(PushOf(1, 0.5f)).value().applied);
  const Pulled pulled =
      store->Pull({.pieces = {{"table"}, {"table", Tensor::From<int64_t>({2}, {2, 1})}}}).value();
  EXPECT_EQ(pulled.version, 1);
  ASSERT_EQ(pulled.values.size(), 2u);
  EXPECT_TRUE(AllEqual(pulled.values[0], Tensor::From<float>({3, 2}, {1, 2, 2.5, 3.5, 5, 6})).ok());
  EXPECT_TRUE(AllEqual(pulled.values[1], Tensor::From<float>({2, 2}, {5, 6, 2.5, 3.5})).ok());
  EXPECT_EQ(store->Save().value(), 1);
}

TEST_F(StoreServerTest, WhatIsNeededNextComesBehindAPush) {
  const auto store = Connect();
  stored_->pieces["other"] = Tensor::From<float>({1, 1}, {7});
  for (int64_t i = 1; i <= 20; ++i) {
    PushRequest push = PushOf(i, 1.f);
    push.next = {"other", "table"};
    const Pushed pushed = store->Push(push).value();
    EXPECT_EQ(pushed.version, i);
    ASSERT_NE(pushed.next, nullptr);
    if (i % 3 == 0) continue;  // the next values need not be fetched
    const Pulled beside = store->Pull({.pieces = {{"other"}}}).value();
    EXPECT_EQ(beside.version, i);
    const absl::StatusOr<Pulled> next = pushed.next();
    ASSERT_EQ(next.status(), absl::OkStatus());
    EXPECT_EQ(next->version, i);
    ASSERT_EQ(next->values.size(), 2u);
    EXPECT_TRUE(AllEqual(next->values[0], stored_->pieces["other"]).ok());
    EXPECT_TRUE(AllEqual(next->values[1], stored_->pieces["table"]).ok());
  }
}

// A push that fails pulls nothing ahead, and a missing piece is an error. The calls that follow are answered.
TEST_F(StoreServerTest, WhatIsNeededNextMayFail) {
  const auto store = Connect();
  PushRequest push = PushOf(1, 1.f);
  push.next = {"tabel"};
  EXPECT_EQ(store->Push(push).value().next().status().code(), absl::StatusCode::kNotFound);
  push.gradients[0].at.piece = "tabel";
  push.sequence = 2;
  EXPECT_EQ(store->Push(push).status().code(), absl::StatusCode::kNotFound);
  push = PushOf(3, 1.f);
  push.next = {"table"};
  const Pushed pushed = store->Push(push).value();
  EXPECT_EQ(store->Pull({.pieces = {{"table"}}}).value().version, 2);
  store->Stop();
  EXPECT_FALSE(pushed.next().ok());
}

TEST_F(StoreServerTest, ErrorsOfTheStoreKeepTheirCode) {
  const auto store = Connect();
  const absl::Status status = store->Pull({.pieces = {{"tabel"}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), fmt::format("Parameter server {}: store: no piece \"tabel\".", address_));
  stored_->fails_saves = true;
  EXPECT_EQ(store->Save().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(StoreServerTest, LargeValuesTravelInChunks) {
  stored_->pieces["large"] = Tensor::Zeros({F32, {16 << 10, 1 << 10}});  // 64 MiB
  float next = 0;
  for (float& value : stored_->pieces["large"].mutable_values<float>())
    value = next = next > 1e6f ? 0 : next + 1;
  const auto store = Connect();
  const Pulled pulled = store->Pull({.pieces = {{"large"}}}).value();
  ASSERT_TRUE(AllEqual(pulled.values[0], stored_->pieces["large"]).ok());
  ASSERT_TRUE(store->Push({.pusher = "p", .sequence = 1, .gradients = {{{"large"}, pulled.values[0]}}}).ok());
  for (const float value : stored_->pieces["large"].values<float>()) ASSERT_EQ(value, 0);
}

TEST_F(StoreServerTest, ManyClientsAtOnce) {
  std::vector<std::thread> workers;
  for (int w = 0; w < 8; ++w)
    workers.emplace_back([&, w] {
      const auto store = Connect();
      for (int64_t i = 1; i <= 25; ++i) {
        PushRequest push = PushOf(i, 1.f);
        push.pusher = fmt::format("worker {}", w);
        EXPECT_TRUE(store->Push(push).ok());
        EXPECT_TRUE(store->Pull({.pieces = {{"table"}}}).ok());
      }
    });
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(stored_->version, 200);
  EXPECT_TRUE(AllEqual(stored_->pieces["table"], Tensor::From<float>({3, 2}, {1, 2, -197, -196, 5, 6})).ok());
}

// More wait than gRPC has threads, and others are served meanwhile.
TEST_F(StoreServerTest, CallsMayWaitForEachOther) {
  const auto store = Connect();
  store_->Hold(true);
  std::vector<std::thread> workers;
  for (int w = 0; w < 20; ++w)
    workers.emplace_back([&, w] {
      PushRequest push = PushOf(1, 1.f);
      push.pusher = fmt::format("worker {}", w);
      EXPECT_TRUE(store->Push(push).ok());
    });
  store_->AwaitPushes(20);
  EXPECT_EQ(store->Pull({.pieces = {{"table"}}}).value().version, 0);
  store_->Hold(false);
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(stored_->version, 20);
}

// The server ends while it applies the push. Another server starts at the same port with the kept state of the first.
TEST_F(StoreServerTest, AServerThatWasStartedAgainGetsAPushOnce) {
  const auto store = Connect();
  ASSERT_TRUE(store->Push(PushOf(1, 1.f)).value().applied);
  store_->Hold(true);
  absl::StatusOr<Pushed> pushed = Pushed();
  std::thread worker([&] { pushed = store->Push(PushOf(2, 1.f)); });
  store_->AwaitPushes(2);
  server_.reset();  // stops the store: the push was not applied
  Start(address_);
  worker.join();
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_TRUE(pushed->applied);
  EXPECT_EQ(stored_->version, 2);
  // The push was applied, but its answer is lost.
  server_.reset();
  std::thread later([&] { pushed = store->Push(PushOf(2, 1.f)); });
  Start(address_);
  later.join();
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_FALSE(pushed->applied);
  EXPECT_EQ(stored_->version, 2);
}

TEST_F(StoreServerTest, AServerThatWasStartedAgainForAnotherJobIsFoundByEachCall) {
  server_.reset();
  Start(address_, {{"program", "9f2c"}});
  const auto store = RemoteStore::Connect(address_, kOptions, {{"program", "9f2c"}}).value();
  ASSERT_TRUE(store->Push(PushOf(1, 1.f)).ok());
  server_.reset();
  Start(address_, {{"program", "8a1b"}});
  const std::string want = fmt::format(
      "Parameter server {}: it serves another job: \"program\" is \"8a1b\" there and \"9f2c\" here; start all processes of a "
      "job with the same program.",
      address_);
  for (const absl::Status& status :
       {store->Pull({.pieces = {{"table"}}}).status(), store->Push(PushOf(2, 1.f)).status(),
        store->TakenFrom("worker 0").status(), store->Save().status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(MessageOf(status), want);
  }
  EXPECT_EQ(stored_->version, 1);
  server_.reset();
  Start(address_, {{"program", "9f2c"}});
  EXPECT_TRUE(store->Push(PushOf(2, 1.f)).ok());
}

TEST_F(StoreServerTest, StopEndsTheCallsOfThisClient) {
  const auto store = Connect();
  store_->Hold(true);
  absl::Status status;
  std::thread worker([&] { status = store->Push(PushOf(1, 1.f)).status(); });
  store_->AwaitPushes(1);
  store->Stop();
  worker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  store_->Hold(false);
  EXPECT_TRUE(Connect()->Push(PushOf(2, 1.f)).ok());
}

TEST_F(StoreServerTest, AnotherTokenIsRefusedWhateverIsSent) {
  RpcOptions options = kOptions;
  options.token.back() = 'x';
  EXPECT_EQ(RemoteStore::Connect(address_, options).status().code(), absl::StatusCode::kUnauthenticated);
  const auto client = RpcClient::Create("Parameter server", address_, options).value();
  const RpcMessage large{.call = "Push", .tensors = {Tensor::Zeros({F32, {8 << 20}})}};
  EXPECT_EQ(client->Call(large).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(StoreServerTest, WaitsForAServerThatComesLater) {
  server_.reset();
  absl::Status status = absl::UnknownError("");
  std::thread worker([&] { status = RemoteStore::Connect(address_, kOptions).status(); });
  Start(address_);
  worker.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(StoreServerTest, IsToldToEnd) {
  EXPECT_FALSE(server_->WaitForShutdown(std::chrono::milliseconds(0)));
  EXPECT_TRUE(ShutDownServer(address_, kOptions).ok());
  EXPECT_TRUE(server_->WaitForShutdown(std::chrono::milliseconds(0)));
}

TEST_F(StoreServerTest, CancelEndsWhatRunsAndWhatComes) {
  const auto client = RpcClient::Create("Parameter server", address_, kOptions).value();
  store_->Hold(true);
  absl::Status status;
  std::thread worker([&] { status = client->Call(PushMessage(PushOf(1, 1.f)).value()).status(); });
  store_->AwaitPushes(1);
  client->Cancel();
  worker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(client->Call({.call = "Hello"}).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(StoreServerTest, AChildOfAForkHasNone) {
  if (!kMayFork) GTEST_SKIP();
  const auto store = Connect();
  EXPECT_EQ(StatusOfChild([&] { return store->Pull({}).status(); }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(StatusOfChild([&] { return RemoteStore::Connect(address_, kOptions).status(); }).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(store->Pull({}).ok());
}

}  // namespace
}  // namespace meshwork::store_server_test
