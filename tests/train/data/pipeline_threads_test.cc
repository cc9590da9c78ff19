// Pipelines with threads: the same elements, no more read ahead than said, and ends of all kinds.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline.h"
#include "support/forks.h"
#include "train/data/counting.h"
#include "train/data/pipeline_values.h"

namespace meshwork::pipeline_threads_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Takes longer for some numbers, so that threads overtake each other.
Example Uneven(int64_t i) {
  if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  return Number(i);
}

TEST(PipelineThreadsTest, ElementsDoNotDependOnThreads) {
  const auto make = [](int threads) {
    const auto squared = [](const Example& e) { return Uneven(NumberOf(e) * NumberOf(e)); };
    const MapOptions on = {.threads = threads};
    std::vector<Pipeline> all = {
        Pipeline::FromFunction(60, Uneven, on),
        Pipeline::FromFunction(60, Uneven, on).Shuffle(10, 1).Map(squared, on).Repeat(2).Batch(7),
        Pipeline::Interleave({Pipeline::FromFunction(20, Uneven, on),
                              Pipeline::FromFunction(30, Uneven).Map(squared, on).Prefetch(4)},
                             {.block = 3})
            .Shuffle(8, 4)
            .Map(squared, on),
    };
    if (threads > 0)
      for (Pipeline& pipeline : all) pipeline = pipeline.Prefetch(threads);
    return all;
  };
  const std::vector<Pipeline> expected = make(0);
  for (int threads : {1, 2, 4}) {
    const std::vector<Pipeline> threaded = make(threads);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(Walk(threaded[i]), Walk(expected[i]));
  }
}

TEST(PipelineThreadsTest, SeveralWalksAtATime) {
  const Pipeline pipeline =
      Pipeline::FromFunction(50, Uneven, {.threads = 2}).Shuffle(9, 1).Cache().Repeat(2).Prefetch(3);
  const Walked expected = Walk(Pipeline::FromFunction(50, Number).Shuffle(9, 1).Cache().Repeat(2));
  std::vector<std::thread> walkers;
  for (int i = 0; i < 4; ++i) walkers.emplace_back([&] { EXPECT_EQ(Walk(pipeline), expected); });
  for (std::thread& walker : walkers) walker.join();
}

TEST(PipelineThreadsTest, ReadsAheadAsFarAsSaidAndNoFarther) {
  std::atomic<int64_t> made = 0, taken = 0, farthest = 0;
  const auto count = [&](int64_t i) {
    const int64_t ahead = ++made - taken;
    for (int64_t known = farthest; ahead > known && !farthest.compare_exchange_weak(known, ahead);) {
    }
    return Number(i);
  };
  const auto walk_slowly = [&](const Pipeline& pipeline) {
    made = taken = farthest = 0;
    for (const Example& e : pipeline) {
      EXPECT_EQ(NumberOf(e), taken);
      if (taken % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++taken;
    }
    return farthest.load();
  };
  // The loop has received the current element, but has not counted it yet.
  EXPECT_EQ(walk_slowly(Pipeline::FromFunction(100, count)), 1);
  for (int64_t n : {1, 2, 8}) {
    EXPECT_LE(walk_slowly(Pipeline::FromFunction(100, count).Prefetch(n)), n + 1);
    EXPECT_LE(walk_slowly(Pipeline::FromFunction(100, count, {.threads = static_cast<int>(n)})), 2 * n + 1);
  }
}

TEST(PipelineThreadsTest, LeavingEarlyEndsTheThreads) {
  std::atomic<int64_t> running = 0, made = 0;
  const auto slow = [&](int64_t i) {
    ++running;
    ++made;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --running;
    return Number(i);
  };
  for (int leave_after : {0, 1, 5}) {
    {
      PipelineIterator walk = Pipeline::Interleave({Pipeline::FromFunction({}, slow, {.threads = 3}),
                                                    Pipeline::FromFunction({}, slow).Prefetch(2)})
                                  .Map([](Example e) { return e; }, {.threads = 2})
                                  .Batch(2)
                                  .Prefetch(3)
                                  .Begin();
      for (int i = 0; i < leave_after; ++i) ASSERT_TRUE(walk.Next().ok());
    }
    EXPECT_EQ(running, 0);
    const int64_t before = made;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(made, before);
  }
}

TEST(PipelineThreadsTest, AnErrorComesAfterTheElementsBeforeIt) {
  const auto fails = [](int64_t i) -> absl::StatusOr<Example> {
    if (i == 7) return InvalidArgument("no picture");
    if (i == 9) throw std::runtime_error("not reached in order");
    return Uneven(i);
  };
  for (int threads : {0, 1, 2, 4}) {
    for (const Pipeline& pipeline :
         {Pipeline::FromFunction(100, fails, {.threads = threads}),
          Pipeline::FromFunction(100, fails, {.threads = threads}).Prefetch(3),
          Pipeline::FromFunction({}, fails, {.threads = threads}).Prefetch(3).Prefetch(1)}) {
      PipelineIterator walk = pipeline.Begin();
      for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(NumberOf(**walk.Next()), i);
      for (int again = 0; again < 2; ++again)
        EXPECT_EQ(MessageOf(walk.Next().status()), "FromFunction: element 7: no picture");
      EXPECT_EQ(MessageOf(walk.Save().status()), "FromFunction: element 7: no picture");
    }
  }
}

TEST(PipelineThreadsTest, WhatAFunctionThrowsIsAnError) {
  const auto with = [](int threads, int what) {
    const Pipeline pipeline = Numbers(5).Map(
        [what](const Example& e) -> absl::StatusOr<Example> {
          if (NumberOf(e) < 2) return e;
          if (what == 0) throw std::runtime_error("boom");
          if (what == 1) throw 7;
          return Example{{"x", Tensor::From<float>({}, {static_cast<float>(e["x"].values<float>()[0])})}};
        },
        {.threads = threads});
    PipelineIterator walk = pipeline.Begin();
    EXPECT_TRUE(walk.Next().ok());
    EXPECT_TRUE(walk.Next().ok());
    return std::string(MessageOf(walk.Next().status()));
  };
  for (int threads : {0, 2}) {
    EXPECT_EQ(with(threads, 0), "Map: element 2: a library failed: boom.");
    EXPECT_THAT(with(threads, 1), HasSubstr("Map: element 2: "));
    EXPECT_THAT(with(threads, 2), HasSubstr("Map: element 2: Tensor"));
  }
  const Pipeline wrong = Numbers(5).Batch(0);
  EXPECT_THROW(
      {
        for (const Example& e : wrong) (void)e;
      },
      absl::BadStatusOrAccess);
}

TEST(PipelineThreadsTest, AChildOfAForkBeginsAnew) {
  if (!kMayFork) GTEST_SKIP() << "sanitizers do not fork with threads";
  const Pipeline pipeline = Numbers(6, {.threads = 2}).Cache().Batch(2).Prefetch(2);
  PipelineIterator threaded = pipeline.Begin(), alone = Numbers(6).Batch(2).Begin();
  ASSERT_TRUE(threaded.Next().ok());
  ASSERT_TRUE(alone.Next().ok());
  const std::string said = SaidByChild([&] {
    std::string text = fmt::format("{}", MessageOf(threaded.Next().status()));
    text += fmt::format("; {}", ValuesOf(**alone.Next())[0]);
    for (const std::vector<int64_t>& batch : Walk(pipeline)) text += fmt::format("; {}", batch[0]);
    { const PipelineIterator left = std::move(threaded); }
    return text;
  });
  EXPECT_THAT(said, HasSubstr("Prefetch"));
  EXPECT_TRUE(said.ends_with("; 2; 0; 2; 4")) << said;
  EXPECT_THAT(RestOf(threaded), ElementsAre(ElementsAre(2, 3), ElementsAre(4, 5)));
}

}  // namespace
}  // namespace meshwork::pipeline_threads_test
