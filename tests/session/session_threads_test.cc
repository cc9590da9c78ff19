// A session and several threads: one call at a time, whoever makes it.
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork.h"
#include "support/calling_op.h"

namespace meshwork::session_threads_test {
namespace {

// Counts its steps in w; while a step runs, x calls the test.
Graph Counter() {
  Graph g{Mesh()};
  const Variable w = g.Var("w", Zeros({}), {});
  g.Update(w, w + 1.0);
  g.Output("y", Calling(g.Input("x", F32, {})));
  return g;
}
const Feeds kFeeds = {{"x", Tensor::Zeros({F32, {}})}};

double CountOf(const Session& session) { return session.Get("w")->Scalar().value(); }

// The result of `call` in another thread.
absl::Status InAnotherThread(const std::function<absl::Status()>& call) {
  return std::async(std::launch::async, call).get();
}

std::string Refused(std::string_view call, std::string_view running) {
  return fmt::format(
      "Session: {} was called while {} was running; a Session serves one call at a time: hold a mutex around its "
      "calls, or make a Session for each thread.",
      call, running);
}

TEST(SessionThreadsTest, RefusesEveryCallWhileAStepRuns) {
  Session session = Session::Create(Counter(), {.workers = 1}).value();
  BoundStep bound = session.Bind(kFeeds).value();
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> calls = {
      {"Run", [&] { return session.Run(kFeeds).status(); }},
      {"Evaluate", [&] { return session.Evaluate(kFeeds).status(); }},
      {"Accumulate", [&] { return session.Accumulate(kFeeds).status(); }},
      {"Predict", [&] { return session.Predict(kFeeds).status(); }},
      {"Bind", [&] { return session.Bind(kFeeds).status(); }},
      {"Run of a BoundStep", [&] { return bound.Run(); }},
      {"NewFeed", [&] { return session.NewFeed("x").status(); }},
      {"NewOutput", [&] { return session.NewOutput("y").status(); }},
      {"Get", [&] { return session.Get("w").status(); }},
      {"Set",
       [&] {
         return session.Set("w", Tensor::Zeros({F32, {}}));
       }},
      {"LayoutOf", [&] { return session.LayoutOf("w").status(); }},
      {"Shards", [&] { return session.Shards("w").status(); }},
      {"Undo", [&] { return session.Undo(); }},
      {"Save", [&] { return session.Save("/nowhere"); }},
      {"Restore", [&] { return session.Restore("/nowhere").status(); }},
      {"Remesh", [&] { return session.Remesh(Mesh()).status(); }},
      {"Remesh", [&] { return session.Remesh(Counter()).status(); }},
      {"PredictTime", [&] { return session.PredictTime(Topology()).status(); }},
  };
  std::vector<absl::Status> said;
  CalledByTheNextStep() = [&] {
    for (const auto& [name, call] : calls) said.push_back(InAnotherThread(call));
    said.push_back(calls[0].second());  // in the same thread: the step waits for its kernel
  };
  ASSERT_EQ(MessageOf(session.Run(kFeeds).status()), "");
  ASSERT_EQ(said.size(), calls.size() + 1);
  for (size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(said[i].code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(MessageOf(said[i]), Refused(calls[i % calls.size()].first, "Run"));
  }
  // The refused calls have changed nothing.
  EXPECT_EQ(CountOf(session), 1);
  EXPECT_EQ(session.steps_done(), 1);
}

TEST(SessionThreadsTest, NamesTheCallThatRuns) {
  Session session = Session::Create(Counter(), {.workers = 1}).value();
  BoundStep bound = session.Bind(kFeeds).value();
  const std::vector<std::pair<std::string, std::function<absl::Status()>>> running = {
      {"Run of a BoundStep", [&] { return bound.Run(); }},
      {"Evaluate", [&] { return session.Evaluate(kFeeds).status(); }},
      {"Accumulate", [&] { return session.Accumulate(kFeeds).status(); }},
      {"Predict", [&] { return session.Predict(kFeeds).status(); }},
  };
  for (const auto& [name, run] : running) {
    absl::Status said;
    CalledByTheNextStep() = [&] { said = InAnotherThread([&] { return session.Get("w").status(); }); };
    ASSERT_EQ(MessageOf(run()), "");
    EXPECT_EQ(MessageOf(said), Refused("Get", name));
  }
}

// A call that fails also ends, and the next one is served.
TEST(SessionThreadsTest, ServesTheNextCallAfterOneThatFailed) {
  Session session = Session::Create(Counter(), {.workers = 1}).value();
  EXPECT_FALSE(session.Run({}).ok());
  EXPECT_FALSE(session.Get("v").ok());
  EXPECT_FALSE(session.Restore("/nowhere").ok());
  EXPECT_EQ(MessageOf(session.Run(kFeeds).status()), "");
}

TEST(SessionThreadsTest, ThreadsMayTakeTurns) {
  Session session = Session::Create(Counter(), {.workers = 2}).value();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(MessageOf(InAnotherThread([&] { return session.Run(kFeeds).status(); })), "");
  // One thread may make a session, another one use it, and a third one drop it.
  std::async(std::launch::async, [moved = std::move(session)] { EXPECT_EQ(CountOf(moved), 10); }).get();
}

// Without any order between them each call is served or refused, and none is served by half.
TEST(SessionThreadsTest, CountsTheStepsThatItServed) {
  Session session = Session::Create(Counter(), {.workers = 1, .own_cores = false}).value();
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const absl::Status status = session.Run(kFeeds).status();
        if (status.ok()) ++served;
        else EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_EQ(CountOf(session), served);
  EXPECT_EQ(session.steps_done(), served);
}

}  // namespace
}  // namespace meshwork::session_threads_test
