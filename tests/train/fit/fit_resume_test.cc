// A Fit that was interrupted goes on as if it had not been, bit by bit.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/train/cluster/stop_signals.h"
#include "support/temp_dir.h"
#include "train/fit_programs.h"

namespace meshwork::fit_resume_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::KilledBySignal;

// The classifier with dropout that the step decides on, a rate in a variable, and a metric.
Graph Model(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch");
  Value x = g.Input("x", F64, {5, 3}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {5}, {batch});
  Variable step = g.Var("step", Zeros({}, I64), {}, VarOptions{.trainable = false});
  g.Update(step, step + 1.0);
  Variable rate = g.Var("rate", Filled(0.1, {}, F64), {}, VarOptions{.trainable = false});
  Dense dense(g, "dense", 3, 4, {.dtype = F64});
  Value logits = dense(WhenTraining(StatelessDropout(x, 0.3, 7, 0, step), x));
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = rate}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("accuracy", AccuracyMetric(g, "accuracy").Update(logits, y));
  return g;
}

class FitResumeTest : public TempDirTest {
 protected:
  FitOptions Options(int64_t steps_per_epoch) {
    FitOptions options{.epochs = 4,
                       .steps_per_epoch = steps_per_epoch,
                       .validation_data = ExampleBatches(5),
                       .log = [this](std::string_view line) { log_.emplace_back(line); }};
    options.callbacks = {ReduceOnPlateau({.factor = 0.5, .patience = 1, .min_delta = 0.05}),
                         EarlyStopping({.monitor = "accuracy", .best = Best::kHighest, .patience = 3})};
    return options;
  }
  CallbackPtr BackupHere(int64_t steps = 1000) {
    return BackupAndResume({.dir = Path("backup"), .steps = steps});
  }

  std::vector<std::string> log_;
};

void ExpectSame(const History& a, const History& b) {
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.stopped, b.stopped);
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (size_t e = 0; e < a.epochs.size(); ++e) {
    EpochLog x = a.epochs[e], y = b.epochs[e];
    x.seconds = y.seconds = 0;
    EXPECT_EQ(x, y) << "epoch " << e;
  }
}

TEST_F(FitResumeTest, AfterAnyStepBitByBit) {
  for (const char* mesh : {"batch=1", "batch=3,model=2"}) {
    for (const int64_t steps_per_epoch : {0, 4}) {  // the data have three batches
      const Pipeline data = ExampleBatches(5, /*shuffle_seed=*/3);
      Session whole = Session::Create(Model(mesh)).value();
      const History expected = Fit(whole, data, Options(steps_per_epoch)).value();
      ASSERT_GE(expected.steps, 9);
      for (int64_t stop = 1; stop < expected.steps; stop += 2) {
        SCOPED_TRACE(fmt::format("{} {} stopped after {}", mesh, steps_per_epoch, stop));
        std::filesystem::remove_all(Path("backup"));
        History history;
        for (int run = 0; run < 2; ++run) {
          Session session = Session::Create(Model(mesh)).value();
          FitOptions options = Options(steps_per_epoch);
          options.callbacks.insert(options.callbacks.begin(), BackupHere());
          if (run == 0) options.stop = [&] { return session.steps_done() >= stop; };
          history = Fit(session, data, options).value();
          if (run == 0) {
            EXPECT_EQ(history.steps, stop);
            EXPECT_EQ(history.stopped, "interrupted by this process");
            continue;
          }
          for (const auto& [name, tensor] : StateOf(session))
            EXPECT_TRUE(BitwiseEqual(tensor, whole.Get(name).value())) << name;
        }
        ExpectSame(history, expected);
      }
    }
  }
}

TEST_F(FitResumeTest, AfterAnErrorFromTheLastBackup) {
  const Pipeline data = ExampleBatches(5, /*shuffle_seed=*/3);
  Session whole = Session::Create(Model("batch=2")).value();
  FitOptions options = Options(0);
  const History expected = Fit(whole, data, options).value();
  options.callbacks.push_back(BackupHere(/*steps=*/2));
  // A fourth callback, which fails at step 5 of the first run only.
  bool fails = true;
  options.callbacks.push_back(Lambdas({.on_step_end = [&](FitState& state) {
    return fails && state.steps() == 5 ? absl::AbortedError("lost") : absl::OkStatus();
  }}));
  Session first = Session::Create(Model("batch=2")).value();
  EXPECT_EQ(Fit(first, data, options).status(), absl::AbortedError("lost"));
  // The last log line says from which step it resumes: step 4, the last one saved.
  EXPECT_EQ(
      log_.back(),
      fmt::format("Fit: it has failed after step 2 of epoch 2 of 4. Step 4 is saved in {}; the same Fit "
                  "goes on from there.",
                  Path("backup")));
  fails = false;
  Session second = Session::Create(Model("batch=2")).value();
  log_.clear();
  ExpectSame(Fit(second, data, options).value(), expected);
  EXPECT_THAT(log_[0], HasSubstr("BackupAndResume: goes on after step 1 of epoch 2 from "));
  for (const auto& [name, tensor] : StateOf(second))
    EXPECT_TRUE(BitwiseEqual(tensor, whole.Get(name).value())) << name;
}

TEST_F(FitResumeTest, ATrainingThatHasEndedReturnsItsHistory) {
  const Pipeline data = ExampleBatches(5);
  FitOptions options = Options(0);
  options.callbacks.push_back(BackupHere());
  Session first = Session::Create(Model("batch=2")).value(),
          second = Session::Create(Model("batch=2")).value();
  const History history = Fit(first, data, options).value();
  ExpectSame(Fit(second, data, options).value(), history);
  EXPECT_EQ(second.steps_done(), 0);
  for (const auto& [name, tensor] : StateOf(second))
    EXPECT_TRUE(BitwiseEqual(tensor, first.Get(name).value())) << name;
  // With more epochs, training resumes after the last one.
  options.epochs = 6;
  options.callbacks[1] = EarlyStopping({.monitor = "accuracy", .best = Best::kHighest, .patience = 30});
  Session third = Session::Create(Model("batch=2")).value();
  ASSERT_EQ(history.stopped, "");
  EXPECT_EQ(Fit(third, data, options)->epochs.size(), 6u);
}

// timeout and mpirun signal a process and then its group.
TEST(StopSignalsTest, TwoAtOnceAreOne) {
  const auto signaled = [](std::initializer_list<int> signals, std::chrono::milliseconds apart) {
    CatchStopSignals();
    for (const int signal : signals) {
      if (IsStopAsked()) std::this_thread::sleep_for(apart);
      std::raise(signal);
      if (!IsStopAsked()) std::_Exit(1);
    }
    std::_Exit(0);
  };
  using std::chrono::milliseconds;
  EXPECT_EXIT(signaled({SIGTERM}, milliseconds(0)), ExitedWithCode(0), "");
  EXPECT_EXIT(signaled({SIGTERM, SIGTERM}, milliseconds(0)), ExitedWithCode(0), "");
  EXPECT_EXIT(signaled({SIGINT, SIGTERM, SIGINT}, milliseconds(3)), ExitedWithCode(0), "");
  EXPECT_EXIT(signaled({SIGTERM, SIGTERM}, milliseconds(1010)), KilledBySignal(SIGTERM), "");
  EXPECT_EXIT(signaled({SIGTERM, SIGINT}, milliseconds(1010)), KilledBySignal(SIGINT), "");
}

TEST_F(FitResumeTest, ASignalStopsAfterTheStepAndSaysHowToGoOn) {
  const auto interrupted = [&] {
    CatchStopSignals();
    Session session = Session::Create(Model("batch=2")).value();
    FitOptions options = Options(0);
    options.log = nullptr;
    options.callbacks.push_back(BackupHere());
    options.callbacks.push_back(Lambdas({.on_step_end = [](FitState& state) {
      if (state.steps() == 4) std::raise(SIGINT);
      return absl::OkStatus();
    }}));
    const History history = Fit(session, ExampleBatches(5), options).value();
    std::_Exit(history.steps == 5 && history.epochs.size() == 1 ? 0 : 1);
  };
  EXPECT_EXIT(interrupted(), ExitedWithCode(0),
              "\\] Fit: interrupted by this process after step 2 of epoch 2 of 4.\n"
              "I.*\\] BackupAndResume: step 5 is saved in .*/backup; the same Fit goes on from there.");
  // Another process resumes.
  Session session = Session::Create(Model("batch=2")).value(),
          whole = Session::Create(Model("batch=2")).value();
  FitOptions options = Options(0);
  const History expected = Fit(whole, ExampleBatches(5), options).value();
  options.callbacks.push_back(BackupHere());
  options.callbacks.push_back(Lambdas({}));
  ExpectSame(Fit(session, ExampleBatches(5), options).value(), expected);
  for (const auto& [name, tensor] : StateOf(session))
    EXPECT_TRUE(BitwiseEqual(tensor, whole.Get(name).value())) << name;
}

}  // namespace
}  // namespace meshwork::fit_resume_test
