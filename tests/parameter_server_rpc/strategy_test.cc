// ParameterServerStrategy: chief, workers and servers, each a thread of this process.
#ifdef MESHWORK_HAVE_GLOO
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/parameter_server/rpc/parameter_server_strategy.h"
#include "meshwork/train/evaluator.h"
#include "meshwork/train/fit.h"
#include "parameter_server/models.h"
#include "support/served_cluster.h"
#include "support/temp_dir.h"

namespace meshwork::strategy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

// 24 examples, the wave's first four batches.
Dataset WaveExamples() {
  std::vector<Tensor> x, y;
  for (int64_t step = 0; step < 4; ++step) {
    const Feeds batch = RegressionBatch(step);
    x.push_back(batch.at("x")), y.push_back(batch.at("y"));
  }
  return Dataset::Create({{"x", Tensor::Concat(x, 0)}, {"y", Tensor::Concat(y, 0)}}).value();
}
Pipeline Waves(const InputContext& worker) {
  return Pipeline::From(WaveExamples())
      .Shard(worker.input_pipeline_id, worker.num_input_pipelines)
      .Shuffle(24, 5)
      .Batch(6);
}

class ParameterServerStrategyTest : public TempDirTest {
 protected:
  // Returns what the chief's `body` did.
  static absl::Status RunCluster(int workers, int servers, const Graph& graph,
                                 const ParameterServerOptions& options,
                                 const ParameterServerStrategy::ChiefFunction& body) {
    ServedCluster cluster(workers, servers, graph, options, Waves);
    std::vector<absl::Status> others;
    const absl::Status status = cluster.Run(body, &others);
    for (const absl::Status& other : others) EXPECT_EQ(other, absl::OkStatus());
    return status;
  }
};

const AddUpdate kAdam = [](const Value& loss) { Adam({.learning_rate = 0.01}).Minimize(loss); };

TEST_F(ParameterServerStrategyTest, OneStepAtATimeIsASession) {
  for (const int servers : {1, 2}) {
    const Graph graph = Regression(kAdam, "batch=1");
    Session whole = Session::Create(graph, {.workers = 1}).value();
    const absl::Status status = RunCluster(
        2, servers, graph, {.partitioner = InPieces(2)},
        [&](ParameterServerTraining& training) -> absl::Status {
          for (int64_t step = 0; step < 12; ++step) {
            MESHWORK_ASSIGN_OR_RETURN(const RemoteValue made, training.Step(RegressionBatch(step)));
            MESHWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> results, made.Fetch());
            MESHWORK_ASSIGN_OR_RETURN(const StepResult want, whole.Run(RegressionBatch(step)));
            EXPECT_NEAR(results.at(1).Scalar().value(), want.scalar("loss").value(), 1e-12) << step;
          }
          EXPECT_EQ(training.StepsDone().value(), 12);
          MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, training.Snapshot());
          EXPECT_EQ(snapshot->steps_done(), 12);
          for (const std::string& name : whole.variable_names())
            EXPECT_EQ(AllClose(snapshot->Get(name).value(), whole.Get(name).value(),
                               {.rtol = 1e-12, .atol = 1e-12}),
                      absl::OkStatus())
                << name;
          return absl::OkStatus();
        });
    EXPECT_EQ(status, absl::OkStatus());
  }
}

TEST_F(ParameterServerStrategyTest, AnEvaluatorFollowsWhatTheChiefSavesAfterEachEpoch) {
  std::vector<double> losses;
  const absl::Status status = RunCluster(
      1, 2, Regression(kAdam, "batch=1"), {}, [&](ParameterServerTraining& training) -> absl::Status {
        const auto save = [&](const EpochLog& epoch) -> absl::Status {
          MESHWORK_ASSIGN_OR_RETURN(const Session* const snapshot, training.Snapshot());
          EXPECT_EQ(snapshot->steps_done(), epoch.step);
          return snapshot->Save(Path("model"), {.step = epoch.step});
        };
        MESHWORK_ASSIGN_OR_RETURN(
            const History history,
            training.Fit(
                {.epochs = 2, .steps_per_epoch = 8, .validation_data = Waves({}), .after_epoch = save}));
        losses = history.Of("val_loss");
        return absl::OkStatus();
      });
  ASSERT_EQ(status, absl::OkStatus());
  const auto model = [](Mode) { return Regression([](const Value&) {}, "batch=1"); };
  const auto feeds = [](const Batch& batch) -> Feeds { return {{"x", batch["x"]}, {"y", batch["y"]}}; };
  RunConfig config;
  config.model_dir = Path("model");
  const absl::StatusOr<Evaluation> last =
      EvaluateCheckpoints(model, 16, {.input = {WaveExamples(), {.batch_size = 6}, feeds}}, config);
  ASSERT_EQ(last.status(), absl::OkStatus());
  EXPECT_EQ(last->global_step, 16);
  EXPECT_NEAR(last->metrics.at("loss"), losses.at(1), 1e-9);
}

TEST_F(ParameterServerStrategyTest, WhatFailsAfterAnEpochEndsFit) {
  const absl::Status status = RunCluster(
      1, 1, Regression(kAdam, "batch=1"), {}, [](ParameterServerTraining& training) -> absl::Status {
        const auto fail = [](const EpochLog&) { return absl::DataLossError("the disk is full."); };
        return training.Fit({.epochs = 2, .steps_per_epoch = 4, .after_epoch = fail}).status();
      });
  EXPECT_EQ(status, absl::DataLossError("the disk is full."));
}

TEST_F(ParameterServerStrategyTest, FitsByWorkersAtTheirOwnPace) {
  const absl::Status status = RunCluster(
      3, 2, Regression(kAdam, "batch=1"),
      {.partitioner = InPieces(2), .max_staleness = 2, .folder = Path("servers"), .save_every = 20},
      [&](ParameterServerTraining& training) -> absl::Status {
        std::vector<std::string> lines;
        MESHWORK_ASSIGN_OR_RETURN(
            const History history,
            training.Fit({.epochs = 3,
                          .steps_per_epoch = 40,
                          .validation_data = Waves({}),
                          .log = [&](std::string_view line) { lines.emplace_back(line); }}));
        EXPECT_EQ(history.steps, 120);
        EXPECT_EQ(training.StepsDone().value(), 120);
        // None was applied twice.
        EXPECT_EQ(training.Updates().value(), (std::vector<int64_t>{120, 120}));
        EXPECT_EQ(lines.size(), 3u);
        EXPECT_THAT(lines.at(2), HasSubstr("epoch 3/3: step 120, loss "));
        const std::vector<double> losses = history.Of("val_loss");
        EXPECT_THAT(losses.at(2), Lt(0.7 * losses.at(0)));
        MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, training.Snapshot());
        EXPECT_EQ(snapshot->Get("adam/step")->Scalar().value(), 120);
        MESHWORK_ASSIGN_OR_RETURN(const Metrics again, EvaluateOn(*snapshot, Waves({})));
        EXPECT_DOUBLE_EQ(again.at("loss"), losses.at(2));
        // What is done is not done again.
        MESHWORK_RETURN_IF_ERROR(training.Train(120).status());
        EXPECT_EQ(training.StepsDone().value(), 120);
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  for (const char* server : {"servers/server-0-of-2", "servers/server-1-of-2"})
    EXPECT_TRUE(std::filesystem::exists(Path(server))) << server;
}

TEST_F(ParameterServerStrategyTest, GoesOnWhereTheServersWere) {
  const Graph graph = Regression(kAdam, "batch=1");
  const ParameterServerOptions options = {.folder = Path("servers"), .save_every = 10};
  const auto train = [&](int64_t steps, int64_t before) {
    return RunCluster(2, 1, graph, options, [&](ParameterServerTraining& training) -> absl::Status {
      EXPECT_EQ(training.StepsDone().value(), before);
      MESHWORK_RETURN_IF_ERROR(training.Train(steps).status());
      MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, training.Snapshot());
      EXPECT_EQ(snapshot->Get("adam/step")->Scalar().value(), static_cast<double>(steps));
      return absl::OkStatus();
    });
  };
  EXPECT_EQ(train(30, 0), absl::OkStatus());
  EXPECT_EQ(train(50, 30), absl::OkStatus());
}

TEST_F(ParameterServerStrategyTest, GathersWithABackupWorker) {
  for (const int servers : {2, 3}) {
    const absl::Status status = RunCluster(
        3, servers,
        Regression([](const Value& loss) { Sgd({.learning_rate = 0.05}).Minimize(loss); }, "batch=1"),
        {.partitioner = InPieces(servers), .gather = 2, .save_every = 15},
        [&](ParameterServerTraining& training) -> absl::Status {
          MESHWORK_RETURN_IF_ERROR(training.Train(60).status());
          EXPECT_EQ(training.StepsDone().value(), 60);
          EXPECT_EQ(training.Updates().value(), std::vector<int64_t>(static_cast<size_t>(servers), 30));
          return absl::OkStatus();
        });
    EXPECT_EQ(status, absl::OkStatus());
  }
}

TEST_F(ParameterServerStrategyTest, GradientsAreOfTheNewestValuesIfAskedFor) {
  const absl::Status status = RunCluster(3, 1, Regression(kAdam, "batch=1"), {.max_staleness = 0},
                                         [&](ParameterServerTraining& training) -> absl::Status {
                                           MESHWORK_RETURN_IF_ERROR(training.Train(300).status());
                                           EXPECT_EQ(training.Updates().value(), std::vector<int64_t>{300});
                                           return absl::OkStatus();
                                         });
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(ParameterServerStrategyTest, AnErrorOfAStepEndsAll) {
  const absl::Status status = RunCluster(2, 1, Regression(kAdam, "batch=1"), {},
                                         [&](ParameterServerTraining& training) -> absl::Status {
                                           Feeds feeds = RegressionBatch(0);
                                           feeds["x"] = Tensor::Zeros({F64, {6, 4}});
                                           return training.Step(feeds)->Fetch().status();
                                         });
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"x\""));
}

}  // namespace
}  // namespace meshwork::strategy_test
#endif
