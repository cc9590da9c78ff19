// Batches that a thread fetches ahead, on the CPU: the same ones, in the same order, with the same errors. On a GPU:
// tests/cuda_backend/prefetch_test.cc.
#include "meshwork/train/fit/prefetch_to_device.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "support/forks.h"
#include "support/temp_dir.h"
#include "train/fit_programs.h"

namespace meshwork::prefetch_to_device_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor One(double x) { return Tensor::From<double>({}, {x}); }
Feeds Number(double x) { return {{"x", Tensor::From<double>({1}, {x})}}; }

// 0, 1, …, count - 1, and then the end, or `failed`. `calls` counts the calls.
PrefetchToDevice::Source Numbers(int count, absl::Status failed = absl::OkStatus(),
                                 std::atomic<int>* calls = nullptr) {
  return [=, next = 0]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    if (calls != nullptr) ++*calls;
    if (next < count) return NextFeeds{Number(next++), fmt::format("behind {}", next - 1)};
    if (!failed.ok()) return failed;
    return std::nullopt;
  };
}

class PrefetchToDeviceTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<PrefetchToDevice> Make() { return PrefetchToDevice::Create(session_, GetParam()).value(); }

  Session session_ = Session::Create(Echo(), {.workers = 1}).value();
};
INSTANTIATE_TEST_SUITE_P(Ahead, PrefetchToDeviceTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "Here"; });

TEST_P(PrefetchToDeviceTest, GivesAllBatchesInOrderAndThenTheEnd) {
  const auto ahead = Make();
  EXPECT_EQ(ahead->prefetches(), GetParam());
  for (const int count : {0, 1, 2, 5}) {
    ahead->Start(Numbers(count));
    for (int i = 0; i < count; ++i) {
      const PrefetchedFeeds* const batch = ahead->Next().value();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->position, fmt::format("behind {}", i));
      EXPECT_EQ(session_.Run(batch->feeds, batch->staged)->scalar("loss").value(), i);
    }
    EXPECT_EQ(ahead->Next().value(), nullptr);
    EXPECT_EQ(ahead->Next().value(), nullptr);
  }
}

TEST_P(PrefetchToDeviceTest, AnErrorComesBehindTheBatchesBeforeIt) {
  const auto ahead = Make();
  for (const int count : {0, 1, 4}) {
    ahead->Start(Numbers(count, absl::DataLossError("a file is damaged")));
    for (int i = 0; i < count; ++i) EXPECT_EQ(ahead->Next().value()->feeds.at("x").Scalar().value(), i);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(ahead->Next().status(), absl::DataLossError("a file is damaged"));
  }
  ahead->Start(Numbers(1));  // another source is not affected
  EXPECT_NE(ahead->Next().value(), nullptr);
}

TEST_P(PrefetchToDeviceTest, NeedsASource) {
  const auto ahead = Make();
  EXPECT_EQ(ahead->Next().status().code(), absl::StatusCode::kFailedPrecondition);
  ahead->Start(Numbers(3));
  ASSERT_TRUE(ahead->Next().ok());
  ahead->Stop();
  EXPECT_THAT(ahead->Next().status().message(), HasSubstr("call Start first"));
}

// The set that Next returned stays unchanged, and the source is at most two batches ahead.
TEST(PrefetchAheadTest, IsTwoBatchesAheadAtMost) {
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  const auto ahead = PrefetchToDevice::Create(session, true).value();
  std::atomic<int> calls = 0;
  ahead->Start(Numbers(1 << 20, absl::OkStatus(), &calls));
  EXPECT_EQ(calls, 0);  // nothing begins before the first Next
  for (int i = 0; i < 50; ++i) {
    const PrefetchedFeeds* const batch = ahead->Next().value();
    while (calls < i + 2) std::this_thread::yield();  // the next one is fetched while this one is used
    EXPECT_EQ(batch->feeds.at("x").Scalar().value(), i);
    EXPECT_EQ(calls, i + 2);
  }
}

TEST(PrefetchAheadTest, WhatTheSourceThrowsIsAStatus) {
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  const auto ahead = PrefetchToDevice::Create(session, true).value();
  ahead->Start([]() -> absl::StatusOr<std::optional<NextFeeds>> { throw std::runtime_error("no luck"); });
  EXPECT_THAT(ahead->Next().status().message(), HasSubstr("The next batch: a library failed: no luck"));
  ahead->Start([]() -> absl::StatusOr<std::optional<NextFeeds>> {
    throw absl::BadStatusOrAccess(absl::NotFoundError("no file"));
  });
  EXPECT_EQ(ahead->Next().status(), absl::NotFoundError("no file"));
}

TEST(PrefetchAheadTest, AsksForNoMoreThanAreWanted) {
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  for (const bool prefetches : {false, true}) {
    std::atomic<int> calls = 0;
    const auto ahead = PrefetchToDevice::Create(session, prefetches).value();
    ahead->Start(Numbers(9, absl::OkStatus(), &calls), /*most=*/3);
    for (int i = 0; i < 3; ++i) ASSERT_NE(ahead->Next().value(), nullptr);
    EXPECT_EQ(ahead->Next().value(), nullptr);
    EXPECT_EQ(calls, 3);
  }
}

// A Fit with counted steps asks for no more, either: there may be no more data, and a request could block for ever.
TEST(PrefetchAheadTest, AFitTakesTheBatchesOfItsStepsAlone) {
  for (const bool prefetches : {false, true}) {
    Session session = Session::Create(Echo(), {.workers = 1}).value();
    std::atomic<int> calls = 0;
    FitOptions options{.epochs = 2,
                       .steps_per_epoch = 3,
                       .feeds =
                           [&](const Example&) {
                             ++calls;
                             return Number(1);
                           },
                       .log = [](std::string_view) {}};
    options.prefetch_to_device = prefetches;
    const absl::StatusOr<History> history = Fit(session, ExampleBatches(5), options);
    ASSERT_TRUE(history.ok()) << history.status();
    EXPECT_EQ(calls, 6);
  }
}

// The object may be destroyed in every state of the thread: not begun, fetching, waiting for a set, at the end.
TEST(PrefetchAheadTest, MayEndAtAnyTime) {
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  for (int round = 0; round < 50; ++round)
    for (const int taken : {0, 1, 2, 3}) {
      const auto ahead = PrefetchToDevice::Create(session, true).value();
      ahead->Start(Numbers(round % 2 == 0 ? 2 : 1 << 20));
      for (int i = 0; i < taken; ++i) ASSERT_TRUE(ahead->Next().ok());
      if (round % 3 == 0) ahead->Start(Numbers(1));
    }
}

// The source uses objects that are destroyed after the PrefetchToDevice.
TEST(PrefetchAheadTest, WaitsForTheSourceThatIsRunning) {
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  auto ahead = PrefetchToDevice::Create(session, true).value();
  std::atomic<bool> runs = false, has_run = false;
  ahead->Start([&, n = 0]() mutable -> absl::StatusOr<std::optional<NextFeeds>> {
    if (++n == 1) return NextFeeds{Number(0)};
    runs = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    has_run = true;
    return absl::CancelledError("stopped");
  });
  ASSERT_TRUE(ahead->Next().ok());
  while (!runs) std::this_thread::yield();
  ahead.reset();
  EXPECT_TRUE(has_run);
}

TEST(PrefetchAheadTest, FailsInTheChildOfAFork) {
  if (!kMayFork) GTEST_SKIP() << "sanitizers do not fork with threads";
  const Session session = Session::Create(Echo(), {.workers = 1}).value();
  const auto ahead = PrefetchToDevice::Create(session, true).value();
  ahead->Start(Numbers(5));
  ASSERT_TRUE(ahead->Next().ok());
  const std::string said = SaidByChild([&] {
    ahead->Start(Numbers(5));  // the child may not start the parent's object
    const absl::Status refused = ahead->Next().status();
    const auto own = PrefetchToDevice::Create(session, true).value();
    own->Start(Numbers(2));
    const double first = own->Next().value()->feeds.at("x").Scalar().value();
    return fmt::format("{}; {}", MessageOf(refused).substr(0, MessageOf(refused).find(',')), first);
  });
  EXPECT_EQ(said, "PrefetchToDevice: it is the parent's; 0");
  EXPECT_EQ(ahead->Next().value()->feeds.at("x").Scalar().value(), 1);
}

// ---- Fit.

class PrefetchFitTest : public TempDirTest {};

// Options with a validation; the last batch is short.
FitOptions OptionsOf(bool prefetches, int64_t steps_per_epoch) {
  FitOptions options{.epochs = 3,
                     .steps_per_epoch = steps_per_epoch,
                     .validation_data = ExampleBatches(5),
                     .log = [](std::string_view) {}};
  options.prefetch_to_device = prefetches;
  return options;
}

TEST_F(PrefetchFitTest, NumbersAndPositionsAreTheSame) {
  const Pipeline data = ExampleBatches(5, /*shuffle_seed=*/3);
  for (const int64_t steps_per_epoch : {0, 4}) {
    std::vector<std::string> notes[2];
    Tensors state[2];
    History histories[2];
    for (const bool prefetches : {false, true}) {
      Session session = Session::Create(Classifier("batch=2,model=2", 5)).value();
      FitOptions options = OptionsOf(prefetches, steps_per_epoch);
      options.callbacks = {Lambdas({.on_step_end = [&](FitState& fit) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(const CheckpointNote note, fit.Note());
        notes[prefetches].push_back(
            fmt::format("{} {}", note.facts.at("fit/walk"), note.facts.at("fit/position")));
        return absl::OkStatus();
      }})};
      histories[prefetches] = Fit(session, data, options).value();
      state[prefetches] = StateOf(session);
    }
    EXPECT_EQ(notes[0], notes[1]);
    ASSERT_EQ(histories[0].epochs.size(), 3u);
    for (size_t e = 0; e < 3; ++e) EXPECT_EQ(histories[0].epochs[e].values, histories[1].epochs[e].values);
    for (const auto& [name, tensor] : state[0]) EXPECT_TRUE(BitwiseEqual(tensor, state[1].at(name))) << name;
  }
}

// Batches that were fetched ahead of the last backup are fetched again.
TEST_F(PrefetchFitTest, GoesOnFromAnyStep) {
  const Pipeline data = ExampleBatches(5, /*shuffle_seed=*/3);
  Session whole = Session::Create(Classifier("batch=1", 5)).value();
  const History expected = Fit(whole, data, OptionsOf(false, 0)).value();
  for (int64_t stop = 1; stop < expected.steps; ++stop) {
    std::filesystem::remove_all(Path("backup"));
    for (int run = 0; run < 2; ++run) {
      Session session = Session::Create(Classifier("batch=1", 5)).value();
      FitOptions options = OptionsOf(/*prefetches=*/run == stop % 2, 0);
      options.callbacks = {BackupAndResume({.dir = Path("backup")})};
      if (run == 0) options.stop = [&] { return session.steps_done() >= stop; };
      const History history = Fit(session, data, options).value();
      if (run == 0) continue;
      EXPECT_EQ(history.steps, expected.steps);
      EXPECT_EQ(history.epochs.back().values, expected.epochs.back().values) << stop;
      for (const auto& [name, tensor] : StateOf(session))
        EXPECT_TRUE(BitwiseEqual(tensor, whole.Get(name).value())) << name << " stopped after " << stop;
    }
  }
}

// `feeds` is called ahead; the step itself reads what callbacks feed.
TEST_F(PrefetchFitTest, WhatACallbackFeedsIsOfItsStep) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  const Value x = g.Input("x", F64, {1}, {UNSHARDED});
  const Value rate = g.Input("rate", F64, {}, {});
  g.Update(g.Var("seen", Zeros({1}, F64), {UNSHARDED}), x);
  g.Output("loss", ReduceSum(x, {0}) * rate);
  Session session = Session::Create(g).value();
  std::vector<double> losses;
  FitOptions options{.feeds = [](const Example& batch) -> absl::StatusOr<Feeds> {
                       return Feeds{{"x", batch["x"]}, {"rate", One(-1)}};
                     },
                     .fed = {{"rate", One(1)}},
                     .prefetch_to_device = true};
  options.callbacks = {Lambdas({.on_step_end = [&](FitState& fit) {
    losses.push_back(fit.logs().at("loss"));
    fit.Feed("rate", One(static_cast<double>(fit.steps() + 1)));
    return absl::OkStatus();
  }})};
  options.steps_per_epoch = 1;
  options.epochs = 4;
  ASSERT_TRUE(Fit(session, Losses({1, 10, 100, 1000}), options).ok());
  EXPECT_THAT(losses, ElementsAre(1, 20, 300, 4000));
}

TEST_F(PrefetchFitTest, ErrorsSayTheirStep) {
  std::vector<std::string> messages;
  for (const bool prefetches : {false, true}) {
    for (const bool of_data : {false, true}) {
      Session session = Session::Create(Echo()).value();
      const Pipeline data = Losses({0, 1, 2, 3, 4}).Map([&](Example e) -> absl::StatusOr<Example> {
        if (of_data && e["x"].Scalar().value() == 3) return absl::DataLossError("three is damaged");
        return e;
      });
      FitOptions options{.prefetch_to_device = prefetches};
      options.feeds = [](const Example& e) -> absl::StatusOr<Feeds> {
        if (e["x"].Scalar().value() == 3) return absl::OutOfRangeError("three is too much");
        return Feeds{{"x", e["x"]}};
      };
      const absl::Status status = Fit(session, data, options).status();
      messages.emplace_back(status.message());
      EXPECT_EQ(session.steps_done(), 3);
    }
  }
  EXPECT_EQ(messages[0], "Fit: epoch 1, step 4: three is too much");
  EXPECT_THAT(messages[1], HasSubstr("three is damaged"));
  EXPECT_EQ(messages[2], messages[0]);
  EXPECT_EQ(messages[3], messages[1]);
}

}  // namespace
}  // namespace meshwork::prefetch_to_device_test
