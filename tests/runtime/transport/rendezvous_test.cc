// The rendezvous: values reach the processes that wait for them, and requests from outside the job disturb nobody.
#include "meshwork/runtime/transport/rendezvous.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/address.h"
#include "runtime/transport/rendezvous_fixture.h"
#include "support/clusters.h"

#ifdef MESHWORK_HAVE_GLOO
#include "support/raw_call.h"
#endif

namespace meshwork::rendezvous_test {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kPatient = std::chrono::minutes(2), kImpatient{50};

using RendezvousTest = ServedRendezvousTest;

// The values that a watch has reported.
class Told {
 public:
  std::function<void(absl::StatusOr<std::string>)> Teller() {
    return [this](absl::StatusOr<std::string> value) {
      const std::lock_guard lock(mutex_);
      values_.push_back(std::move(value));
      told_.notify_all();
    };
  }
  absl::StatusOr<std::string> Await() {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return !values_.empty(); });
    EXPECT_EQ(values_.size(), 1u);
    return values_[0];
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::vector<absl::StatusOr<std::string>> values_;
};

TEST_F(RendezvousTest, KeepsValues) {
  const auto one = Client(), other = Client();
  const std::string bytes("\0\xFF\n", 3), large(size_t{1} << 20, 'x');
  ASSERT_TRUE(one->Set("key", "value", kPatient).ok());
  EXPECT_EQ(other->Get("key", kPatient).value(), "value");
  ASSERT_TRUE(other->Set("key", bytes, kPatient).ok());
  EXPECT_EQ(one->Find("key", kPatient).value(), bytes);
  EXPECT_EQ(one->SetFirst("key", "late", kPatient).value(), bytes);
  EXPECT_EQ(one->SetFirst("new", "", kPatient).value(), "");
  EXPECT_EQ(other->Get("new", kPatient).value(), "");
  ASSERT_TRUE(one->Set("large", large, kPatient).ok());
  EXPECT_EQ(other->Get("large", kPatient).value(), large);
  EXPECT_EQ(one->Find("none", kPatient).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RendezvousTest, WaitsUntilAKeyIsSet) {
  std::vector<std::string> seen(4);
  std::vector<std::thread> waiting;
  for (std::string& value : seen)
    waiting.emplace_back([&] { value = Client()->Get("key", kPatient).value(); });
  const auto client = Client();
  Told told, never;
  const auto watch = client->WatchKey("key", told.Teller()), idle = client->WatchKey("other", never.Teller());
  ASSERT_TRUE(client->Set("key", "value", kPatient).ok());
  for (std::thread& thread : waiting) thread.join();
  EXPECT_THAT(seen, testing::Each("value"));
  EXPECT_EQ(told.Await().value(), "value");
  EXPECT_EQ(never.count(), 0u);
}

TEST_F(RendezvousTest, AWaitEndsAtItsDeadline) {
  const absl::Status late = Client()->Get("the address of worker 1", kImpatient).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(late), HasSubstr("nobody has set \"the address of worker 1\" within 50 ms"));
}

TEST_F(RendezvousTest, RefusesAnotherToken) {
  for (const char* token : {"", "a toke", "a tokem", "a token ", "a tokena token"}) {
    const absl::Status refused = Rendezvous::Connect(address_, token, kPatient).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << token;
  }
}

TEST_F(RendezvousTest, OtherHostsNeedATokenUnlessItIsSaidOtherwise) {
  for (const char* address : {"0.0.0.0:0", "[::]:0"})
    EXPECT_EQ(RendezvousServer::Start(address, "").status().code(), absl::StatusCode::kFailedPrecondition);
  for (const char* token : {"a token", ""}) {
    const auto server = RendezvousServer::Start("0.0.0.0:0", token, /*insecure=*/token[0] == '\0').value();
    const auto client = Rendezvous::Connect(fmt::format("127.0.0.1:{}", server->port()), token, kPatient);
    EXPECT_TRUE(client.ok()) << client.status();
  }
}

TEST(AddressTest, KnowsLoopback) {
  for (const char* ip : {"127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(IsLoopback({ip, 4444})) << ip;
  for (const char* ip : {"0.0.0.0", "::", "10.0.0.1", "126.255.255.255", "128.0.0.1", "::2",
                         "::ffff:10.0.0.1", "::ffff:0.0.0.0", "fe80::1", ""})
    EXPECT_FALSE(IsLoopback({ip, 4444})) << ip;
}

TEST_F(RendezvousTest, ManyMeet) {
  constexpr int kClients = 24;
  std::atomic<int> met = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      const auto client = Client();
      if (!client->Set(fmt::format("{}", i), fmt::format("value {}", i), kPatient).ok()) return;
      for (int other = 0; other < kClients; ++other)
        if (client->Get(fmt::format("{}", other), kPatient).value() != fmt::format("value {}", other)) return;
      ++met;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(met, kClients);
}

TEST_F(RendezvousTest, OneIsFirst) {
  constexpr int kClients = 8;
  std::vector<std::string> first(kClients);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back(
        [&, i] { first[i] = Client()->SetFirst("key", fmt::format("value {}", i), kPatient).value(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(first, testing::Each(Client()->Get("key", kPatient).value()));
}

TEST_F(RendezvousTest, APortServesOne) {
  const absl::Status taken = RendezvousServer::Start(address_, "a token").status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(MessageOf(taken), HasSubstr(address_ + " is taken"));
  EXPECT_TRUE(Client()->Set("key", "value", kPatient).ok());
}

// A new server at the same port serves clients of the previous server.
TEST_F(RendezvousTest, CanStartAgain) {
  const auto client = Client();
  ASSERT_TRUE(client->Set("key", "before", kPatient).ok());
  Told told;
  const auto watch = client->WatchKey("other", told.Teller());
  std::string seen;
  std::thread waiting([&] { seen = client->Get("other", kPatient).value(); });
  server_.reset();
  EXPECT_EQ(told.Await().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client->Set("key", "nobody hears it", kImpatient).ok());
  EXPECT_FALSE(Rendezvous::Connect(address_, "a token", kImpatient).ok());
  Start(address_);
  const auto later = Client();
  EXPECT_EQ(later->Find("key", kPatient).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(later->Set("other", "after", kPatient).ok());
  waiting.join();
  EXPECT_EQ(seen, "after");
}

TEST_F(RendezvousTest, EndsWhileOthersWait) {
  const auto client = Client();
  std::vector<Told> told(50);
  std::vector<std::unique_ptr<Rendezvous::Watch>> watches;
  for (size_t i = 0; i < told.size(); ++i)
    watches.push_back(client->WatchKey(fmt::format("{}", i % 7), told[i].Teller()));
  watches.resize(25);  // some do not wait any more
  server_.reset();
  for (size_t i = 0; i < watches.size(); ++i)
    EXPECT_EQ(told[i].Await().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RendezvousTest, GarbageDisturbsNobody) {
  const auto client = Client();
  for (std::string_view garbage :
       {std::string_view("GET / HTTP/1.1\r\n\r\n"), std::string_view("\0\0\0", 3),
        std::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xFF\xFF\xFF\xFF\xFF")}) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(server_->port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), std::ssize(garbage));
    EXPECT_TRUE(client->Set("key", "value", kPatient).ok());
    close(fd);
  }
  EXPECT_EQ(client->Get("key", kPatient).value(), "value");
}

#ifdef MESHWORK_HAVE_GLOO

// The status with which the server answers a message.
grpc::StatusCode Send(const std::string& address, const std::string& method, const std::string& message) {
  return RawCall(address, method, message).error_code();
}

// A field in the wire format: its length in four bytes, then its bytes.
std::string Field(const std::string& bytes) {
  std::string field;
  for (int b = 0; b < 4; ++b) field += static_cast<char>(bytes.size() >> (8 * b) & 0xFF);
  return field + bytes;
}

// The list contains every call, so new calls are tested, too. A refused request changes nothing.
TEST_F(RendezvousTest, EveryCallNeedsTheToken) {
  const auto client = Client();
  ASSERT_TRUE(client->Set("key", "value", kPatient).ok());
  const std::vector<std::string> calls = RendezvousServer::Calls();
  EXPECT_GE(calls.size(), 4u);
  for (const std::string& call : calls) {
    for (const char* token : {"", "A token", "a toke", "a token ", "a tokena token"})
      EXPECT_EQ(Send(address_, call, Field(token) + Field("key") + Field("changed")), grpc::PERMISSION_DENIED)
          << call << " with token " << token;
    EXPECT_EQ(Send(address_, call, ""), grpc::INVALID_ARGUMENT) << call;
  }
  EXPECT_EQ(client->Find("key", kPatient).value(), "value");
  for (const std::string& call : calls)
    EXPECT_EQ(Send(address_, call, Field("a token") + Field("key") + Field("changed")), grpc::OK) << call;
}

// Requests that never send their token stay open, and other requests are served.
TEST_F(RendezvousTest, RequestsThatSayNothingAreBounded) {
  constexpr int kRequests = 4500, kOpen = 4096;
  grpc::GenericStub stub(RawChannel(address_));
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> calls;
  std::vector<grpc::Status> statuses(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_wait_for_ready(true);
    calls.push_back(stub.PrepareCall(contexts.back().get(), "/meshwork.Rendezvous/Get", &queue));
    calls.back()->StartCall(nullptr);
  }
  void* tag;
  bool ok;
  for (int i = 0; i < kRequests; ++i) queue.Next(&tag, &ok);
  for (int i = 0; i < kRequests; ++i) calls[i]->Finish(&statuses[i], &statuses[i]);
  // The requests above the limit end, while the others stay open.
  for (int i = kOpen; i < kRequests; ++i) {
    queue.Next(&tag, &ok);
    EXPECT_EQ(static_cast<grpc::Status*>(tag)->error_code(), grpc::UNAVAILABLE);
  }
  EXPECT_FALSE(Rendezvous::Connect(address_, "a token", kImpatient).ok());
  for (const auto& context : contexts) context->TryCancel();
  for (int i = 0; i < kOpen; ++i) queue.Next(&tag, &ok);
  EXPECT_TRUE(Client()->Set("key", "value", kPatient).ok());
}

TEST_F(RendezvousTest, MalformedRequestsAreRefused) {
  const std::string set = "/meshwork.Rendezvous/Set", token = Field("a token");
  const std::string good = token + Field("key") + Field("value");
  EXPECT_EQ(Send(address_, set, good), grpc::OK);
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_EQ(Send(address_, set, good.substr(0, bytes)), grpc::INVALID_ARGUMENT) << bytes;
  EXPECT_EQ(Send(address_, set, good + "x"), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Send(address_, set, "\xFF\xFF\xFF\xFF" + good), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Send(address_, set, Field("a nekot") + Field("key") + Field("changed")), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Send(address_, set, token + Field(std::string(513, 'k')) + Field("")), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Send(address_, set, token + Field("key") + Field(std::string((size_t{1} << 20) + 1, 'v'))),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Send(address_, set, std::string(size_t{4} << 20, 'v')), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Send(address_, "/meshwork.Rendezvous/Drop", good), grpc::UNIMPLEMENTED);
  EXPECT_EQ(Client()->Get("key", kPatient).value(), "value");
}

TEST_F(RendezvousTest, KeepsAtMostSoManyBytes) {
  const auto client = Client();
  const std::string large(size_t{1} << 20, 'x');
  int kept = 0;
  while (kept < 300 && client->Set(fmt::format("{}", kept), large, kPatient).ok()) ++kept;
  EXPECT_EQ(kept, 255);
  EXPECT_EQ(client->Set("more", large, kPatient).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(client->Set("0", "", kPatient).ok());
  EXPECT_TRUE(client->Set("more", large, kPatient).ok());
}

#endif

}  // namespace
}  // namespace meshwork::rendezvous_test
