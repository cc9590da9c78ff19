// The membership of processes in a job: all processes agree on it, even if some are lost and come back.
#include "meshwork/runtime/transport/membership.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "runtime/transport/rendezvous_fixture.h"

namespace meshwork::membership_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr milliseconds kLong = std::chrono::minutes(2);

// A process of a job, as the rendezvous sees it.
class Process {
 public:
  Process(const std::string& address, const MembersOptions& options)
      : rendezvous_(Rendezvous::Connect(address, "a token", kLong).value()),
        members_(*rendezvous_, options) {}
  absl::StatusOr<Membership> Form() { return members_.Form(); }
  absl::StatusOr<bool> Finish() { return members_.Finish(); }
  absl::StatusOr<bool> AllKnow() { return members_.AllKnow(); }

 private:
  std::unique_ptr<Rendezvous> rendezvous_;
  Members members_;
};

class MembershipTest : public ServedRendezvousTest {
 protected:
  std::unique_ptr<Process> Make(int64_t process, int64_t num_processes, bool may_shrink = false,
                                milliseconds patience = milliseconds(300), milliseconds deadline = kLong) {
    return std::make_unique<Process>(address_, MembersOptions{.process = process,
                                                              .num_processes = num_processes,
                                                              .may_shrink = may_shrink,
                                                              .patience = patience,
                                                              .deadline = deadline});
  }
  // Forms a generation in all processes at the same time; returns the result of each.
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

// Process 1 dies while it waits. Another one is started in its place before all have come: the generation is left out.
TEST_F(MembershipTest, AProcessThatIsStartedAgainBeforeAllHaveComeLeavesAGeneration) {
  const auto a = Make(0, 3), c = Make(2, 3);
  const auto dies = Make(1, 3, false, kLong, milliseconds(200));
  EXPECT_EQ(dies->Form().status().code(), absl::StatusCode::kDeadlineExceeded);
  const auto b = Make(1, 3);
  absl::StatusOr<Membership> formed;
  std::thread first([&] { formed = b->Form(); });
  EXPECT_EQ(Client()->Get("generation 0/members", kLong).value(), "nobody");
  ExpectAll(FormAll({a.get(), c.get()}), {1, {0, 1, 2}});
  first.join();
  ExpectAll({formed}, {1, {0, 1, 2}});
}

TEST_F(MembershipTest, MoreThanHalfGoOnWithoutALostProcess) {
  const auto a = Make(0, 3, true), b = Make(1, 3, true), c = Make(2, 3, true);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  ExpectAll(FormAll({a.get(), c.get()}), {1, {0, 2}});
  // The lost process comes back, and waits until the others form a generation again.
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

// Processes that were replaced do not count for the majority: new ones know nothing of the training.
TEST_F(MembershipTest, NewProcessesDoNotTakeTheJobOver) {
  const auto a = Make(0, 3, true, milliseconds(0), milliseconds(400)), b = Make(1, 3), c = Make(2, 3);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  const auto new_b = Make(1, 3, true, milliseconds(0), milliseconds(400));
  for (const auto& each : FormAll({a.get(), new_b.get()}))
    EXPECT_EQ(each.status().code(), absl::StatusCode::kDeadlineExceeded);
}

// The others lost them one by one. Each process that comes back remembers a generation in which the returning processes
// are more than half.
TEST_F(MembershipTest, ThoseThatComeBackTogetherDoNotTakeTheJobOver) {
  std::vector<std::unique_ptr<Process>> p;
  for (int64_t i = 0; i < 5; ++i) p.push_back(Make(i, 5, true, milliseconds(0), milliseconds(400)));
  ExpectAll(FormAll({p[0].get(), p[1].get(), p[2].get(), p[3].get(), p[4].get()}), {0, {0, 1, 2, 3, 4}});
  ExpectAll(FormAll({p[0].get(), p[1].get(), p[2].get()}), {1, {0, 1, 2}});
  ExpectAll(FormAll({p[0].get(), p[1].get()}), {2, {0, 1}});
  for (const auto& each : FormAll({p[2].get(), p[3].get(), p[4].get()}))
    EXPECT_EQ(each.status().code(), absl::StatusCode::kDeadlineExceeded);
}

// A process was stopped, and another one was started in its place.
TEST_F(MembershipTest, AProcessThatWasReplacedEnds) {
  const auto a = Make(0, 3), b = Make(1, 3), c = Make(2, 3);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  const auto new_c = Make(2, 3);
  ExpectAll(FormAll({a.get(), b.get(), new_c.get()}), {1, {0, 1, 2}});
  const absl::Status replaced = c->Form().status();
  EXPECT_EQ(replaced.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(MessageOf(replaced),
            "Membership: another process 2 was started while this one did not answer, and takes its place.");
  ExpectAll(FormAll({a.get(), b.get(), new_c.get()}), {2, {0, 1, 2}});
}

// The process is replaced while it waits. The generation in which it waits is left out, so it does not form it alone.
TEST_F(MembershipTest, AProcessThatWasReplacedWhileItWaitedEnds) {
  const auto a = Make(0, 2), b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {0, {0, 1}});
  absl::StatusOr<Membership> waits;
  std::thread waiting([&] { waits = b->Form(); });
  ASSERT_TRUE(Client()->Get("generation 1/process 1", kLong).ok());
  const auto new_b = Make(1, 2);
  absl::StatusOr<Membership> formed;
  std::thread forming([&] { formed = new_b->Form(); });
  waiting.join();
  EXPECT_EQ(waits.status().code(), absl::StatusCode::kAborted);
  ExpectAll(FormAll({a.get()}), {2, {0, 1}});
  forming.join();
  ExpectAll({formed}, {2, {0, 1}});
}

TEST_F(MembershipTest, TheJobIsOverWhenAllHaveFinished) {
  const auto a = Make(0, 3, true, milliseconds(0)), b = Make(1, 3, true, milliseconds(0)),
             c = Make(2, 3, true);
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  ExpectAll(FormAll({a.get(), b.get()}), {1, {0, 1}});
  EXPECT_FALSE(a->Finish().value());
  EXPECT_FALSE(a->Finish().value());
  EXPECT_TRUE(b->Finish().value());
  EXPECT_FALSE(b->AllKnow().value());
  EXPECT_TRUE(a->Finish().value());
  EXPECT_TRUE(a->AllKnow().value());
  EXPECT_TRUE(b->AllKnow().value());
  // A process that was cut off, and a process that was started in its place.
  const auto new_c = Make(2, 3, true);
  for (Process* const late : {c.get(), new_c.get()}) {
    const absl::Status status = late->Form().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(
        MessageOf(status),
        "Membership: the job is over: the others have finished it without process 2. For another run of it, start "
        "the rendezvous again.");
  }
}

TEST_F(MembershipTest, ALostProcessHasNotFinished) {
  const auto a = Make(0, 2);
  auto b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {0, {0, 1}});
  EXPECT_FALSE(a->Finish().value());
  b = Make(1, 2);
  ExpectAll(FormAll({a.get(), b.get()}), {1, {0, 1}});
  EXPECT_FALSE(b->Finish().value());
  EXPECT_TRUE(a->Finish().value());
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

// Two processes remember different generations, and one was left out of the last generation.
TEST_F(MembershipTest, ARendezvousThatIsStartedAnewIsRemindedOfTheLastGenerationOnly) {
  const auto a = Make(0, 3, true, milliseconds(300)), b = Make(1, 3, true, milliseconds(300)),
             c = Make(2, 3, true, milliseconds(300), milliseconds(400));
  ExpectAll(FormAll({a.get(), b.get(), c.get()}), {0, {0, 1, 2}});
  ASSERT_TRUE(Client()->Set("generation 1/members", "nobody", kLong).ok());
  ExpectAll(FormAll({a.get(), b.get()}), {2, {0, 1}});
  server_.reset();
  Start(address_);
  ExpectAll(FormAll({b.get(), a.get()}), {3, {0, 1}});
  EXPECT_EQ(c->Form().status().code(), absl::StatusCode::kDeadlineExceeded);
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
  const std::unique_ptr<Rendezvous> stranger = Client();
  const std::string address = address_;
  server_.reset();
  server_ = RendezvousServer::Start(address, "another token").value();
  Members members(*stranger, {.process = 0, .num_processes = 2, .deadline = kLong});
  EXPECT_EQ(members.Form().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(MembershipTest, AValueThatIsNoneIsAnError) {
  const std::unique_ptr<Rendezvous> other = Client();
  for (const std::string text : {"x:1", ":1", "-1:a", "1", "12345678901234567890:a"}) {
    ASSERT_TRUE(other->Set("generation 0/members", text, kLong).ok());
    EXPECT_THAT(MessageOf(Make(0, 2)->Form().status()), HasSubstr("another program uses it")) << text;
  }
}

}  // namespace
}  // namespace meshwork::membership_test
