// Transports and rendezvous in the child of a fork: calls fail instead of waiting for ever, and neither the parent nor
// the other domains notice anything.
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/connect.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/runtime/transport/rendezvous.h"
#include "support/clusters.h"
#include "support/ends.h"
#include "support/forks.h"

namespace meshwork::transport_fork_test {
namespace {

using ::testing::StartsWith;

constexpr std::chrono::milliseconds kDeadline = std::chrono::seconds(20);

// Two domains send each other a number; returns the number that domain `end` got.
class Swap {
 public:
  explicit Swap(Transport& end) {
    const int64_t other = 1 - end.domain();
    op_ = end.Prepare({.where = "Swap", .sends = {{other, 8}}, .receives = {{other, 8}}}).value();
  }
  absl::Status Start(int64_t number) {
    sent_ = number;
    const auto* const send = reinterpret_cast<const std::byte*>(&sent_);
    auto* const receive = reinterpret_cast<std::byte*>(&received_);
    return op_->Start({&send, 1}, {&receive, 1});
  }
  absl::Status Wait() { return op_->Wait(); }
  absl::Status Run(int64_t number) {
    sent_ = number;
    const auto* const send = reinterpret_cast<const std::byte*>(&sent_);
    auto* const receive = reinterpret_cast<std::byte*>(&received_);
    return op_->Run({&send, 1}, {&receive, 1});
  }
  int64_t received() const { return received_; }
  void Drop() { op_.reset(); }

 private:
  std::unique_ptr<RemoteOp> op_;
  int64_t sent_ = 0, received_ = 0;
};

void ExpectParents(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << MessageOf(status);
  EXPECT_THAT(MessageOf(status),
              StartsWith("Transport: it is the parent's, from before this process forked; "));
}

// Domain 1 continues by itself while domain 0 forks: before, between and during operations.
void ForkBetweenSteps(std::array<std::unique_ptr<Transport>, 2> ends) {
  std::thread other([&] {
    Swap swap(*ends[1]);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(MessageOf(swap.Run(10 + i)), "");
    EXPECT_EQ(swap.received(), 3);
    EXPECT_TRUE(Agree(*ends[1], "the end", std::string("done")).ok());
  });
  {
    Transport& end = *ends[0];
    Swap swap(end);
    EXPECT_EQ(MessageOf(swap.Run(0)), "");
    ExpectParents(StatusOfChild([&] { return swap.Run(7); }));
    ExpectParents(StatusOfChild([&] { return swap.Start(7); }));
    ExpectParents(StatusOfChild([&] { return end.AllGather("it", "text").status(); }));
    ExpectParents(StatusOfChild([&] { return Agree(end, "it", std::string("text")); }));
    ExpectParents(StatusOfChild([&] { return end.Prepare({.where = "other"}).status(); }));
    // The operation under way belongs to the parent.
    EXPECT_EQ(MessageOf(swap.Start(1)), "");
    ExpectParents(StatusOfChild([&] { return swap.Wait(); }));
    EXPECT_EQ(SaidByChild([&] {
                swap.Drop();
                ends[0].reset();
                ends[1].reset();
                return std::string("gone");
              }),
              "gone");
    EXPECT_EQ(MessageOf(swap.Wait()), "");
    // An abort in a child has no effect.
    EXPECT_TRUE(StatusOfChild([&] {
                  end.Abort(absl::InternalError("of the child"));
                  return absl::OkStatus();
                }).ok());
    for (int64_t i = 2; i < 4; ++i) EXPECT_EQ(MessageOf(swap.Run(i)), "");
    EXPECT_EQ(swap.received(), 13);
    EXPECT_TRUE(Agree(end, "the end", std::string("done")).ok());
  }
  other.join();
}

TEST(TransportForkTest, LoopbackIsTheParents) {
  if (!kMayFork) GTEST_SKIP();
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2, {.deadline = kDeadline});
  ForkBetweenSteps({std::move(ends[0]), std::move(ends[1])});
}

// A domain that waits exists only in the parent; the child must not destroy the objects with which it waits.
TEST(TransportForkTest, AChildLeavesAloneWhoWaits) {
  if (!kMayFork) GTEST_SKIP();
  std::vector<std::unique_ptr<Transport>> ends = MakeLoopback(2, {.deadline = kDeadline});
  std::thread other([&] { EXPECT_TRUE(Agree(*ends[1], "it", std::string("text")).ok()); });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(SaidByChild([&] {
                ends.clear();
                return std::string("gone");
              }),
              "gone");
  }
  EXPECT_TRUE(Agree(*ends[0], "it", std::string("text")).ok());
  other.join();
}

#ifdef MESHWORK_HAVE_GLOO

std::array<std::unique_ptr<Transport>, 2> GlooEnds() {
  std::array<std::unique_ptr<Transport>, 2> ends;
  const int port = FreePort();
  const GlooOptions options{.deadline = kDeadline, .join_deadline = kJoinDeadline};
  std::thread other([&] { ends[1] = MakeGloo(LocalCluster(2, 1, port), options).value(); });
  ends[0] = MakeGloo(LocalCluster(2, 0, port), options).value();
  other.join();
  return ends;
}

TEST(TransportForkTest, GlooIsTheParents) {
  if (!kMayFork) GTEST_SKIP();
  ForkBetweenSteps(GlooEnds());
}

TEST(TransportForkTest, ARendezvousIsTheParents) {
  if (!kMayFork) GTEST_SKIP();
  auto server = RendezvousServer::Start("127.0.0.1:0", "token").value();
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  auto client = Rendezvous::Connect(address, "token", kDeadline).value();
  std::atomic<int> told = 0;
  auto watch = client->WatchKey("watched", [&](const absl::StatusOr<std::string>& value) {
    EXPECT_EQ(value.value_or("none"), "now");
    ++told;
  });
  ASSERT_TRUE(client->Set("key", "value", kDeadline).ok());
  const std::function<absl::Status()> calls[] = {
      [&] { return client->Set("key", "other", kDeadline); },
      [&] { return client->SetFirst("key", "other", kDeadline).status(); },
      [&] { return client->Get("never", kDeadline).status(); },
      [&] { return client->Find("key", kDeadline).status(); },
      [&] {
        absl::Status status;
        client->WatchKey("key", [&](const absl::StatusOr<std::string>& value) { status = value.status(); });
        return status;
      }};
  for (const auto& call : calls) {
    const absl::Status status = StatusOfChild(call);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << MessageOf(status);
    EXPECT_THAT(MessageOf(status), StartsWith(fmt::format("Rendezvous {}: it is the parent's, ", address)));
  }
  // A child can neither connect to a rendezvous nor start one.
  for (const absl::Status& status :
       {StatusOfChild([&] { return Rendezvous::Connect(address, "token", kDeadline).status(); }),
        StatusOfChild([&] { return RendezvousServer::Start("127.0.0.1:0", "token").status(); })})
    EXPECT_THAT(MessageOf(status), StartsWith("gRPC: it is the parent's, "));
  EXPECT_EQ(SaidByChild([&] {
              watch.reset();
              client.reset();
              server.reset();
              return std::string("gone");
            }),
            "gone");
  EXPECT_EQ(client->Find("key", kDeadline).value(), "value");
  ASSERT_TRUE(client->Set("watched", "now", kDeadline).ok());
  while (told == 0) std::this_thread::yield();
  EXPECT_EQ(told, 1);
}

#endif

}  // namespace
}  // namespace meshwork::transport_fork_test
