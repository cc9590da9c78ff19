// Feeds that are staged on a GPU before their step, and trainings that prefetch feeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_backend/played_session.h"
#include "meshwork/base/status.h"
#include "meshwork/train/fit/training_loop.h"
#include "support/small_session.h"

namespace meshwork::prefetch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kWide = 20'001;  // a batch has 320 KB: several pieces

// x: f32[4,w] -> sum, of x; "seen" becomes the sum of all x so far. Uneven blocks on three devices.
Graph WideSums() {
  Graph g(Mesh::VirtualCpus("batch=2,model=3").value());
  const Value x = g.Input("x", F32, {4, kWide}, {"batch", "model"});
  const Variable seen = g.Var("seen", Zeros({4, kWide}, F32), {"batch", "model"});
  g.Update(seen, seen + x);
  g.Output("sum", ReduceSum(x, {0, 1}));
  return g;
}

// Whole numbers, whose sums are exact.
Feeds WideBatch(int64_t step) {
  std::vector<float> x(static_cast<size_t>(4 * kWide));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>((i + static_cast<size_t>(step) * 7919) % 31);
  return {{"x", Tensor::From<float>({4, kWide}, x)}};
}
double WideSum(int64_t step) {
  const Feeds batch = WideBatch(step);
  double sum = 0;
  for (const float x : batch.at("x").values<float>()) sum += x;
  return sum;
}

PrefetchToDevice::Source WideBatches(int64_t count) {
  return [count, next = int64_t{0}]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    if (next == count) return std::nullopt;
    return NextFeeds{WideBatch(next++)};
  };
}

TEST(CudaPrefetchTest, AStagedStepCopiesNothing) {
  for (const bool profile : {false, true}) {
    PlayedGpu gpu(1);
    {
      Session session = OnGpu(gpu, WideSums(), {.executor = {.poison_padding = true, .profile = profile}});
      StagedFeeds staged = session.NewStagedFeeds().value();
      EXPECT_FALSE(staged.is_on_host());
      const Feeds feeds = WideBatch(0), others = WideBatch(1);
      ASSERT_EQ(MessageOf(staged.Stage(feeds)), "");
      ASSERT_TRUE(session.Run(feeds, staged).ok());  // makes tables, which are copied
      gpu.cuda.FailCall("cuMemcpyHtoDAsync", 1);
      EXPECT_EQ(session.Run(feeds, staged)->scalar("sum").value(), WideSum(0));
      EXPECT_EQ(gpu.cuda.failed_call(), "");
      // Tensors other than the staged ones are copied.
      EXPECT_FALSE(session.Run(others, staged).ok());
      EXPECT_EQ(gpu.cuda.failed_call(), "cuMemcpyHtoDAsync");
      EXPECT_EQ(session.Run(others, staged)->scalar("sum").value(), WideSum(1));
    }
    ExpectClean(gpu);
  }
}

// The seed chooses the order in which streams do their work: a step that does not wait for its feeds, or a copy that
// does not wait for the previous step, gives other numbers.
TEST(CudaPrefetchTest, NumbersAreThoseOfCopiedFeeds) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    PlayedGpu gpu(seed);
    {
      Session session = OnGpu(gpu, WideSums(), {.executor = {.atomic = seed % 2 == 1}});
      Session copying = OnGpu(gpu, WideSums());
      const auto ahead = PrefetchToDevice::Create(session).value();
      EXPECT_TRUE(ahead->prefetches());
      for (const int64_t count : {5, 3}) {
        ahead->Start(WideBatches(count));
        for (int64_t step = 0; step < count; ++step) {
          const PrefetchedFeeds* const batch = ahead->Next().value();
          ASSERT_NE(batch, nullptr);
          EXPECT_EQ(session.Run(batch->feeds, batch->staged)->scalar("sum").value(), WideSum(step)) << seed;
          ASSERT_TRUE(copying.Run(batch->feeds).ok());
        }
        EXPECT_EQ(ahead->Next().value(), nullptr);
      }
      ExpectSameState(session, ValuesOf(copying));
    }
    ExpectClean(gpu);
  }
}

// There are two sets of staged feeds, allocated once.
TEST(CudaPrefetchTest, KeepsItsMemory) {
  PlayedGpu gpu(2);
  {
    Session session = OnGpu(gpu, WideSums());
    const auto ahead = PrefetchToDevice::Create(session).value();
    const auto take = [&](int64_t count) {
      ahead->Start(WideBatches(count));
      while (const PrefetchedFeeds* const batch = ahead->Next().value())
        ASSERT_TRUE(session.Run(batch->feeds, batch->staged).ok());
    };
    ASSERT_TRUE(session.Run(WideBatch(0)).ok());
    const int64_t before = gpu.cuda.BytesInUse(0);
    take(4);
    const int64_t used = gpu.cuda.BytesInUse(0);
    EXPECT_GE(used, before + 2 * 4 * 4 * kWide);
    EXPECT_LT(used, before + 3 * 4 * 4 * kWide);
    take(5);
    EXPECT_EQ(gpu.cuda.BytesInUse(0), used);
  }
  ExpectClean(gpu);
}

// Whole tensors are staged, so it does not matter on which mesh the step runs.
TEST(CudaPrefetchTest, WhatIsStagedOutlivesARemesh) {
  PlayedGpu gpu(4);
  {
    Session session = OnGpu(gpu, WideSums());
    StagedFeeds staged = session.NewStagedFeeds().value();
    const Feeds feeds = WideBatch(3);
    ASSERT_TRUE(staged.Stage(feeds).ok());
    ASSERT_EQ(MessageOf(session.Remesh(Mesh::Parse("batch=1,model=4").value()).status()), "");
    EXPECT_EQ(session.Run(feeds, staged)->scalar("sum").value(), WideSum(3));
  }
  ExpectClean(gpu);
}

TEST(CudaPrefetchTest, MemoryOfAnotherGpuIsRefused) {
  PlayedGpu gpu(1, {}, /*count=*/2);
  {
    Session first = Session::Create(WideSums(), {.backend = gpu.MakeBackend(0).value()}).value();
    const Session second = Session::Create(WideSums(), {.backend = gpu.MakeBackend(1).value()}).value();
    StagedFeeds staged = second.NewStagedFeeds().value();
    const Feeds feeds = WideBatch(0);
    ASSERT_TRUE(staged.Stage(feeds).ok());
    EXPECT_EQ(
        MessageOf(first.Run(feeds, staged).status()),
        "Run: feed \"x\" is staged in the memory of GPU 1 (Simulated GPU) by another backend than the step's, "
        "which works in the memory of GPU 0 (Simulated GPU); give both sessions one SessionOptions::backend.");
    EXPECT_TRUE(first.Run(feeds).ok());
  }
  ExpectClean(gpu);
}

TEST(CudaPrefetchTest, FitAndItsEpochsAreThoseOfCopiedFeeds) {
  const Feeds all = MlpRows(21);
  // The last batch of a walk has 5 rows.
  const Pipeline data = BatchesOf(all, {.batch_size = kMlpRows, .shuffle_seed = 5}).value();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    PlayedGpu gpu(seed);
    {
      History histories[2];
      std::map<std::string, Tensor> values[2];
      for (const bool prefetches : {false, true}) {
        Session session = OnGpu(gpu, SmallMlp(), {.executor = {.atomic = seed % 2 == 0}});
        FitOptions options{.epochs = 3,
                           .steps_per_epoch = seed < 2 ? 0 : 4,
                           .validation_data = data,
                           .log = [](std::string_view) {}};
        if (!prefetches) options.prefetch_to_device = false;  // on a GPU it does so by itself
        histories[prefetches] = Fit(session, data, options).value();
        values[prefetches] = ValuesOf(session);
        if (prefetches) ExpectSameState(session, values[0]);
      }
      for (size_t e = 0; e < 3; ++e)
        EXPECT_EQ(histories[0].epochs[e].values, histories[1].epochs[e].values) << seed;
    }
    ExpectClean(gpu);
  }
}

// A training that is stopped after each step continues with the next batch.
TEST(CudaPrefetchTest, TrainingsWithCheckpointsCountNoBatchTwice) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string dir = fmt::format("{}meshwork-{}-{}", testing::TempDir(), test.name(), getpid());
  PlayedGpu gpu(1);
  {
    const Feeds all = MlpRows(21);
    const Dataset examples = Dataset::Create({{"x", all.at("x")}, {"y", all.at("y")}}).value();
    const auto train = [&](const std::string& name, int64_t steps) {
      const TrainSpec spec{.input = {examples,
                                     {.batch_size = kMlpRows, .shuffle_seed = 3},
                                     [](const Batch& b) {
                                       return Feeds{{"x", b["x"]}, {"y", b["y"]}};
                                     }},
                           .max_steps = steps};
      RunConfig config{.model_dir = dir + name, .save_checkpoints_steps = 100};
      config.session.backend = gpu.MakeBackend().value();
      config.log = [](std::string_view) {};
      config.seconds = [] { return 0.0; };
      return TrainWithCheckpoints([](Mode) { return SmallMlp(); }, spec, nullptr, config).value();
    };
    const Evaluation whole = train("/whole", 7);
    Evaluation last;
    for (int64_t steps = 1; steps <= 7; ++steps) last = train("/parts", steps);
    EXPECT_EQ(last.metrics, whole.metrics);
  }
  ExpectClean(gpu);
  std::filesystem::remove_all(dir);
}

// ---- Failures.

// After the failure nothing is staged, and the step copies its feeds.
TEST(CudaPrefetchTest, AnyCallOfStagingMayFail) {
  PlayedGpu gpu(1);
  {
    Session session = OnGpu(gpu, WideSums());
    std::map<std::string, int> failed;
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 1000);
      StagedFeeds staged = session.NewStagedFeeds().value();
      const Feeds feeds = WideBatch(nth);
      gpu.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);
      const absl::Status status = staged.Stage(feeds);
      const std::string call = gpu.cuda.failed_call();
      EXPECT_EQ(staged.AmongThem(feeds).size(), status.ok() ? 1u : 0u) << call;
      if (call.empty()) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      if (!status.ok()) {
        ++failed[call];
        EXPECT_THAT(status.message(), HasSubstr("feed \"x\": ")) << call;
      }
      for (const int64_t step : {nth, nth + 1}) {
        const Feeds next = step == nth ? feeds : WideBatch(step);
        if (step > nth) {
          ASSERT_EQ(MessageOf(staged.Stage(next)), "") << call;
        }
        const absl::StatusOr<StepResult> result = session.Run(next, staged);
        ASSERT_TRUE(result.ok()) << call << ": " << result.status();
        EXPECT_EQ(result->scalar("sum").value(), WideSum(step)) << call;
      }
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << call << ", call " << nth;
    }
    EXPECT_GE(failed["cuMemcpyHtoDAsync"], 1);
    EXPECT_EQ(failed["cuMemAllocAsync"], 1);
  }
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

// The thread and the time of the failing call vary. All batches before the error are right, and nothing hangs.
TEST(CudaPrefetchTest, AnyCallMayFailWhileAStepRuns) {
  PlayedGpu gpu(2);
  {
    Session session = OnGpu(gpu, WideSums());
    ASSERT_TRUE(session.Run(WideBatch(0)).ok());
    int failed = 0;
    for (int nth = 1;; nth += 3) {
      ASSERT_LT(nth, 3000);
      bool has_failed = false;
      gpu.cuda.FailAnyCall(nth, CUDA_ERROR_INVALID_VALUE);
      {
        const auto ahead = PrefetchToDevice::Create(session).value();
        ahead->Start(WideBatches(3));
        for (int64_t step = 0; step < 3; ++step) {
          const absl::StatusOr<const PrefetchedFeeds*> batch = ahead->Next();
          has_failed = !batch.ok();
          if (has_failed) break;
          ASSERT_NE(*batch, nullptr);
          const absl::StatusOr<StepResult> result = session.Run((*batch)->feeds, (*batch)->staged);
          has_failed = !result.ok();
          if (has_failed) break;
          EXPECT_EQ(result->scalar("sum").value(), WideSum(step)) << gpu.cuda.failed_call();
        }
      }
      failed += has_failed ? 1 : 0;
      const std::string call = gpu.cuda.failed_call();
      EXPECT_THAT(gpu.cuda.TakeFindings(), IsEmpty()) << call << ", call " << nth;
      if (call.empty()) break;
    }
    EXPECT_GT(failed, 10);
    gpu.cuda.FailCall("no other", 1);
    EXPECT_EQ(session.Run(WideBatch(1))->scalar("sum").value(), WideSum(1));
  }
  EXPECT_THAT(gpu.cuda.TakeLeaks(), IsEmpty());
}

// The GPU has no memory for the second set.
TEST(CudaPrefetchTest, SaysWhereMemoryEnds) {
  PlayedGpu gpu(3, {.bytes = 8 << 20});
  {
    Session session = OnGpu(gpu, SmallMlp());
    const auto ahead = PrefetchToDevice::Create(session).value();
    ahead->Start([]() -> absl::StatusOr<std::optional<NextFeeds>> {
      return NextFeeds{{{"x", Tensor::Zeros({F32, {5 << 18}})}}};
    });
    ASSERT_TRUE(ahead->Next().ok());
    const absl::Status status = ahead->Next().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(status.message(), HasSubstr("allocating 5242880 bytes"));
    EXPECT_THAT(status.message(), HasSubstr("feed \"x\": "));
    EXPECT_TRUE(session.Run(MlpRows(kMlpRows)).ok());
  }
  ExpectClean(gpu);
}

}  // namespace
}  // namespace meshwork::prefetch_test
