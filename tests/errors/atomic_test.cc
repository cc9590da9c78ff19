// Messages about steps that take effect as a whole, and about the state that they leave when a process is lost.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/runtime/transport/loopback.h"
#include "meshwork/train/cluster/live_state.h"

namespace meshwork::atomic_test {
namespace {

// n: f32[8] over `x`, doubled by each step.
Graph Doubled(const std::string& mesh, const std::string& name = "n") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Variable n = g.Var(name, Zeros({8}, F32), {"x"});
  g.Update(n, n + n);
  return g;
}

Session SessionOf(const Graph& graph, bool atomic, Transport* transport = nullptr) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.executor.atomic = atomic;
  options.executor.transport = transport;
  return Session::Create(graph, options).value();
}

TEST(AtomicErrors, Steps) {
  Session plain = SessionOf(Doubled("x=2"), false), once = SessionOf(Doubled("x=2"), true);
  ASSERT_TRUE(plain.Run({}).ok());
  ASSERT_TRUE(once.Run({}).ok());
  ASSERT_TRUE(once.Undo().ok());
  SessionOptions tight{.workers = 1};
  tight.executor.atomic = true;
  tight.compile.memory_budget = LogicalPeakBytes(plain.program().body);
  LiveState live;
  ExpectErrors("atomic", {
                             MISTAKE(plain.Undo()),
                             MISTAKE(once.Undo()),
                             MISTAKE(StepRecord().Undo()),
                             MISTAKE(Session::Create(Doubled("x=2"), tight)),
                             MISTAKE(live.Keep(nullptr, plain)),
                         });
}

// The reason why two domains, the last of which is lost or behind, cannot go on from the state that they have.
std::string WhyNot(const std::string& then, bool is_lost, int64_t steps_apart,
                   const std::string& name = "n") {
  std::vector<LiveState> live(2);
  const auto in_both = [](const std::function<void(size_t, Transport*)>& play) {
    const auto ends = MakeLoopback(2);
    std::thread second([&] { play(1, ends[1].get()); });
    play(0, ends[0].get());
    second.join();
  };
  in_both([&](size_t d, Transport* end) {
    Session session = SessionOf(Doubled("x=2"), true, end);
    EXPECT_TRUE(live[d].Keep(end, session).ok());
    if (d == 0) session.set_steps_done(steps_apart);
  });
  std::string why;
  if (is_lost) {
    Session session = SessionOf(Doubled(then, name), true);
    return live[0].Recover(nullptr, session)->why_not;
  }
  in_both([&](size_t d, Transport* end) {
    Session session = SessionOf(Doubled(then, name), true, end);
    const std::string said = live[d].Recover(end, session)->why_not;
    if (d == 0) why = said;
  });
  return why;
}

TEST(AtomicErrors, LiveState) {
  const auto refused = [](const std::string& why) { return absl::UnknownError(why); };
  ExpectErrors("live_state", {
                                 MISTAKE(refused(WhyNot("x=1", /*is_lost=*/true, 0))),
                                 MISTAKE(refused(WhyNot("x=2", /*is_lost=*/false, 2))),
                                 MISTAKE(refused(WhyNot("x=2", /*is_lost=*/false, 0, "m"))),
                             });
}

}  // namespace
}  // namespace meshwork::atomic_test
