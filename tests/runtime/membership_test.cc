// Which processes of a job are in it: all agree, whoever is lost and comes back.
#include "meshwork/runtime/transport/membership.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/gloo.h"

namespace meshwork {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr milliseconds kLong = std::chrono::minutes(2);

// A process of a job, as far as the rendezvous sees it.
class Process {
 public:
  Process(const std::string& address, const MembersOptions& options)
      : rendezvous_(Rendezvous::Connect(address, "a token", kLong).value()),
        members_(*rendezvous_, options) {}
  absl::StatusOr<Membership> Form() { return members_.Form(); }

 private:
  std::unique_ptr<Rendezvous> rendezvous_;
  Members members_;
};

class MembershipTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
    Start("127.0.0.1:0");
  }
  void Start(const std::string& address) {
    server_ = RendezvousServer::Start(address, "a token").value();
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  std::unique_ptr<Process> Make(int64_t process, int64_t num_processes, bool may_shrink = false,
                                milliseconds patience = milliseconds(300), milliseconds deadline = kLong) {
    return std::make_unique<Process>(address_, MembersOptions{.process = process,
                                                              .num_processes = num_processes,
                                                              .may_shrink = may_shrink,
                                                              .patience = patience,
                                                              .deadline = deadline});
  }
  // What each of them says, at the same time.
  static std::vector<absl::StatusOr<Membership>> FormAll(const std::vector<Process*>& processes) {
    std::vector<absl::StatusOr<Membership>> formed(processes.size());
    std::vector<std::thread> threads;
    for (size_t p = 0; p < processes.size(); ++p)
      threads.emplace_back([&, p] { formed[p] = processes[p]->Form(); });
    for (std::thread& thread : threads) thread.join();
    return formed;
  }
  static void ExpectAll(const std::vector<absl::StatusOr<Membership>>& formed, const Membership& expected) {
    for (const auto& each : formed) {
      ASSERT_TRUE(each.ok()) << each.status();
      EXPECT_EQ(each->generation, expected.generation);
      EXPECT_EQ(each->processes, expected.processes);
    }
  }

  std::unique_ptr<RendezvousServer> server_;
  std::string address_;
};

TEST_F(MembershipTest, TheFirstGenerationHasAll) {
  const auto a = Make(0, 3, true), b = Make(1, 3, true), c = Make(2, 3, true);
  ExpectAll(FormAll({c.get(), a.get(), b.get()}), {0, {0, 1, 2}});
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {1, {0, 1, 2}});
}

TEST_F(MembershipTest, AReplacementComesIntoTheNextGeneration) {
  const auto a = Make(0, 3), b = Make(1, 3);
  auto c = Make(2, 3);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  for (int64_t generation = 1; generation < 4; ++generation) {
    c = Make(2, 3);
    ExpectAll(FormAll({a.get(), b.get(), c.get()}), {generation, {0, 1, 2}});
  }
}

// One that dies while the others wait is not waited for.
TEST_F(MembershipTest, AProcessThatIsStartedAgainBeforeAllHaveComeLeavesAGeneration) {
  const auto a = Make(0, 3), c = Make(2, 3);
  std::vector<absl::StatusOr<Membership>> first(1);
  const auto dies = Make(1, 3, false, kLong, milliseconds(200));
  EXPECT_EQ(dies->Form().status().code(), absl::StatusCode::kDeadlineExceeded);
  const auto b = Make(1, 3);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {1, {0, 1, 2}});
}

TEST_F(MembershipTest, MoreThanHalfGoOnWithoutALostProcess) {
  const auto a = Make(0, 3, true), b = Make(1, 3, true), c = Make(2, 3, true);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  ExpectAll(FormAll({a.get(), c.get()}), {1, {0, 2}});
  // It comes back and waits, until the others form a generation again.
  const auto late = Make(1, 3, true);
  ExpectAll(FormAll({a.get(), c.get(), late.get()}), {2, {0, 1, 2}});
}

TEST_F(MembershipTest, HalfOfThemDoNot) {
  const auto a = Make(0, 4, true, milliseconds(0), milliseconds(400)),
             b = Make(1, 4, true, milliseconds(0), milliseconds(400)), c = Make(2, 4), d = Make(3, 4);
  ExpectAll(FormAll({a.get(), b.get(), c.get(), d.get()}), {0, {0, 1, 2, 3}});
  for (const auto& each : FormAll({a.get(), b.get()})) {
    EXPECT_EQ(each.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(MessageOf(each.status()), HasSubstr("2 of 4 processes did not come within 400 ms: 2, 3."));
  }
}

// New processes are no majority of those that were there: they know nothing of the training.
TEST_F(MembershipTest, NewProcessesDoNotTakeTheJobOver) {
  const auto a = Make(0, 3, true, milliseconds(0), milliseconds(400)), b = Make(1, 3), c = Make(2, 3);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  const auto new_b = Make(1, 3, true, milliseconds(0), milliseconds(400));
  for (const auto& each : FormAll({a.get(), new_b.get()}))
    EXPECT_EQ(each.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MembershipTest, ARendezvousThatIsStartedAnewIsReminded) {
  const auto a = Make(0, 2);
  auto b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {0, {0, 1}});
  ExpectAll(FormAll({a.get(), b.get()}), {1, {0, 1}});
  server_.reset();
  Start(address_);
  b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {2, {0, 1}});
}

TEST_F(MembershipTest, ARendezvousThatIsAwayIsWaitedFor) {
  const auto a = Make(0, 2), b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {0, {0, 1}});
  server_.reset();
  std::thread restart([&] {
    std::this_thread::sleep_for(milliseconds(300));
    Start(address_);
  });
  ExpectAll(FormAll({a.get(), b.get()}), {1, {0, 1}});
  restart.join();
}

TEST_F(MembershipTest, AnotherTokenIsRefusedAtOnce) {
  const std::unique_ptr<Rendezvous> stranger = Rendezvous::Connect(address_, "a token", kLong).value();
  const std::string address = address_;
  server_.reset();
  server_ = RendezvousServer::Start(address, "another token").value();
  Members members(*stranger, {.process = 0, .num_processes = 2, .deadline = kLong});
  EXPECT_EQ(members.Form().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(MembershipTest, AValueThatIsNoneIsAnError) {
  const std::unique_ptr<Rendezvous> other = Rendezvous::Connect(address_, "a token", kLong).value();
  for (const std::string text : {"x:1", ":1", "-1:a", "1", "12345678901234567890:a"}) {
    ASSERT_TRUE(other->Set("generation 0/members", text, kLong).ok());
    EXPECT_THAT(MessageOf(Make(0, 2)->Form().status()), HasSubstr("another program uses it")) << text;
  }
}

}  // namespace
}  // namespace meshwork
