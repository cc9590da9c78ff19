// TrainAndEvaluate beside a loop that is written by hand, stopped and started again, in several domains, and with an
// evaluator.
#include "meshwork/train/fit/train_and_evaluate.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_folder.h"
#include "meshwork/train/fit/data_position.h"
#include "meshwork/train/fit/evaluator.h"
#include "meshwork/train/fit/training_loop.h"
#include "runtime/plan/programs.h"
#include "support/checkpoint_steps.h"
#include "support/golden.h"
#include "support/in_domains.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace meshwork::train_and_evaluate_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kExamples = 50, kRows = 8, kTests = 21;  // seven batches in an epoch, the last of 2

Dataset SomeExamples(int64_t n, int64_t shift) {
  Tensor x = Rough(Type{F64, {n + shift, 3}}).Rows(shift, n + shift);
  Tensor y(Type{I32, {n}});
  for (int64_t i = 0; i < n; ++i) y.mutable_values<int32_t>()[i] = static_cast<int32_t>((i * 7 + i / 3) % 4);
  return Dataset::Create({{"x", x}, {"y", y}}).value();
}

Feeds Feed(const Batch& batch) { return {{"x", batch["x"]}, {"y", batch["y"]}}; }

// A classifier with momentum, so that the optimizer has state.
Graph Classifier(const std::string& mesh, Mode mode, double dropout = 0) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  Value x = g.Input("x", F64, {kRows, 3}, {"batch", UNSHARDED});
  Value y = g.Input("y", I32, {kRows}, {"batch"});
  Dense dense1(g, "dense1", 3, 5, {.dtype = F64}), dense2(g, "dense2", 5, 4, {.dtype = F64});
  Value hidden = Relu(dense1(x));
  if (dropout > 0 && mode == Mode::kTrain)
    hidden = StatelessDropout(hidden, dropout, /*seed=*/3, /*stream=*/0);
  Value logits = dense2(hidden);
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  if (mode == Mode::kTrain) Momentum({.learning_rate = 0.2}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("accuracy", Accuracy(logits, y, F64));
  return g;
}

ModelFn ModelOn(const std::string& mesh, double dropout = 0) {
  return [=](Mode mode) { return Classifier(mesh, mode, dropout); };
}

// The lines of a log, with filters: lines with a given word, or lines without the times, which differ.
class Lines {
 public:
  std::function<void(std::string_view)> Add() {
    return [this](std::string_view line) { lines_.emplace_back(line); };
  }
  std::vector<std::string> With(std::string_view word) const {
    std::vector<std::string> found;
    for (const std::string& line : lines_)
      if (line.find(word) != std::string::npos) found.push_back(line);
    return found;
  }
  const std::vector<std::string>& all() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

class TrainAndEvaluateTest : public TempDirTest {
 protected:
  TrainSpec Train(int64_t max_steps) const {
    return {.input = {SomeExamples(kExamples, 0), {.batch_size = kRows, .shuffle_seed = 5}, Feed},
            .max_steps = max_steps};
  }
  EvalSpec Eval() const { return {.input = {SomeExamples(kTests, 60), {.batch_size = kRows}, Feed}}; }
  RunConfig Config(const std::string& name, int64_t save_steps) const {
    RunConfig config{.model_dir = Path(name), .save_checkpoints_steps = save_steps};
    config.session.workers = 1;
    config.session.seed = 4;
    config.log = [](std::string_view) {};
    return config;
  }

  // All variables of the newest checkpoint, as numbers.
  std::map<std::string, std::vector<double>> Saved(const std::string& name) const {
    std::map<std::string, std::vector<double>> numbers;
    const Checkpoint saved = Checkpoint::Open(Path(name)).value();
    for (const CheckpointVariable& variable : saved.index().variables)
      numbers[variable.name] = NumbersOf(saved.Read(variable.name).value());
    return numbers;
  }
  std::vector<int64_t> Steps(const std::string& name) const { return StepsIn(Path(name)); }
  std::vector<nlohmann::json> Results(const std::string& name) const {
    std::vector<nlohmann::json> results;
    std::ifstream file(ResultsFile(Path(name), ""));
    for (std::string line; std::getline(file, line);) results.push_back(nlohmann::json::parse(line));
    return results;
  }
};

// The results of TrainAndEvaluate, computed by TrainByHand in a few lines.
struct Plain {
  std::map<std::string, std::vector<double>> weights;
  std::map<int64_t, Metrics> evaluations;  // by number of steps
  double last_loss = 0;
};
Plain TrainByHand(const ModelFn& model, const TrainSpec& train, const EvalSpec& eval,
                  const SessionOptions& options, const std::set<int64_t>& evaluated) {
  Plain plain;
  Session session = Session::Create(model(Mode::kTrain), options).value();
  int64_t step = 0;
  BatchesOptions batches = train.input.batches;
  for (; step < train.max_steps; ++batches.epoch) {
    for (const Batch& batch : train.input.dataset.Batches(batches)) {
      plain.last_loss = session.Run(Feed(batch))->scalar("loss").value();
      ++step;
      if (evaluated.contains(step)) {
        double loss = 0, accuracy = 0;
        for (const Batch& test : eval.input.dataset.Batches(eval.input.batches)) {
          const StepResult result = session.Evaluate(Feed(test)).value();
          loss += result.scalar("loss").value() * static_cast<double>(test.rows());
          accuracy += result.scalar("accuracy").value() * static_cast<double>(test.rows());
        }
        const auto n = static_cast<double>(eval.input.dataset.size());
        plain.evaluations[step] = {{"loss", loss / n}, {"accuracy", accuracy / n}};
      }
      if (step == train.max_steps) break;
    }
  }
  for (const std::string& name : session.variable_names())
    plain.weights[name] = NumbersOf(session.Get(name).value());
  return plain;
}

TEST_F(TrainAndEvaluateTest, IsALoopThatIsWrittenByHand) {
  const ModelFn model = ModelOn("batch=2");
  const TrainSpec train = Train(17);
  const RunConfig config = Config("a", 5);
  const Plain plain = TrainByHand(model, train, Eval(), config.session, {5, 10, 15, 17});
  const Evaluation last = TrainAndEvaluate(model, train, Eval(), config, Processes()).value();
  EXPECT_EQ(last, (Evaluation{17, plain.evaluations.at(17)}));
  EXPECT_EQ(Saved("a"), plain.weights);
  std::map<int64_t, Metrics> results;
  for (const nlohmann::json& line : Results("a"))
    results[line.at("global_step")] = {{"loss", line.at("loss")}, {"accuracy", line.at("accuracy")}};
  EXPECT_EQ(results, plain.evaluations);
}

// Stopped after any number of steps, in the middle of an epoch, at its end, or before the first checkpoint by steps.
TEST_F(TrainAndEvaluateTest, GoesOnWhereItWasStopped) {
  const ModelFn model = ModelOn("batch=2");
  const Plain plain = TrainByHand(model, Train(20), Eval(), Config("", 4).session, {20});
  for (int64_t stop : {1, 3, 6, 7, 8, 13, 14, 19}) {
    const std::string name = fmt::format("stop{}", stop);
    ASSERT_TRUE(TrainAndEvaluate(model, Train(stop), Eval(), Config(name, 4), Processes()).ok());
    EXPECT_EQ(Steps(name)[0], stop);
    const Evaluation last = TrainAndEvaluate(model, Train(20), Eval(), Config(name, 4), Processes()).value();
    EXPECT_EQ(last, (Evaluation{20, plain.evaluations.at(20)})) << "stopped at " << stop;
    EXPECT_EQ(Saved(name), plain.weights) << "stopped at " << stop;
  }
}

TEST_F(TrainAndEvaluateTest, ATrainingThatHasEndedIsEvaluatedOnly) {
  const ModelFn model = ModelOn("batch=2");
  const Evaluation first = TrainAndEvaluate(model, Train(6), Eval(), Config("a", 4), Processes()).value();
  TrainSpec again = Train(6);
  again.input.feeds = [](const Batch&) -> Feeds {
    ADD_FAILURE() << "a step is made";
    return {};
  };
  EXPECT_EQ(TrainAndEvaluate(model, again, Eval(), Config("a", 4), Processes()).value(), first);
}

TEST_F(TrainAndEvaluateTest, KeepsTheNewestCheckpoints) {
  RunConfig config = Config("a", 2);
  config.keep_checkpoint_max = 3;
  ASSERT_TRUE(TrainAndEvaluate(ModelOn("batch=1"), Train(11), Eval(), config, Processes()).ok());
  EXPECT_THAT(Steps("a"), ElementsAre(11, 10, 8));
}

TEST_F(TrainAndEvaluateTest, LogsAsTfEstimatorDoes) {
  RunConfig config = Config("a", 8);
  config.log_step_count_steps = 5;
  Lines lines;
  config.log = lines.Add();
  double now = 0;
  config.seconds = [&] { return now; };
  TrainSpec train = Train(12);
  train.input.feeds = [&](const Batch& batch) {
    now += 0.25;
    return Feed(batch);
  };
  const Evaluation last = TrainAndEvaluate(ModelOn("batch=1"), train, Eval(), config, Processes()).value();
  const std::string folder = Path("a");
  std::string text;
  for (const std::string& line : lines.all()) {
    text += line + "\n";
    if (const size_t at = text.find(folder); at != std::string::npos) text.replace(at, folder.size(), "DIR");
  }
  ExpectGolden("train/train_and_evaluate.txt", text + last.ToString() + "\n");
}

// The last line of a log says what to do, and from which step the training goes on.
TEST_F(TrainAndEvaluateTest, AfterAnErrorItSaysHowToGoOn) {
  for (const int64_t good : {11, 3}) {
    RunConfig config = Config(fmt::format("after_{}", good), 4);
    Lines lines;
    config.log = lines.Add();
    TrainSpec train = Train(30);
    int64_t batches = 0;
    train.input.feeds = [&](const Batch& batch) {
      Feeds feeds = Feed(batch);
      if (++batches > good) feeds.erase("y");
      return feeds;
    };
    ASSERT_FALSE(TrainAndEvaluate(ModelOn("batch=1"), train, Eval(), config, Processes()).ok());
    EXPECT_EQ(
        lines.all().back(),
        good == 3
            ? fmt::format("TrainAndEvaluate: it has failed after step 3. Nothing is saved in {}; the same "
                          "program begins again from its start.",
                          config.model_dir)
            : fmt::format("TrainAndEvaluate: it has failed after step 11. Step 8 is saved in {}; the same "
                          "program goes on from there.",
                          config.model_dir));
    train.input.feeds = Feed;
    EXPECT_EQ(TrainAndEvaluate(ModelOn("batch=1"), train, Eval(), config, Processes())->global_step, 30);
    const std::vector<std::string> restored = lines.With("Restored");
    EXPECT_THAT(restored, ::testing::SizeIs(good == 3 ? 0 : 1));
  }
}

TEST_F(TrainAndEvaluateTest, EvaluatesTheProgramOfItsMode) {
  // Without dropout, the program of evaluation is the training program less the parts that only training needs.
  EXPECT_TRUE(ComputeTheSame(Classifier("batch=2", Mode::kTrain), Classifier("batch=2", Mode::kEvaluate)));
  EXPECT_FALSE(ComputeTheSame(Classifier("batch=2", Mode::kTrain), Classifier("batch=1", Mode::kEvaluate)));
  EXPECT_FALSE(
      ComputeTheSame(Classifier("batch=2", Mode::kTrain, 0.5), Classifier("batch=2", Mode::kEvaluate)));
  // With dropout, evaluation has a session of its own, which uses the weights of the training.
  const ModelFn model = ModelOn("batch=2", 0.5);
  const RunConfig config = Config("a", 100);
  const Evaluation last = TrainAndEvaluate(model, Train(9), Eval(), config, Processes()).value();
  Session session = Session::Create(model(Mode::kEvaluate), config.session).value();
  const Checkpoint saved = Checkpoint::Open(Path("a")).value();
  for (const std::string& name : session.variable_names())
    ASSERT_TRUE(session.Set(name, saved.Read(name).value()).ok());
  EXPECT_EQ(last.metrics, Evaluate(session, Eval()).value());
  Session dropping = Session::Create(model(Mode::kTrain), config.session).value();
  for (const std::string& name : dropping.variable_names())
    ASSERT_TRUE(dropping.Set(name, saved.Read(name).value()).ok());
  EXPECT_NE(last.metrics, Evaluate(dropping, Eval()).value());
}

TEST_F(TrainAndEvaluateTest, EvaluatesAsManyBatchesAsAsked) {
  EvalSpec two = Eval();
  two.steps = 2;
  EvalSpec first = Eval();
  first.input.dataset = first.input.dataset.Take(2 * kRows);
  EXPECT_EQ(TrainAndEvaluate(ModelOn("batch=1"), Train(3), two, Config("a", 100), Processes()).value(),
            TrainAndEvaluate(ModelOn("batch=1"), Train(3), first, Config("b", 100), Processes()).value());
}

// The clock advances by a second per step.
TEST_F(TrainAndEvaluateTest, ThrottlesEvaluations) {
  EvalSpec eval = Eval();
  eval.start_delay_secs = 5;
  eval.throttle_secs = 4;
  RunConfig config = Config("a", 1);
  double now = 0;
  config.seconds = [&] { return now; };
  TrainSpec train = Train(16);
  train.input.feeds = [&](const Batch& batch) {
    now += 1;
    return Feed(batch);
  };
  ASSERT_TRUE(TrainAndEvaluate(ModelOn("batch=1"), train, eval, config, Processes()).ok());
  std::vector<int64_t> steps;
  for (const nlohmann::json& line : Results("a")) steps.push_back(line.at("global_step"));
  EXPECT_THAT(steps, ElementsAre(5, 9, 13, 16));
}

// ---- Several domains, and an evaluator.

SessionOptions OnTransport(const SessionOptions& options, Transport* end) {
  SessionOptions on = options;
  on.executor.transport = end;
  on.compile.deterministic = true;
  on.own_cores = false;
  return on;
}

TEST_F(TrainAndEvaluateTest, DomainsTrainAsOneDoes) {
  RunConfig config = Config("alone", 5);
  config.session = OnTransport(config.session, nullptr);
  config.seconds = [] { return 0.0; };
  const ModelFn model = ModelOn("batch=2", 0.25);
  const EvalSpec eval = Eval();
  const Evaluation alone = TrainWithCheckpoints(model, Train(12), &eval, config).value();
  InDomains(2, [&](Transport& end) {
    for (int64_t steps : {4, 12}) {  // the first run stops at step 4
      RunConfig mine = config;
      mine.model_dir = Path("two");
      mine.session = OnTransport(config.session, &end);
      const absl::StatusOr<Evaluation> last = TrainWithCheckpoints(model, Train(steps), &eval, mine);
      ASSERT_TRUE(last.ok()) << last.status();
      if (steps == 12) {
        EXPECT_EQ(*last, alone);
      }
    }
  });
  EXPECT_EQ(Saved("two"), Saved("alone"));
  EXPECT_EQ(Results("two").back(), Results("alone").back());
  EXPECT_EQ(Results("two").size(), 4u) << "by one of the domains: after 4, 5, 10 and 12 steps";
}

// The evaluator sees the newest checkpoints, and its results are those that the training would have computed.
TEST_F(TrainAndEvaluateTest, AnEvaluatorSaysTheSame) {
  const ModelFn model = ModelOn("batch=2");
  RunConfig config = Config("apart", 3);
  config.seconds = [] { return 0.0; };
  const Plain plain = TrainByHand(model, Train(20), Eval(), config.session, {3, 6, 9, 12, 15, 18, 20});
  absl::StatusOr<Evaluation> evaluated;
  const EvalSpec eval = Eval();
  std::thread evaluator([&] { evaluated = EvaluateCheckpoints(model, 20, eval, config); });
  const Evaluation trained = TrainWithCheckpoints(model, Train(20), nullptr, config).value();
  evaluator.join();
  EXPECT_EQ(trained.global_step, 20);
  EXPECT_EQ(trained.metrics.at("loss"), plain.last_loss) << "of the last step, on its batch";
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(*evaluated, (Evaluation{20, plain.evaluations.at(20)}));
  const std::vector<nlohmann::json> results = Results("apart");
  ASSERT_FALSE(results.empty());
  for (const nlohmann::json& line : results) {
    const Metrics metrics = {{"loss", line.at("loss")}, {"accuracy", line.at("accuracy")}};
    EXPECT_EQ(metrics, plain.evaluations.at(line.at("global_step")));
  }
}

TEST_F(TrainAndEvaluateTest, AnEvaluatorHasAMeshOfItsOwn) {
  RunConfig config = Config("a", 100);
  const Evaluation trained =
      TrainAndEvaluate(ModelOn("batch=4,other=2"), Train(9), Eval(), config, Processes()).value();
  config.seconds = [] { return 0.0; };
  const Evaluation evaluated = EvaluateCheckpoints(ModelOn("batch=1"), 9, Eval(), config).value();
  EXPECT_EQ(evaluated.global_step, 9);
  EXPECT_NEAR(evaluated.metrics.at("loss"), trained.metrics.at("loss"), 1e-12);
}

TEST_F(TrainAndEvaluateTest, AnEvaluatorLeavesOutWhatItCannotRestore) {
  RunConfig config = Config("a", 4);
  Lines lines;
  config.log = lines.Add();
  config.seconds = [] { return 0.0; };
  const EvalSpec eval = Eval();
  const Evaluation last = TrainWithCheckpoints(ModelOn("batch=1"), Train(8), &eval, config).value();
  // The newest checkpoint is of another model. The training goes on meanwhile.
  const auto other = [](Mode) {
    Graph g(Mesh::VirtualCpus("batch=1").value());
    Variable w = g.Var("w", Filled(1, {2}, F64), {UNSHARDED});
    Value loss = ReduceSum(w, {0});
    Sgd({.learning_rate = 0.1}).Minimize(loss);
    g.Output("loss", loss);
    return g;
  };
  RunConfig there = Config("b", 100);
  there.seconds = config.seconds;
  TrainSpec train = Train(9);
  train.input.feeds = [](const Batch&) { return Feeds(); };
  ASSERT_TRUE(TrainWithCheckpoints(other, train, nullptr, there).ok());
  std::filesystem::rename(Path("b") + "/" + CheckpointName(9), Path("a") + "/" + CheckpointName(9));

  absl::StatusOr<Evaluation> evaluated;
  std::atomic<bool> has_left_out = false;
  RunConfig watched = config;
  watched.log = [&](std::string_view line) {
    if (line.find("is left out") != std::string_view::npos) has_left_out = true;
  };
  std::thread evaluator([&] { evaluated = EvaluateCheckpoints(ModelOn("batch=1"), 10, eval, watched); });
  while (!has_left_out) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::filesystem::remove_all(Path("a") + "/" + CheckpointName(9));
  const Evaluation more = TrainWithCheckpoints(ModelOn("batch=1"), Train(10), &eval, config).value();
  evaluator.join();
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(*evaluated, more);
}

// ---- The position in the data.

TEST(DataPositionTest, IsThatOfAWalk) {
  InputSpec input{SomeExamples(kExamples, 0), {.batch_size = kRows, .shuffle_seed = 5}, Feed};
  DataPosition position;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const int64_t batches = *input.dataset.Batches(input.batches).size();
    for (int64_t batch = 0; batch < batches; ++batch, position.Advance(input)) {
      EXPECT_EQ(position, (DataPosition{epoch, batch}));
      EXPECT_EQ(PositionIn(FactsOf(position, input), input).value(), position);
    }
  }
}

// Batches become smaller, as with fewer processes. No example is left out.
TEST(DataPositionTest, GoesOnWithBatchesOfAnotherSize) {
  InputSpec input{SomeExamples(kExamples, 0), {.batch_size = 12}, Feed}, other = input;
  other.batches.batch_size = 8;
  EXPECT_EQ(PositionIn(FactsOf({2, 2}, input), other).value(), (DataPosition{2, 3}));  // 24 examples
  EXPECT_EQ(PositionIn(FactsOf({2, 3}, input), other).value(),
            (DataPosition{2, 4}));  // 36 examples, 4 of which are seen again
}

}  // namespace
}  // namespace meshwork::train_and_evaluate_test
