// examples/mlp_mnist as a shell sees it: its output, plots and measurements.
#include "tools/cli/mlp_mnist.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/train/log/summaries.h"
#include "support/golden.h"

namespace meshwork::mlp_mnist_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

std::vector<std::string> KeysOf(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST_F(MlpMnistTest, HelpListsTheFlags) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--help"}, {"-h"}, {"--epochs", "2", "--help", "--nonsense"}}) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err, "");
    ExpectGolden("tools/cli/mlp_mnist_help.txt", finished.out);
  }
}

// ---- Runs.

TEST_F(MlpMnistTest, SaysWhatItDoes) {
  const Finished finished = Train({});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(
      finished.out,
      MatchesRegex(
          "mnist: 28 training and 12 test images, mesh \\[batch=8\\] of 8 devices, 905010 parameters\n"
          "  each step: 1 all_reduce over \\(batch\\), [0-9]+ B on the wire per device\n"
          "epoch 1/1  2 steps  [0-9.]+ ms/step  loss [0-9.]+  accuracy [0-9.]+ %  test loss [0-9.]+  "
          "test accuracy [0-9.]+ %\n"));
}

// 28 images in batches of 16: one full step and a short one, and the evaluation, which is no step.
TEST_F(MlpMnistTest, PrintsWhereTheTimeWent) {
  const Finished finished = Train({"--profile", "on", "--workers", "2"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  const std::string table = finished.out.substr(finished.out.find("\n\n") + 2);
  EXPECT_THAT(table, StartsWith("op "));
  EXPECT_THAT(table, HasSubstr("\nmatmul"));
  EXPECT_THAT(table, HasSubstr("  mlp.cc:"));
  EXPECT_THAT(table, HasSubstr(" GFLOP/s\n"));
  EXPECT_THAT(table, HasSubstr("\nmatmul+all_reduce+adam_update "));
  EXPECT_THAT(table, HasSubstr(" GB/s\n"));
  EXPECT_THAT(table, HasSubstr("\nwaiting "));
  EXPECT_THAT(table, HasSubstr("  2 instructions "));
  EXPECT_THAT(table, HasSubstr("\n1 step, "));
}

TEST_F(MlpMnistTest, WritesATraceOfTheLastFullSteps) {
  const Finished finished = Train(
      {"--mesh", "batch=4,model=2", "--epochs", "12", "--workers", "2", "--profile", Path("trace.json")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\n12 steps, "));  // in the table, with one full batch each
  EXPECT_THAT(Written(), ElementsAre("trace.json"));
  std::map<int, std::string> tracks;
  std::map<std::string, std::map<std::string, int>> counts;  // by track and category
  const json file = ReadJson("trace.json");
  for (const json& event : file.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    ++counts[tracks.at(event.at("tid"))][event.at("cat")];
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
  }
  ASSERT_EQ(tracks.size(), 1u + 8 + 2);
  EXPECT_EQ(counts.at("steps").at("step"), 10);
  for (int d = 0; d < 8; ++d) {
    const auto& device = counts.at(fmt::format("device {} (batch={}, model={})", d, d / 2, d % 2));
    EXPECT_EQ(device.count("collective"), 0u);  // sums are made where they are computed
    EXPECT_GT(device.at("kernel"), 0);
  }
  EXPECT_EQ(counts.at("worker 0 (devices 0-3)").at("kernel"),
            counts.at("worker 1 (devices 4-7)").at("kernel"));
}

TEST_F(MlpMnistTest, DrawsHowTheTrainingWent) {
  const Finished finished = Train({"--epochs", "3", "--plot", Path("plot.svg")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nat the start  test loss "));
  const std::string svg = Contents(Path("plot.svg"));
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr(">MLP on MNIST<"));
  EXPECT_THAT(svg, HasSubstr("<desc>Loss: train (6 points, last "));
  EXPECT_THAT(svg, HasSubstr("Accuracy, %: train (6 points, last "));
  EXPECT_THAT(svg, HasSubstr("test (4 points, last "));
  // A start without training is a point, too.
  ASSERT_EQ(Train({"--epochs", "0", "--plot", Path("plot.svg")}).code, 0);
  EXPECT_THAT(Contents(Path("plot.svg")), HasSubstr("Loss: train (0 points), test (1 points, last "));
}

// 28 images in batches of 16 are 2 steps.
TEST_F(MlpMnistTest, LogsForTensorBoard) {
  const Finished finished = Train({"--epochs", "6", "--tensorboard", Path("runs/a")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const Summaries log = ReadSummaries(Path("runs/a/train")).value(),
                  test = ReadSummaries(Path("runs/a/test")).value();
  std::map<std::string, std::vector<int64_t>> steps;
  for (const ScalarSummary& s : log.scalars) steps["train: " + s.tag].push_back(s.step);
  for (const ScalarSummary& s : test.scalars) steps["test: " + s.tag].push_back(s.step);
  for (const OtherSummary& o : log.others) steps[o.plugin + " " + o.tag].push_back(o.step);
  const std::vector<int64_t> epochs = {2, 4, 6, 8, 10, 12};
  std::map<std::string, std::vector<int64_t>> expected = {
      {"train: loss", {10}},
      {"train: accuracy", {10}},
      {"train: steps_per_second", {10}},
      {"test: loss", epochs},
      {"test: accuracy", epochs},
      {"images inputs/first_of_the_epoch", {0, 2, 4, 6, 8, 10}}};
  for (const char* layer : {"dense1", "dense2", "dense3"})
    for (const char* part : {"kernel", "bias"})
      expected[fmt::format("histograms {}/{}", layer, part)] = epochs;
  EXPECT_EQ(steps, expected);
  EXPECT_EQ(log.graphs, 1);
  // The last printed line agrees.
  const auto last = std::find_if(test.scalars.rbegin(), test.scalars.rend(),
                                 [](const ScalarSummary& s) { return s.tag == "loss"; });
  EXPECT_THAT(finished.out, HasSubstr(fmt::format("test loss {:.4f}", last->value)));
}

TEST_F(MlpMnistTest, ALogThatCannotBeMadeIsRefused) {
  File("file", "x");
  const Finished finished = Train({"--tensorboard", Path("file/runs")});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr(fmt::format("mlp_mnist: --tensorboard: {}: the folder cannot be made",
                                                  Path("file/runs/train"))));
}

// A learning rate that makes the weights infinite: the curves end, and say so.
TEST_F(MlpMnistTest, DrawsWhatIsLeftOfATrainingThatDiverges) {
  const Finished finished =
      Train({"--epochs", "3", "--optimizer", "sgd", "--lr", "1e30", "--plot", Path("plot.svg")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::string svg = Contents(Path("plot.svg"));
  EXPECT_THAT(svg, HasSubstr(" finite, left out<"));
  EXPECT_THAT(svg, HasSubstr("last not finite)"));
}

TEST_F(MlpMnistTest, ExplainsEveryCollective) {
  const Finished finished = Train({"--epochs", "0", "--mesh", "batch=4,model=2", "--explain"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nstep on mesh [batch=4, model=2], 2 collectives, 2739572 B on the "
                                      "wire per device:\n  1. all_reduce over (model): "));
  EXPECT_THAT(finished.out, HasSubstr("\n       matmul (mlp.cc:"));
  EXPECT_THAT(finished.out, HasSubstr("\nmemory: "));
  EXPECT_THAT(finished.out, HasSubstr("var %dense1/kernel: f32[784,350] of f32[784,700] {_,model} (mlp.cc:"));
  EXPECT_THAT(finished.out, HasSubstr("\n\nat the start  test loss "));  // and goes on
}

TEST_F(MlpMnistTest, ShardsTheOptimizersStateWhereAsked) {
  const std::vector<std::string> args = {"--epochs", "0", "--mesh", "batch=4,model=2", "--explain"};
  EXPECT_THAT(Train(args).out, testing::Not(HasSubstr("weight-update sharding")));
  std::vector<std::string> with = args;
  with.push_back("--shard-weight-update");
  const Finished finished = Train(with);
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("laid out by weight-update sharding:\n  %adam/m/dense1/kernel "
                                      "{batch,model} instead of {_,model}\n"));
}

// ---- Data and measures.

TEST_F(MlpMnistTest, TakesTheDataFromTheEnvironment) {
  const Finished finished = Run({"--epochs", "0"}, {"MNIST_DIR=" + data()});
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(finished.out, StartsWith("mnist: 28 training and 12 test images, "));
  EXPECT_EQ(finished.code, 0);
}

TEST_F(MlpMnistTest, SaysLoudlyThatTheDigitsAreDrawn) {
  for (const std::vector<std::string>& data_dir : {std::vector<std::string>{}, {"--data-dir", "synthetic"}}) {
    std::vector<std::string> args = {"--train-examples", "20", "--test-examples", "10",
                                     "--epochs",         "0",  "--json",          Path("json")};
    args.insert(args.end(), data_dir.begin(), data_dir.end());
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err,
              "*** These are NOT the MNIST digits: training on synthetic ones from the built-in generator.\n"
              "*** For MNIST give --data-dir or MNIST_DIR, or run ./dev mnist.\n");
    EXPECT_THAT(finished.out, StartsWith("synthetic: 20 training and 10 test images, "));
    EXPECT_EQ(ReadJson("json").at("data"), "synthetic");
  }
}

TEST_F(MlpMnistTest, WritesWhatItMeasuredAsJson) {
  const Finished finished = Train({"--mesh", "batch=4,model=2", "--epochs", "2", "--json", Path("json")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(Written(), ElementsAre("json"));
  const json report = ReadJson("json");
  EXPECT_THAT(KeysOf(report), ElementsAre("collectives", "data", "devices", "epochs", "mesh", "parameters",
                                          "peak_rss_mb", "startup_seconds", "step_ms"));
  EXPECT_EQ(report["data"], "mnist");
  EXPECT_EQ(report["mesh"], "[batch=4, model=2]");
  EXPECT_EQ(report["devices"], 8);
  EXPECT_EQ(report["parameters"], 905010);
  EXPECT_GT(report["step_ms"].get<double>(), 0);
  EXPECT_GE(report["startup_seconds"].get<double>(), 0);
  EXPECT_LT(report["startup_seconds"].get<double>(), 3600);
  EXPECT_GT(report["peak_rss_mb"].get<double>(), 10);

  ASSERT_FALSE(report["collectives"].empty());
  for (const json& collective : report["collectives"]) {
    EXPECT_THAT(KeysOf(collective), ElementsAre("axes", "bytes", "count", "type"));
    EXPECT_EQ(collective["type"], "all_reduce");
    EXPECT_GT(collective["count"].get<int64_t>(), 0);
    EXPECT_GT(collective["bytes"].get<int64_t>(), 0);
  }
  ASSERT_EQ(report["epochs"].size(), 2u);
  for (const json& epoch : report["epochs"]) {
    EXPECT_THAT(KeysOf(epoch), ElementsAre("epoch", "seconds", "test_accuracy", "test_loss", "train_accuracy",
                                           "train_loss"));
    EXPECT_GT(epoch["seconds"].get<double>(), 0);
    for (const char* loss : {"train_loss", "test_loss"}) {
      EXPECT_GT(epoch[loss].get<double>(), 0);
      EXPECT_LT(epoch[loss].get<double>(), 5);
    }
    for (const char* accuracy : {"train_accuracy", "test_accuracy"}) {
      EXPECT_GE(epoch[accuracy].get<double>(), 0);
      EXPECT_LE(epoch[accuracy].get<double>(), 1);
    }
  }
  EXPECT_LT(report["epochs"][1]["train_loss"], report["epochs"][0]["train_loss"]);
}

TEST_F(MlpMnistTest, OneDeviceNeedsNoCollectives) {
  ASSERT_EQ(Train({"--mesh", "batch=1", "--epochs", "0", "--json", Path("json")}).code, 0);
  const json report = ReadJson("json");
  EXPECT_EQ(report["devices"], 1);
  EXPECT_EQ(report["collectives"], json::array());
  EXPECT_EQ(report["epochs"], json::array());
  EXPECT_EQ(report["startup_seconds"], nullptr);
  EXPECT_EQ(report["step_ms"], nullptr);
}

TEST_F(MlpMnistTest, TrainsTheSameOnEveryMeshInDoubles) {
  auto losses = [&](const std::string& mesh, bool shards = false) {
    std::vector<std::string> args = {"--mesh", mesh,      "--dtype", "f64",    "--epochs",
                                     "2",      "--steps", "3",       "--json", Path("json")};
    if (shards) args.push_back("--shard-weight-update");
    const Finished finished = Train(args);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return ReadJson("json").at("step_losses").get<std::vector<double>>();
  };
  const std::vector<double> expected = losses("batch=1");
  ASSERT_EQ(expected.size(), 3u);  // 16, 12 and 16 examples
  for (const char* mesh : {"batch=8", "batch=3", "batch=4,model=2"}) {
    SCOPED_TRACE(mesh);
    for (const bool shards : {false, true}) {
      const std::vector<double> actual = losses(mesh, shards);
      ASSERT_EQ(actual.size(), 3u);
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(actual[i], expected[i], 1e-9 * expected[i]) << shards;
    }
  }
}

// Without a GPU, the program says why it cannot run, and ends.
TEST_F(MlpMnistTest, TrainsTheSameOnAGpu) {
  auto train = [&](const std::string& devices) {
    return Train({"--devices", devices, "--mesh", "batch=4,model=2", "--dtype", "f64", "--epochs", "2",
                  "--steps", "3", "--json", Path("json")});
  };
  const absl::Status gpu = MakeBackend({.devices = "cuda"}).status();
  if (!gpu.ok()) {
    ExpectRejected(train("cuda"), MessageOf(gpu));
    EXPECT_THAT(Written(), ElementsAre());
    return;
  }
  std::map<std::string, std::vector<double>> losses;
  for (const std::string devices : {"cpu", "cuda"}) {
    const Finished finished = train(devices);
    ASSERT_EQ(finished.code, 0) << finished.err;
    losses[devices] = ReadJson("json").at("step_losses").get<std::vector<double>>();
  }
  ASSERT_EQ(losses["cuda"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(losses["cuda"][i], losses["cpu"][i], 1e-9 * losses["cpu"][i]);
}

TEST_F(MlpMnistTest, DumpsTheProgramAfterEveryPass) {
  const Finished finished = Train({"--epochs", "0", "--dump", Path("made/here")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(
      Written(),
      ElementsAre("made", "made/here", "made/here/00_fold_sizes.mw", "made/here/01_share_subexpressions.mw",
                  "made/here/02_drop_dead_code.mw", "made/here/03_regroup_sums.mw",
                  "made/here/04_propagate.mw", "made/here/05_insert_relayouts.mw", "made/here/06_localize.mw",
                  "made/here/07_share_subexpressions_local.mw", "made/here/08_drop_dead_code_local.mw",
                  "made/here/09_bucket_reductions.mw"));
  for (const std::string& name : Written()) {
    if (!name.ends_with(".mw")) continue;
    SCOPED_TRACE(name);
    const std::string text = Contents(Path(name));
    EXPECT_THAT(text, StartsWith("mesh [batch=8]\nfunc step(%images: "));
    const absl::StatusOr<Graph> parsed = ParseGraph(text);
    ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
    EXPECT_EQ(PrintGraph(*parsed), text);
  }
}

}  // namespace
}  // namespace meshwork::mlp_mnist_test
