// ParameterServerStrategy: chief, workers and servers are threads of this process.
#ifdef MESHWORK_HAVE_GLOO
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/log.h"
#include "meshwork/base/random.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/train/fit/callbacks.h"
#include "meshwork/train/fit/evaluator.h"
#include "meshwork/train/fit/fit.h"
#include "meshwork/train/log/summaries.h"
#include "meshwork/train/nn/metrics.h"
#include "meshwork/train/parameter_server/rpc/client.h"
#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"
#include "support/served_cluster.h"
#include "support/temp_dir.h"
#include "support/tls_files.h"
#include "train/parameter_server/models.h"

namespace meshwork::strategy_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Pointwise;

constexpr int64_t kRows = 6;

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
  // Returns the result of the chief's `body`.
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

class ParameterServerStrategyTls : public TlsTest {};

TEST_F(ParameterServerStrategyTls, IsAsTheEnvironmentSays) {
  const Graph graph = Regression(kAdam, "batch=1");
  const TlsFiles files = ClientOf(kTestCertificate);
  ServedCluster cluster(2, 2, graph, {}, Waves,
                        {{"MESHWORK_TLS_CERTIFICATE", files.certificate},
                         {"MESHWORK_TLS_KEY", files.key},
                         {"MESHWORK_TLS_AUTHORITIES", files.authorities},
                         {"MESHWORK_TLS_CLIENT_AUTHORITIES", authorities_}});
  const auto reaches_server = [&](const TlsFiles& tls) {
    const RpcOptions options{.token = "a token", .deadline = std::chrono::milliseconds(500), .tls = tls};
    const auto client = RpcClient::Create("Parameter server", cluster.server_address(0), options).value();
    return client->WaitForConnection(std::chrono::milliseconds(500));
  };
  std::vector<absl::Status> others;
  const absl::Status status = cluster.Run(
      [&](ParameterServerTraining& training) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(const History history, training.Fit({.epochs = 1, .steps_per_epoch = 8}));
        EXPECT_EQ(history.steps, 8);
        EXPECT_TRUE(reaches_server(files));
        EXPECT_FALSE(reaches_server({}));
        return absl::OkStatus();
      },
      &others);
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_THAT(others, ::testing::Each(absl::OkStatus()));
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
        // No step was applied twice.
        EXPECT_EQ(training.Updates().value(), (std::vector<int64_t>{120, 120}));
        EXPECT_EQ(lines.size(), 3u);
        EXPECT_THAT(lines.at(2), HasSubstr("epoch 3/3: step 120, loss "));
        const std::vector<double> losses = history.Of("val_loss");
        EXPECT_THAT(losses.at(2), Lt(0.7 * losses.at(0)));
        MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, training.Snapshot());
        EXPECT_EQ(snapshot->Get("adam/step")->Scalar().value(), 120);
        MESHWORK_ASSIGN_OR_RETURN(const Metrics again, Evaluate(*snapshot, Waves({})));
        EXPECT_DOUBLE_EQ(again.at("loss"), losses.at(2));
        // Steps that are done are not repeated.
        MESHWORK_RETURN_IF_ERROR(training.Train(120).status());
        EXPECT_EQ(training.StepsDone().value(), 120);
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  for (const char* server : {"servers/server-0-of-2", "servers/server-1-of-2"})
    EXPECT_TRUE(std::filesystem::exists(Path(server))) << server;
}

// A model whose metrics depend on the examples alone: not on the worker that makes a step, nor on its weights.
Graph Metered() {
  Graph g(Mesh::VirtualCpus("batch=1").value());
  const Value x = g.Input("x", F64, {kRows}), weight = g.Input("weight", F64, {kRows}),
              label = g.Input("label", I32, {kRows});
  const Variable w = g.Var("w", Filled(1, {}, F64));
  const Value loss = ReduceMean(Square(x * w - 0.5));
  Sgd({.learning_rate = 1e-3}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("mean", MeanMetric(g, "mean").Update(x, {.weights = weight}));
  g.Output("rms", RootMeanSquaredErrorMetric(g, "rms").Update(x, weight));
  g.Output("auc", AucMetric(g, "auc", 21).Update(x, label));
  const Value precision = PrecisionMetric(g, "precision").Update(x, label),
              recall = RecallMetric(g, "recall").Update(x, label);
  g.Output("f1", DivNoNan(precision * recall * 2.0, precision + recall));
  return g;
}

TEST_F(ParameterServerStrategyTest, MetricsAreOfTheStepsOfTheirEpochWhoeverMakesThem) {
  const Graph graph = Metered();
  struct Case {
    int workers, servers;
    ParameterServerOptions options;
  };
  for (const Case& c : {Case{1, 1, {}}, Case{3, 2, {.partitioner = InPieces(2)}}, Case{3, 1, {.gather = 2}},
                        Case{2, 1, {.max_staleness = 0, .folder = Path("metered"), .save_every = 3}}}) {
    SCOPED_TRACE(fmt::format("{} workers, {} servers, gather {}", c.workers, c.servers, c.options.gather));
    std::mutex mutex;
    std::vector<Feeds> used;  // the feeds used in this epoch
    const auto data = [&](const InputContext& worker) -> absl::StatusOr<Pipeline> {
      return Pipeline::FromFunction({}, [&, worker](int64_t i) -> absl::StatusOr<Example> {
        Random random(static_cast<uint64_t>(1000 * worker.input_pipeline_id + i));
        Feeds feeds = {{"x", Tensor::Zeros({F64, {kRows}})},
                       {"weight", Tensor::Zeros({F64, {kRows}})},
                       {"label", Tensor::Zeros({I32, {kRows}})}};
        for (int64_t row = 0; row < kRows; ++row) {
          const auto r = static_cast<size_t>(row);
          feeds["x"].mutable_values<double>()[r] = random.Uniform(0, 1);
          feeds["weight"].mutable_values<double>()[r] = random.Uniform(0, 2);
          feeds["label"].mutable_values<int32_t>()[r] = static_cast<int32_t>(random.Below(2));
        }
        const std::lock_guard lock(mutex);
        used.push_back(feeds);
        return Example(Columns(feeds.begin(), feeds.end()));
      });
    };
    // One process that makes the same steps.
    Session alone = Session::Create(graph, {.workers = 1}).value();
    const auto expect = [&](const EpochLog& epoch) -> absl::Status {
      const std::lock_guard lock(mutex);
      EXPECT_EQ(std::ssize(used), 8);
      MESHWORK_RETURN_IF_ERROR(ResetMetrics(alone));
      StepResult last({});
      for (const Feeds& feeds : std::exchange(used, {})) {
        MESHWORK_ASSIGN_OR_RETURN(last, alone.Run(feeds));
      }
      for (const char* name : {"mean", "rms", "auc", "f1"})
        EXPECT_NEAR(epoch.values.at(name), last.scalar(name).value(), 1e-12)
            << name << ", epoch " << epoch.epoch;
      return absl::OkStatus();
    };
    ServedCluster cluster(c.workers, c.servers, graph, c.options, data);
    const absl::Status status = cluster.Run([&](ParameterServerTraining& training) -> absl::Status {
      MESHWORK_RETURN_IF_ERROR(
          training.Fit({.epochs = 3, .steps_per_epoch = 8, .after_epoch = expect}).status());
      MESHWORK_ASSIGN_OR_RETURN(const Session* const snapshot, training.Snapshot());
      for (const std::string& name : alone.variable_names()) {
        if (!name.starts_with(kMetricPrefix)) continue;
        EXPECT_EQ(
            AllClose(snapshot->Get(name).value(), alone.Get(name).value(), {.rtol = 1e-12, .atol = 1e-12}),
            absl::OkStatus())
            << name;
      }
      return absl::OkStatus();
    });
    EXPECT_EQ(status, absl::OkStatus());
  }
}

TEST_F(ParameterServerStrategyTest, ValidationLeavesTheMetricsOfTheTrainingAlone) {
  const Graph graph = Regression(
      [](const Value& loss) {
        kAdam(loss);
        Graph& g = *loss.graph();
        g.Output("mean_loss", MeanMetric(g, "mean_loss").Update(loss));
      },
      "batch=1");
  Session alone = Session::Create(graph, {.workers = 1}).value();
  const History want = Fit(alone, Waves({.input_pipeline_id = 0, .num_input_pipelines = 1}),
                           {.epochs = 3, .validation_data = Waves({})})
                           .value();
  const absl::Status status = RunCluster(
      1, 2, graph, {.partitioner = InPieces(2)}, [&](ParameterServerTraining& training) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(
            const History history,
            training.Fit({.epochs = 3, .steps_per_epoch = 4, .validation_data = Waves({})}));
        for (const char* name : {"loss", "mean_loss", "val_loss", "val_mean_loss"})
          EXPECT_THAT(history.Of(name), Pointwise(DoubleNear(1e-9), want.Of(name))) << name;
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(ParameterServerStrategyTest, FitCallsCallbacksAtTheBordersOfEpochs) {
  std::vector<std::string> calls;
  const auto note = [&](std::string what) {
    return [&, what](FitState& state) {
      calls.push_back(fmt::format("{} {}", what, state.epoch()));
      return absl::OkStatus();
    };
  };
  // Also checks that the session holds the variables as they are at the end of the epoch.
  const auto look = [&](FitState& state) -> absl::Status {
    calls.push_back(fmt::format("end {} of {}, step {}", state.epoch(), state.epochs(), state.steps()));
    EXPECT_EQ(state.session().Get("adam/step")->Scalar().value(), static_cast<double>(state.steps()));
    EXPECT_EQ(state.epoch_steps(), 8);
    EXPECT_EQ(state.history().Of("val_loss").back(), state.logs().at("val_loss"));
    return absl::OkStatus();
  };
  const auto calling = Lambdas({.on_train_begin = note("begin training"),
                                .on_epoch_begin = note("begin"),
                                .on_epoch_end = look,
                                .on_train_end = note("end training")});
  // No loss falls by so much, so training stops after the second epoch.
  const auto stopping = EarlyStopping({.monitor = "val_loss", .patience = 1, .min_delta = 1e9});
  const absl::Status status = RunCluster(
      2, 2, Regression(kAdam, "batch=1"), {.partitioner = InPieces(2)},
      [&](ParameterServerTraining& training) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(
            const History history,
            training.Fit({.epochs = 5,
                          .steps_per_epoch = 8,
                          .validation_data = Waves({}),
                          .callbacks = {LastCheckpoint({.dir = Path("last")}), calling, stopping,
                                        CsvLog(Path("log.csv")), TensorBoardLog(Path("board")),
                                        BestCheckpoint({.dir = Path("best")})}}));
        EXPECT_THAT(history.stopped, HasSubstr("EarlyStopping: val_loss was not lower in 1 epoch"));
        EXPECT_EQ(history.steps, 16);
        EXPECT_EQ(training.StepsDone().value(), 16);
        EXPECT_EQ(ReadFile(Path("log.csv")).value(), history.ToCsv());
        // The saved variables are those of the servers.
        MESHWORK_ASSIGN_OR_RETURN(Session* const snapshot, training.Snapshot());
        MESHWORK_ASSIGN_OR_RETURN(Session saved, Session::Create(snapshot->graph(), {.workers = 1}));
        MESHWORK_ASSIGN_OR_RETURN(const CheckpointNote of, saved.Restore(Path("last")));
        EXPECT_EQ(of.step, 16);
        for (const std::string& name : saved.variable_names())
          EXPECT_EQ(AllEqual(saved.Get(name).value(), snapshot->Get(name).value()), absl::OkStatus()) << name;
        MESHWORK_ASSIGN_OR_RETURN(const CheckpointNote best, saved.Restore(Path("best")));
        EXPECT_DOUBLE_EQ(best.metrics.at("val_loss"),
                         std::min(history.Of("val_loss")[0], history.Of("val_loss")[1]));
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_THAT(calls, ElementsAre("begin training 0", "begin 0", "end 0 of 5, step 8", "begin 1",
                                 "end 1 of 5, step 16", "end training 1"));
  for (const char* run : {"board/train", "board/validation"}) {
    const absl::StatusOr<Summaries> board = ReadSummaries(Path(run));
    ASSERT_TRUE(board.ok()) << board.status();
    EXPECT_FALSE(board->scalars.empty()) << run;
  }
}

TEST_F(ParameterServerStrategyTest, ASignalEndsFitWithACheckpointFromWhichItGoesOn) {
  const Graph graph = Regression(kAdam, "batch=1");
  for (const bool has_folder : {true, false}) {
    std::vector<std::string> log;
    SetLogSink([&, mutex = std::make_shared<std::mutex>()](const LogLine& line) {
      const std::lock_guard lock(*mutex);
      log.push_back(line.text);
    });
    const ParameterServerOptions options = {.folder = has_folder ? Path("servers") : std::string(),
                                            .save_every = 1000};
    int64_t done = 0;
    bool is_interrupted = true;
    const auto fit = [&](const std::function<bool()>& stop, const CallbackPtr& calling) {
      return RunCluster(2, 2, graph, options, [&](ParameterServerTraining& training) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(
            const History history,
            training.Fit({.epochs = 3, .steps_per_epoch = 30, .callbacks = {calling}, .stop = stop}));
        done = training.StepsDone().value();
        EXPECT_EQ(history.steps, done);
        EXPECT_EQ(history.stopped, is_interrupted ? "interrupted by the chief" : "");
        return absl::OkStatus();
      });
    };
    int64_t asked = 0, ended = 0;
    const auto count = Lambdas({.on_epoch_end = [&](FitState&) { return ++ended, absl::OkStatus(); },
                                .on_train_end =
                                    [&](FitState& state) {
                                      EXPECT_EQ(state.is_interrupted(), is_interrupted);
                                      return absl::OkStatus();
                                    }});
    // Asks to stop during the second epoch, which polls more than 10 times.
    EXPECT_EQ(fit([&] { return ended == 1 && ++asked > 10; }, count), absl::OkStatus());
    EXPECT_EQ(ended, 1);
    EXPECT_THAT(done, AllOf(Ge(30), Lt(60)));
    EXPECT_THAT(log,
                Contains(HasSubstr(fmt::format("Fit: interrupted by the chief after step {} of 90", done))));
    if (!has_folder) continue;
    EXPECT_THAT(log, Contains(HasSubstr("the same program goes on from there")));
    const int64_t before = done;
    is_interrupted = false;
    log.clear();
    EXPECT_EQ(fit([] { return false; }, count), absl::OkStatus());
    EXPECT_EQ(done, 90);
    EXPECT_THAT(log, Contains(HasSubstr(fmt::format("Fit: 3 epochs of 30 steps, {} of them done", before))));
  }
  SetLogSink(nullptr);
}

TEST_F(ParameterServerStrategyTest, AfterAnErrorTheLogSaysHowToGoOn) {
  std::vector<std::string> log;
  const auto fail = [](const EpochLog& epoch) {
    return epoch.epoch == 1 ? absl::DataLossError("the disk is full.") : absl::OkStatus();
  };
  for (const bool has_folder : {true, false}) {
    SetLogSink([&, mutex = std::make_shared<std::mutex>()](const LogLine& line) {
      const std::lock_guard lock(*mutex);
      log.push_back(line.text);
    });
    const absl::Status status =
        RunCluster(1, 1, Regression(kAdam, "batch=1"),
                   {.folder = has_folder ? Path("failed") : std::string(), .save_every = 4},
                   [&](ParameterServerTraining& training) -> absl::Status {
                     return training.Fit({.epochs = 3, .steps_per_epoch = 6, .after_epoch = fail}).status();
                   });
    SetLogSink(nullptr);
    EXPECT_EQ(status, absl::DataLossError("the disk is full."));
    EXPECT_THAT(
        log, Contains(has_folder
                          ? fmt::format("Fit: it has failed. The servers have saved step 12 and maybe later "
                                        "ones in {}; the same program, started in all processes again, "
                                        "goes on from there.",
                                        Path("failed"))
                          : "Fit: it has failed. The servers' variables end with them; "
                            "ParameterServerOptions::folder has servers save, and lets the same program "
                            "go on."));
  }
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
