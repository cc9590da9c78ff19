// A domain is lost, and the others go on from the state in their memory, with the numbers of an undisturbed run.
#include "meshwork/train/cluster/live_state.h"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "domains/small_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/failing_end.h"
#include "support/in_domains.h"
#include "support/tensors.h"

namespace meshwork::live_state_test {
namespace {

using ::testing::HasSubstr;

Session Make(const std::string& mesh, Transport* transport, const SmallOptions& of) {
  return SmallSession(mesh, transport, of).value();
}

void TrainSteps(Session& session, int64_t from, int64_t end) {
  for (int64_t step = from; step < end; ++step) {
    const absl::StatusOr<StepResult> result = session.Run(SmallFeeds(step));
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

std::vector<double> NumbersOf(const Session& session) {
  std::vector<double> numbers;
  for (const std::string& name : session.variable_names())
    for (double number : NumbersOf(session.Get(name).value())) numbers.push_back(number);
  return numbers;
}

// Calls play(member, end) for each member. `end` is its end of a new transport between the members, in their order.
void InGeneration(const std::vector<int64_t>& members,
                  const std::function<void(int64_t member, Transport& end)>& play) {
  InDomains(std::ssize(members),
            [&](Transport& end) { play(members[static_cast<size_t>(end.domain())], end); });
}

std::vector<int64_t> Numbers(int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

constexpr int64_t kLost = 3, kEnd = 6;  // the step that fails, and steps in all

// The numbers of a run in which nothing is lost: kLost steps on the first mesh, then, with the same values, the other
// steps on the second mesh.
std::vector<double> Expected(const std::string& first, int64_t domains, const std::string& second,
                             int64_t domains_then, const SmallOptions& of = {}) {
  std::map<std::string, Tensor> state;
  InGeneration(Numbers(domains), [&](int64_t member, Transport& end) {
    Session session = Make(first, &end, of);
    TrainSteps(session, 0, kLost);
    for (const std::string& name : session.variable_names()) {
      Tensor value = session.Get(name).value();
      if (member == 0) state[name] = value;
    }
  });
  std::vector<double> numbers;
  InGeneration(Numbers(domains_then), [&](int64_t member, Transport& end) {
    Session session = Make(second, &end, of);
    for (const auto& [name, value] : state) ASSERT_TRUE(session.Set(name, value).ok());
    TrainSteps(session, kLost, kEnd);
    const std::vector<double> mine = NumbersOf(session);
    if (member == 0) numbers = mine;
  });
  return numbers;
}

// Trains in a first generation until step kLost fails, and forgets the state of `lost`. `live`: per member. The step
// fails in `lost` before all others can have ended it; or, if `ahead`, in the next member, after all others ended it.
void Lose(const std::string& mesh, int64_t lost, std::vector<LiveState>& live, const SmallOptions& of = {},
          bool ahead = false) {
  const int64_t domains = std::ssize(live), fails = ahead ? (lost + 1) % domains : lost;
  std::atomic<int64_t> ended = 0;
  int64_t moments = 0;
  std::barrier all_are_bound(domains);
  if (ahead) {  // counts the moments of a step
    InGeneration(Numbers(domains), [&](int64_t member, Transport& end) {
      FailingEnd counted(end);
      Session session = Make(mesh, &counted, of);
      TrainSteps(session, 0, 1);
      BoundStep step = session.Bind(SmallFeeds(1)).value();
      counted.FailAt(-1);
      ASSERT_TRUE(step.Run().ok());
      if (member == fails) moments = counted.moments();
    });
  }
  InGeneration(Numbers(domains), [&](int64_t member, Transport& end) {
    FailingEnd failing(end);
    Session session = Make(mesh, &failing, of);
    ASSERT_FALSE(live[static_cast<size_t>(member)].Recover(&failing, session)->note.has_value());
    ASSERT_TRUE(live[static_cast<size_t>(member)].Keep(&failing, session).ok());
    TrainSteps(session, 0, kLost);
    live[static_cast<size_t>(member)].Note({{"steps", "three"}});
    BoundStep step = session.Bind(SmallFeeds(kLost)).value();
    all_are_bound.arrive_and_wait();  // to be bound they talk to each other
    if (member == fails) {
      failing.FailAt(
          ahead ? moments - 1 : 2, !ahead ? std::function<void()>() : [&] {
            while (ended < domains - 1) std::this_thread::yield();
          });
    }
    const bool is_ok = step.Run().ok();
    if (is_ok) live[static_cast<size_t>(member)].Note({{"steps", "four"}});
    ++ended;
    // Some members may end the step, because they need nothing more from the one that fails.
    if (ahead || member == fails) {
      EXPECT_EQ(is_ok, member != fails);
    }
    EXPECT_EQ(session.steps_done(), kLost + (is_ok ? 1 : 0));
  });
  live[static_cast<size_t>(lost)] = LiveState();
}

// The members continue on another mesh until step kEnd.
void ExpectGoesOn(const std::vector<int64_t>& members, const std::string& mesh, std::vector<LiveState>& live,
                  const std::vector<double>& expected, const SmallOptions& of = {}) {
  InGeneration(members, [&](int64_t member, Transport& end) {
    LiveState& mine = live[static_cast<size_t>(member)];
    Session session = Make(mesh, &end, of);
    const absl::StatusOr<Recovered> recovered = mine.Recover(&end, session);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    ASSERT_TRUE(recovered->note.has_value()) << recovered->why_not;
    EXPECT_EQ(recovered->note->step, kLost);
    EXPECT_EQ(recovered->note->facts.at("steps"), "three");
    EXPECT_EQ(session.steps_done(), kLost);
    ASSERT_TRUE(mine.Keep(&end, session).ok());
    TrainSteps(session, kLost, kEnd);
    EXPECT_EQ(NumbersOf(session), expected) << "member " << member;
  });
}

TEST(LiveStateTest, ReplicasGoOnWithoutTheLostOne) {
  for (bool ahead : {false, true}) {
    for (int64_t lost : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("{} is lost, the others are ahead: {}", lost, ahead));
      std::vector<LiveState> live(3);
      Lose("batch=3,model=2", lost, live, {}, ahead);
      std::vector<int64_t> members = Numbers(3);
      members.erase(members.begin() + lost);
      ExpectGoesOn(members, "batch=2,model=2", live, Expected("batch=3,model=2", 3, "batch=2,model=2", 2));
    }
  }
}

TEST(LiveStateTest, AReplacementGetsTheBlocksOfOthers) {
  for (bool ahead : {false, true}) {
    std::vector<LiveState> live(3);
    Lose("batch=3", 1, live, {}, ahead);
    ExpectGoesOn({0, 1, 2}, "batch=3", live, Expected("batch=3", 3, "batch=3", 3));
  }
}

// Two domains hold blocks of the hidden dim; then three domains hold other blocks; then two hold others again.
TEST(LiveStateTest, BlocksMoveToAnotherMesh) {
  std::vector<LiveState> live(4);
  Lose("batch=2,model=2", 2, live);
  ExpectGoesOn({0, 1, 3}, "model=3", live, Expected("batch=2,model=2", 4, "model=3", 3));
  live = std::vector<LiveState>(4);
  Lose("batch=2,model=2", 0, live);
  ExpectGoesOn({1, 2, 3}, "batch=3,model=4", live, Expected("batch=2,model=2", 4, "batch=3,model=4", 3));
}

TEST(LiveStateTest, WhatOnlyTheLostOneHeldIsMissed) {
  std::vector<LiveState> live(3);
  Lose("model=3", 1, live);
  InGeneration({0, 2}, [&](int64_t member, Transport& end) {
    Session session = Make("model=2", &end, {});
    const std::vector<double> before = NumbersOf(session);
    const Recovered recovered = live[static_cast<size_t>(member)].Recover(&end, session).value();
    EXPECT_FALSE(recovered.note.has_value());
    EXPECT_THAT(recovered.why_not, HasSubstr("of variable \"adam/m/v\", f32[7,4] {model,_} on 3 domains"));
    EXPECT_THAT(recovered.why_not, HasSubstr("nobody has the block [3:6,0:4] any more"));
    EXPECT_EQ(NumbersOf(session), before);
    EXPECT_EQ(session.steps_done(), 0);
  });
}

// The weights are replicated, but the moments of Adam are sharded.
TEST(LiveStateTest, ShardedOptimizerStateIsMissed) {
  std::vector<LiveState> live(2);
  Lose("batch=2", 1, live, {.zero = true});
  InGeneration({0}, [&](int64_t, Transport& end) {
    Session session = Make("", &end, {});
    const Recovered recovered = live[0].Recover(&end, session).value();
    EXPECT_FALSE(recovered.note.has_value());
    EXPECT_THAT(recovered.why_not, HasSubstr("adam/"));
  });
}

// Another domain is lost before all members keep the new session.
TEST(LiveStateTest, WhatIsKeptStaysUntilAllKeepTheNext) {
  const std::vector<double> expected = Expected("batch=4", 4, "batch=2", 2);
  for (int fails : {0, 1, 2}) {  // before Keep; in one member; in both its rounds
    SCOPED_TRACE(fails);
    std::vector<LiveState> live(4);
    Lose("batch=4", 3, live);
    std::barrier all_have_recovered(3);
    InGeneration({0, 1, 2}, [&](int64_t member, Transport& end) {
      Session session = Make("batch=3", &end, {});
      EXPECT_EQ(live[static_cast<size_t>(member)].Recover(&end, session)->note->step, kLost);
      all_have_recovered.arrive_and_wait();
      if (fails > 0 && (member > 0 || fails == 2))
        live[static_cast<size_t>(member)].Keep(&end, session, {{"steps", "three"}}).IgnoreError();
      if (member == 0) end.Abort(absl::UnavailableError("lost"));
    });
    live[2] = LiveState();
    ExpectGoesOn({0, 1}, "batch=2", live, expected);
  }
}

// The second generation also runs steps before it loses a domain.
TEST(LiveStateTest, GoesOnAgainAndAgain) {
  std::vector<LiveState> live(4);
  Lose("batch=4", 3, live);
  InGeneration({0, 1, 2}, [&](int64_t member, Transport& end) {
    LiveState& mine = live[static_cast<size_t>(member)];
    Session session = Make("batch=3", &end, {});
    EXPECT_EQ(mine.Recover(&end, session)->note->step, kLost);
    ASSERT_TRUE(mine.Keep(&end, session).ok());
    TrainSteps(session, kLost, kLost + 2);
  });
  InGeneration({1, 2}, [&](int64_t member, Transport& end) {
    Session session = Make("batch=2", &end, {});
    EXPECT_EQ(live[static_cast<size_t>(member)].Recover(&end, session)->note->step, kLost + 2);
    EXPECT_EQ(session.steps_done(), kLost + 2);
  });
}

// A member that was cut off comes back with its old state, after the others have run more steps.
TEST(LiveStateTest, TheMostStepsCount) {
  std::vector<LiveState> live(3);
  InGeneration({0, 1, 2}, [&](int64_t member, Transport& end) {
    Session session = Make("batch=3", &end, {});
    ASSERT_TRUE(live[static_cast<size_t>(member)].Keep(&end, session).ok());
    TrainSteps(session, 0, 2);
  });
  InGeneration({0, 1}, [&](int64_t member, Transport& end) {
    Session session = Make("batch=2", &end, {});
    EXPECT_EQ(live[static_cast<size_t>(member)].Recover(&end, session)->note->step, 2);
    ASSERT_TRUE(live[static_cast<size_t>(member)].Keep(&end, session).ok());
    TrainSteps(session, 2, 5);
  });
  InGeneration({0, 1, 2}, [&](int64_t member, Transport& end) {
    Session session = Make("batch=3", &end, {});
    EXPECT_EQ(live[static_cast<size_t>(member)].Recover(&end, session)->note->step, 5);
  });
}

TEST(LiveStateTest, AProgramWithOtherVariablesTakesNothing) {
  LiveState live;
  Session session = Make("batch=2", nullptr, {});
  ASSERT_TRUE(live.Keep(nullptr, session).ok());
  Graph g(Mesh::VirtualCpus("").value());
  Variable n = g.Var("n", Zeros({}, F32), {});
  g.Update(n, n + 1.0);
  SessionOptions options{.workers = 1};
  options.executor.atomic = true;
  Session other = Session::Create(g, options).value();
  const Recovered recovered = live.Recover(nullptr, other).value();
  EXPECT_FALSE(recovered.note.has_value());
  EXPECT_EQ(recovered.why_not, "the program has other variables now, or of other types");
}

}  // namespace
}  // namespace meshwork::live_state_test
