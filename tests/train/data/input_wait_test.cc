// The profile of a session names the steps that waited for their input.
#include "meshwork/runtime/exec/input_wait.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork::input_wait_test {
namespace {

// The wait that has to be the longest must exceed all waits that other load on the machine causes.
Example Slow(int64_t i) {
  if (i == 1 || i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(i == 3 ? 400 : 5));
  return {{"x", Tensor::From<float>({2}, {static_cast<float>(i), 1})}};
}

TEST(InputWaitTest, TheProfileNamesStepsThatStarved) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  const Value x = graph.Input("x", F32, {2}, {"batch"});
  graph.Output("loss", ReduceSum(x));
  Session session = Session::Create(graph, {.executor = {.profile = true}}).value();
  for (const Example& e : Pipeline::FromFunction(5, Slow)) ASSERT_TRUE(session.Run({{"x", e["x"]}}).ok());
  const InputWaits input = session.Profile().input;
  EXPECT_EQ(input.steps, 5);
  EXPECT_GE(input.starved, 2);
  EXPECT_GE(input.ns, 405'000'000);
  EXPECT_GE(input.longest_ns, 400'000'000);
  EXPECT_EQ(input.longest_step, 4);
}

// An evaluation's wait does not count for the next step. Nor does another thread's, or one of this thread before
// there was a session.
TEST(InputWaitTest, OnlyItsOwnWaitsAreAStepsOwn) {
  Graph graph(Mesh::VirtualCpus("batch=1").value());
  graph.Output("loss", ReduceSum(graph.Input("x", F32, {2}, {"batch"})));
  AddInputWait(1);
  Session session = Session::Create(graph, {}).value();
  const Feeds feeds = {{"x", Tensor::From<float>({2}, {1, 2})}};
  AddInputWait(1);
  ASSERT_TRUE(session.Evaluate(feeds).ok());
  std::thread([] { AddInputWait(1); }).join();
  ASSERT_TRUE(session.Run(feeds).ok());
  EXPECT_EQ(session.Profile().input.starved, 0);
  AddInputWait(1);
  ASSERT_TRUE(session.Run(feeds).ok());
  EXPECT_EQ(session.Profile().input.starved, 1);
  EXPECT_EQ(session.Profile().input.ns, 1'000'000'000);
}

}  // namespace
}  // namespace meshwork::input_wait_test
