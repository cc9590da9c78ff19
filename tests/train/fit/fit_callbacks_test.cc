// What callbacks of Fit do, on losses that are given.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/train/fit/epoch_callbacks.h"
#include "support/checkpoint_steps.h"
#include "support/temp_dir.h"
#include "train/fit_programs.h"

namespace meshwork::fit_callbacks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FitCallbacksTest : public TempDirTest {
 protected:
  FitCallbacksTest() : session_(Session::Create(Echo()).value()) {}

  History Train(const std::vector<double>& losses, std::vector<CallbackPtr> callbacks) {
    FitOptions options = EpochOfOne(losses);
    options.callbacks = std::move(callbacks);
    options.log = [this](std::string_view line) { log_.emplace_back(line); };
    absl::StatusOr<History> history = Fit(session_, Losses(losses), options);
    EXPECT_TRUE(history.ok()) << history.status();
    return history.ok() ? *std::move(history) : History();
  }
  // "epoch/loss 2 0.5": tag, step and value.
  static std::vector<std::string> ScalarsOf(const std::string& run) {
    const Summaries log = ReadSummaries(run).value();
    std::vector<std::string> scalars;
    for (const ScalarSummary& s : log.scalars)
      scalars.push_back(fmt::format("{} {} {}", s.tag, s.step, s.value));
    return scalars;
  }
  double Seen() const { return session_.Get("seen")->At({0}).value(); }

  Session session_;
  std::vector<std::string> log_;
};

TEST_F(FitCallbacksTest, AreCalledInOrder) {
  std::string calls;
  const auto note = [&](std::string text) {
    return [&calls, text](FitState& state) {
      calls += fmt::format("{}{}.{} ", text, state.epoch(), state.epoch_steps());
      return absl::OkStatus();
    };
  };
  const CallbackPtr both = Lambdas({note("begin"), note("epoch"), note("step"), note("end"), note("over")});
  ASSERT_TRUE(Fit(session_, Losses({1, 2}), {.epochs = 2, .callbacks = {both}}).ok());
  EXPECT_EQ(calls, "begin0.0 epoch0.0 step0.1 step0.2 end0.2 epoch1.0 step1.1 step1.2 end1.2 over2.0 ");
}

TEST_F(FitCallbacksTest, AnErrorOfACallbackEndsFit) {
  const CallbackPtr fails = Lambdas({.on_step_end = [](FitState& state) {
    return state.steps() == 2 ? absl::DataLossError("no more") : absl::OkStatus();
  }});
  EXPECT_EQ(Fit(session_, Losses({1, 2, 3}), {.callbacks = {fails}}).status(),
            absl::DataLossError("no more"));
  EXPECT_EQ(Seen(), 2);
}

TEST_F(FitCallbacksTest, StopEndsTheEpochAfterThisStep) {
  const CallbackPtr stops = Lambdas({.on_step_end = [](FitState& state) {
    if (state.steps() == 5) state.Stop("enough");
    return absl::OkStatus();
  }});
  const History cut = Fit(session_, Losses({1, 2, 3}), {.epochs = 9, .callbacks = {stops}}).value();
  EXPECT_EQ(cut.stopped, "enough");
  EXPECT_EQ(cut.steps, 5);
  EXPECT_THAT(cut.epochs, SizeIs(1));  // the second one has not ended
}

TEST_F(FitCallbacksTest, EarlyStoppingWaitsAndRestoresTheBest) {
  const std::vector<double> losses = {5, 3, 4, 2.5, 2.6, 2.45, 2.7, 1};
  for (const bool restore : {false, true}) {
    const History history =
        Train(losses, {EarlyStopping({.monitor = "loss", .patience = 2, .restore_best = restore})});
    EXPECT_THAT(history.Of("loss"), ElementsAre(5, 3, 4, 2.5, 2.6, 2.45, 2.7, 1));  // never twice in a row
    EXPECT_EQ(Seen(), 1);
  }
  // With min_delta 0.1, 2.45 is no better than 2.5.
  for (const bool restore : {false, true}) {
    const History history =
        Train(losses,
              {EarlyStopping({.monitor = "loss", .patience = 2, .min_delta = 0.1, .restore_best = restore})});
    EXPECT_THAT(history.Of("loss"), ElementsAre(5, 3, 4, 2.5, 2.6, 2.45));
    EXPECT_EQ(history.stopped, "EarlyStopping: loss was not lower in 2 epochs; the best was 2.5 in epoch 4");
    EXPECT_EQ(Seen(), restore ? 2.5 : 2.45);
  }
  const History highest = Train({1, 2, NAN, 3}, {EarlyStopping({.monitor = "loss", .best = Best::kHighest})});
  EXPECT_THAT(highest.epochs, SizeIs(3));  // NaN is not better
}

TEST_F(FitCallbacksTest, ReduceOnPlateauLowersAVariable) {
  std::vector<double> rates;
  const CallbackPtr note = Lambdas({.on_epoch_end = [&](FitState& state) {
    rates.push_back(state.session().Get("rate")->Scalar().value());
    return absl::OkStatus();
  }});
  Train({5, 5, 5, 5, 5, 5, 4, 4, 4},
        {ReduceOnPlateau({.monitor = "loss", .factor = 0.5, .patience = 2, .cooldown = 1, .min_rate = 0.1}),
         note});
  // Epochs 2 and 3 are no better: 0.25. The fourth does not count (cooldown), 5 and 6 are no better: 0.125. Epoch 7 is
  // better, 8 and 9 are not: the rate stops at 0.1.
  EXPECT_THAT(rates, ElementsAre(0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.1f));
  EXPECT_THAT(
      log_,
      ElementsAre("Fit: 9 epochs from step 0; mesh [batch=1], 1 device on CPU; 1 process; saves nothing.",
                  "ReduceOnPlateau: loss was not lower in 2 epochs; rate is 0.25 now.",
                  "ReduceOnPlateau: loss was not lower in 2 epochs; rate is 0.125 now.",
                  "ReduceOnPlateau: loss was not lower in 2 epochs; rate is 0.1 now."));
}

TEST_F(FitCallbacksTest, ReduceOnPlateauLowersWhatIsFed) {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  Value x = g.Input("x", F64, {1}, {UNSHARDED});
  g.Output("loss", ReduceSum(x, {0}));
  g.Output("rate", g.Input("lr", F64, {}, {}));
  Session session = Session::Create(g).value();
  FitOptions options = EpochOfOne({1, 1, 1});
  options.fed = {{"lr", Tensor(1.0)}};
  options.callbacks = {ReduceOnPlateau({.rate = "lr", .monitor = "loss", .factor = 0.5, .patience = 1})};
  EXPECT_THAT(Fit(session, Losses({1, 1, 1}), options)->Of("rate"), ElementsAre(1, 1, 0.5));
}

TEST_F(FitCallbacksTest, CsvLogHasALineForEachEpoch) {
  const std::string path = Path("runs/log.csv");
  FitOptions options = EpochOfOne({1.5, 2, 0.1});
  options.validation_data = Losses({7});
  options.validation_every = 2;
  options.outputs = {"loss"};
  options.callbacks = {CsvLog(path)};
  ASSERT_TRUE(Fit(session_, Losses({1.5, 2, 0.1}), options).ok());
  EXPECT_EQ(ReadFile(path).value(), "epoch,step,loss,val_loss\n1,1,1.5,\n2,2,2,7\n3,3,0.1,7\n");
}

TEST_F(FitCallbacksTest, TensorBoardLogHasScalarsAndHistograms) {
  FitOptions options = EpochOfOne({3, 2});
  options.validation_data = Losses({7});
  options.outputs = {"loss"};
  options.callbacks = {
      TensorBoardLog(dir(), {.every_steps = 2, .histograms_every = 2, .variables = {"seen"}})};
  ASSERT_TRUE(Fit(session_, Losses({3, 2}), options).ok());
  EXPECT_THAT(ScalarsOf(Path("train")),
              ElementsAre("epoch/loss 1 3", "step/loss 2 2", "step/rate_now 2 0.5", "epoch/loss 2 2"));
  EXPECT_THAT(ScalarsOf(Path("validation")), ElementsAre("epoch/loss 1 7", "epoch/loss 2 7"));
  const Summaries log = ReadSummaries(Path("train")).value();
  ASSERT_THAT(log.others, SizeIs(1));
  EXPECT_EQ(log.others[0].tag, "seen");
  EXPECT_EQ(log.graphs, 1);
}

// A training that is lost in its fourth epoch goes on after its second, whichever callback comes first.
TEST_F(FitCallbacksTest, TensorBoardLogHasEachStepOnceAfterAResume) {
  for (const bool log_first : {true, false}) {
    const std::string folder = Path(log_first ? "first" : "second");
    const auto train = [&](const std::vector<double>& losses, int64_t lost_after) {
      const CallbackPtr log = TensorBoardLog(folder, {.every_steps = 1});
      const CallbackPtr backup = BackupAndResume({.dir = folder + "/backup", .steps = 2});
      FitOptions options = EpochOfOne(losses);
      options.outputs = {"loss"};
      options.callbacks = log_first ? std::vector{log, backup} : std::vector{backup, log};
      options.callbacks.push_back(Lambdas({.on_epoch_end = [&](FitState& state) {
        return state.steps() == lost_after ? absl::AbortedError("lost") : absl::OkStatus();
      }}));
      return Fit(session_, Losses(losses), options).status();
    };
    EXPECT_EQ(train({5, 4, 3, 2, 1}, 4).code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(train({5, 4, 30, 20, 10}, 9).ok());
    std::vector<std::string> steps, epochs;
    for (const std::string& scalar : ScalarsOf(folder + "/train")) {
      if (scalar.starts_with("step/loss")) steps.push_back(scalar);
      if (scalar.starts_with("epoch/")) epochs.push_back(scalar);
    }
    EXPECT_THAT(steps, ElementsAre("step/loss 1 5", "step/loss 2 4", "step/loss 3 30", "step/loss 4 20",
                                   "step/loss 5 10"));
    EXPECT_THAT(epochs, ElementsAre("epoch/loss 1 5", "epoch/loss 2 4", "epoch/loss 3 30", "epoch/loss 4 20",
                                    "epoch/loss 5 10"));
  }
}

// The same if the steps are made elsewhere: a training that was lost after its second epoch repeats that epoch.
TEST_F(FitCallbacksTest, TensorBoardLogHasEachEpochOnceAfterAResumeElsewhere) {
  const auto train = [&](int64_t first, int64_t end, double loss) {
    EpochCallbacks calls(&session_,
                         {.callbacks = {TensorBoardLog(dir())}, .epochs = 3, .steps_per_epoch = 10});
    ASSERT_EQ(MessageOf(calls.BeginTraining()), "");
    for (int64_t epoch = first; epoch < end; ++epoch) {
      ASSERT_EQ(MessageOf(calls.BeginEpoch(epoch)), "");
      ASSERT_EQ(MessageOf(calls.EndEpoch(
                    {.epoch = epoch, .steps = 10, .step = 10 * (epoch + 1), .values = {{"loss", loss}}})),
                "");
    }
  };
  train(0, 2, 5);
  train(1, 3, 4);
  EXPECT_THAT(ScalarsOf(Path("train")), ElementsAre("epoch/loss 10 5", "epoch/loss 20 4", "epoch/loss 30 4"));
}

TEST_F(FitCallbacksTest, ProgressBarWritesALineForEachEpoch) {
  std::FILE* const out = std::tmpfile();
  FitOptions options = EpochOfOne({3, 0.00025});
  options.validation_data = Losses({7});
  options.callbacks = {ProgressBar({.out = out})};
  ASSERT_TRUE(Fit(session_, Losses({3, 0.00025}), options).ok());
  std::string text(1000, '\0');
  std::rewind(out);
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_THAT(
      text,
      ::testing::MatchesRegex(
          "epoch 1/2  1 steps  [0-9.]+ ms/step  loss 3.0000  rate_now 0.5000  val_loss 7.0000  val_rate_now 0.5000\n"
          "epoch 2/2  1 steps  [0-9.]+ ms/step  loss 2.500e-04  rate_now 0.5000  val_loss 7.0000  val_rate_now "
          "0.5000\n"));
}

TEST_F(FitCallbacksTest, CheckpointsOfTheBestAndOfTheLastEpochs) {
  const std::string best = Path("best"), last = Path("last");
  Train({5, 3, 4, 2.5, 2.6, 2.7, 2.8}, {BestCheckpoint({.dir = best, .monitor = "loss"}),
                                        LastCheckpoint({.dir = last, .every_epochs = 2, .keep = 2})});
  EXPECT_THAT(StepsIn(best), ElementsAre(4));
  EXPECT_THAT(StepsIn(last), ElementsAre(7, 6));
  const CheckpointNote note = session_.Restore(best).value();
  EXPECT_EQ(note.metrics.at("loss"), 2.5);
  EXPECT_EQ(note.facts.at("epochs"), "4");
  EXPECT_EQ(Seen(), 2.5);
  ASSERT_TRUE(session_.Restore(last).ok());
  EXPECT_EQ(Seen(), 2.8);
}

TEST_F(FitCallbacksTest, StopOnNanEndsFit) {
  FitOptions options = EpochOfOne({1, 2, INFINITY});
  options.callbacks = {StopOnNan()};
  const absl::Status status = Fit(session_, Losses({1, 2, INFINITY}), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("StopOnNan: the loss of step 3 is infinite (epoch 3, step 1)"));
}

}  // namespace
}  // namespace meshwork::fit_callbacks_test
