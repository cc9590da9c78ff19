// Fit, Evaluate and Predict beside loops of Session::Run.
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/train/fit/evaluation.h"
#include "support/in_domains.h"
#include "train/fit_programs.h"

namespace meshwork::fit_test {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr const char* kMeshes[] = {"batch=1", "batch=2", "model=2", "batch=3,model=2"};

void ExpectSameBits(const Session& a, const Session& b) {
  const Tensors x = StateOf(a), y = StateOf(b);
  ASSERT_EQ(x.size(), y.size());
  for (const auto& [name, tensor] : x) EXPECT_TRUE(BitwiseEqual(tensor, y.at(name))) << name;
}

Feeds FeedsOfBatch(const Example& batch) { return Feeds(batch.columns().begin(), batch.columns().end()); }

TEST(FitTest, TrainsAsALoopOfRunsDoes) {
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Session fitted = Session::Create(Classifier(mesh, 5)).value(),
            looped = Session::Create(Classifier(mesh, 5)).value();
    const History history =
        Fit(fitted, ExampleBatches(5), {.epochs = 3, .outputs = {"loss", "accuracy"}}).value();
    ASSERT_EQ(history.epochs.size(), 3u);
    EXPECT_EQ(history.stopped, "");
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      double loss = 0, accuracy = 0;
      for (const auto& [begin, end] : {std::pair{0, 5}, std::pair{5, 10}, std::pair{10, 12}}) {
        Feeds feeds = Examples(12);
        for (auto& [name, tensor] : feeds) tensor = tensor.Rows(begin, end);
        const StepResult result = looped.Run(feeds).value();
        loss += result.scalar("loss").value() * (end - begin);
        accuracy += result.scalar("accuracy").value() * (end - begin);
      }
      const EpochLog& log = history.epochs[epoch];
      EXPECT_EQ(log.epoch, epoch);
      EXPECT_EQ(log.steps, 3);
      EXPECT_EQ(log.examples, 12);
      EXPECT_EQ(log.step, 3 * (epoch + 1));
      EXPECT_THAT(log.values, UnorderedElementsAre(Pair("loss", DoubleEq(loss / 12)),
                                                   Pair("accuracy", DoubleEq(accuracy / 12))));
    }
    ExpectSameBits(fitted, looped);
    EXPECT_LT(history.Of("loss")[2], history.Of("loss")[0]);
  }
}

TEST(FitTest, ShufflesEachEpochAsRepeatDoes) {
  const Feeds examples = Examples(12);
  const Dataset dataset = Dataset::Create(Columns(examples.begin(), examples.end())).value();
  for (const Pipeline& data :
       {ExampleBatches(4, /*shuffle_seed=*/7), dataset.Batches({.batch_size = 4, .shuffle_seed = 7})}) {
    for (const int64_t steps_per_epoch : {0, 3}) {
      Session fitted = Session::Create(Classifier("batch=2", 4)).value(),
              looped = Session::Create(Classifier("batch=2", 4)).value();
      ASSERT_TRUE(Fit(fitted, data, {.epochs = 4, .steps_per_epoch = steps_per_epoch}).ok());
      for (const Batch& batch : data.Repeat(4)) ASSERT_TRUE(looped.Run(FeedsOfBatch(batch)).ok());
      ExpectSameBits(fitted, looped);
    }
  }
}

TEST(FitTest, AnEpochOfSomeStepsGoesOnWhereTheLastOneEnded) {
  std::vector<double> seen;
  Session session = Session::Create(Echo()).value();
  const CallbackPtr note = Lambdas({.on_step_end = [&](FitState& state) {
    seen.push_back(state.last().at("loss"));
    return absl::OkStatus();
  }});
  const History history =
      Fit(session, Losses({1, 2, 3}), {.epochs = 2, .steps_per_epoch = 4, .callbacks = {note}}).value();
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 1, 2, 3, 1, 2));
  EXPECT_THAT(history.Of("loss"), ElementsAre(7.0 / 4, 2));
}

TEST(FitTest, TakesDataWithoutEndAndEpochsThatBeginLater) {
  Session session = Session::Create(Echo()).value();
  const History history =
      Fit(session, Losses({1, 2, 3}).Repeat(), {.epochs = 5, .steps_per_epoch = 2, .initial_epoch = 3})
          .value();
  EXPECT_THAT(history.Of("loss"), ElementsAre(1.5, 2));
  EXPECT_EQ(history.epochs[0].epoch, 3);
  EXPECT_EQ(history.steps, 4);
}

// The classifier with metrics over the epoch.
Graph Metered(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch");
  Value x = g.Input("x", F64, {5, 3}, {batch, UNSHARDED});
  Value y = g.Input("y", I32, {5}, {batch});
  Variable w = g.Var("w", GlorotUniform({3, 4}, F64), {UNSHARDED, AxisOrWhole(g.mesh(), "model")});
  Value logits = MatMul(x, w);
  Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Sgd({.learning_rate = 0.5}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("perplexity", PerplexityMetric(g, "perplexity").Update(logits, y));
  g.Output("logits", logits);
  return g;
}

TEST(FitTest, MetricsAreOverTheEpochAndAValidationLeavesThemAlone) {
  for (const char* mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Metered(mesh)).value();
    std::vector<double> counts;
    const CallbackPtr count = Lambdas({.on_epoch_end = [&](FitState& state) {
      counts.push_back(state.session().Get("metrics/perplexity/count")->Scalar().value());
      return absl::OkStatus();
    }});
    const Pipeline test = ExampleBatches(5);
    const History history =
        Fit(session, ExampleBatches(5), {.epochs = 2, .validation_data = test, .callbacks = {count}}).value();
    EXPECT_THAT(counts, ElementsAre(12, 12));
    // Perplexity is e to the mean cross-entropy: exactly that of the mean loss, which no mean of perplexities is.
    for (const EpochLog& log : history.epochs) {
      EXPECT_NEAR(log.values.at("perplexity"), std::exp(log.values.at("loss")), 1e-12);
      EXPECT_NEAR(log.values.at("val_perplexity"), std::exp(log.values.at("val_loss")), 1e-12);
      EXPECT_NE(log.values.at("perplexity"), log.values.at("val_perplexity"));
    }
    const Tensors before = StateOf(session);
    const Metrics result = Evaluate(session, test).value();
    EXPECT_EQ(result.at("perplexity"), history.epochs[1].values.at("val_perplexity"));
    for (const auto& [name, tensor] : StateOf(session))
      EXPECT_TRUE(BitwiseEqual(tensor, before.at(name))) << name;
  }
}

TEST(FitTest, EvaluationsOfTrainAndEvaluateCountInMetricsAlike) {
  Session session = Session::Create(Metered("batch=2")).value();
  ASSERT_TRUE(session.Run(Examples(5)).ok());  // the training's sums are not 0
  const Feeds examples = Examples(12);
  EvalSpec spec;
  spec.input.dataset = Dataset::Create(Columns(examples.begin(), examples.end())).value();
  spec.input.batches.batch_size = 5;
  spec.input.feeds = [](const Batch& batch) { return Feeds{{"x", batch["x"]}, {"y", batch["y"]}}; };
  const Metrics result = Evaluate(session, spec).value();
  EXPECT_EQ(result, Evaluate(session, ExampleBatches(5)).value());
  EXPECT_NEAR(result.at("perplexity"), std::exp(result.at("loss")), 1e-12);
  EXPECT_EQ(session.Get("metrics/perplexity/count")->Scalar().value(), 5);
}

TEST(FitTest, ValidatesEverySoManyEpochsAndAfterTheLastOne) {
  Session session = Session::Create(Classifier("batch=2", 5)).value();
  const History history =
      Fit(session, ExampleBatches(5),
          {.epochs = 5, .validation_data = ExampleBatches(5), .validation_every = 2, .validation_steps = 1})
          .value();
  std::vector<bool> validated;
  for (const EpochLog& log : history.epochs) validated.push_back(log.values.contains("val_loss"));
  EXPECT_THAT(validated, ElementsAre(false, true, false, true, true));
}

TEST(FitTest, FeedsAreWhatTheFunctionMakesOfABatch) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {2}, {"batch"});
  Value scale = g.Input("scale", F64, {}, {});
  g.Output("mean", ReduceMean(x * scale, {0}));
  Session session = Session::Create(g).value();
  const Pipeline data =
      BatchesOf({{"text", Tensor::From<double>({4}, {1, 2, 3, 4})}}, {.batch_size = 2}).value();
  const FeedFunction feeds = [](const Example& batch) { return Feeds{{"x", batch["text"]}}; };
  const History history = Fit(session, data, {.feeds = feeds, .fed = {{"scale", Tensor(10.0)}}}).value();
  EXPECT_THAT(history.Of("mean"), ElementsAre(25));
  EXPECT_THAT(Evaluate(session, data, {.steps = 1, .feeds = feeds, .fed = {{"scale", Tensor(10.0)}}}).value(),
              ElementsAre(Pair("mean", 15)));
}

TEST(FitTest, PredictJoinsTheRowsOfAllBatches) {
  for (const char* mesh : kMeshes) {
    Session session = Session::Create(Classifier(mesh, 5)).value();
    const StepResult joined = Predict(session, ExampleBatches(5), {.outputs = {"logits"}}).value();
    EXPECT_EQ(joined.outputs().size(), 1u);
    const Tensor x = Examples(12).at("x"), w = session.Get("w").value(), b = session.Get("b").value();
    const Tensor logits = joined.Get("logits").value();
    ASSERT_EQ(logits.shape(), Shape({12, 4}));
    for (int64_t i = 0; i < 12; ++i)
      for (int64_t c = 0; c < 4; ++c) {
        double expected = b.At({c}).value();
        for (int64_t k = 0; k < 3; ++k) expected += x.At({i, k}).value() * w.At({k, c}).value();
        EXPECT_NEAR(logits.At({i, c}).value(), expected, 1e-12);
      }
  }
}

TEST(FitTest, EvaluateIsOutsideOfTraining) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  Value x = g.Input("x", F64, {4}, {"batch"});
  g.Output("mean", ReduceMean(WhenTraining(x, -x), {0}));
  Session session = Session::Create(g).value();
  const Pipeline data =
      BatchesOf({{"x", Tensor::From<double>({6}, {1, 2, 3, 4, 5, 6})}}, {.batch_size = 4}).value();
  const History history = Fit(session, data, {.validation_data = data}).value();
  EXPECT_THAT(history.epochs[0].values, UnorderedElementsAre(Pair("mean", 3.5), Pair("val_mean", -3.5)));
}

TEST(FitTest, SeveralDomainsFitAsOne) {
  Session whole = Session::Create(Metered("batch=3,model=2")).value();
  const FitOptions options{.epochs = 2, .validation_data = ExampleBatches(5)};
  const History expected = Fit(whole, ExampleBatches(5), options).value();
  for (const int64_t domains : {3, 6})
    InDomains(domains, [&](Transport& end) {
      SessionOptions on_transport{.workers = 1, .own_cores = false, .gather_outputs = true};
      on_transport.executor.transport = &end;
      absl::StatusOr<Session> session = Session::Create(Metered("batch=3,model=2"), on_transport);
      ASSERT_TRUE(session.ok()) << session.status();
      absl::StatusOr<History> history = Fit(*session, ExampleBatches(5), options);
      ASSERT_TRUE(history.ok()) << history.status();
      ASSERT_EQ(history->epochs.size(), 2u);
      for (size_t e = 0; e < 2; ++e)
        for (const auto& [name, value] : expected.epochs[e].values)
          EXPECT_NEAR(history->epochs[e].values.at(name), value, 1e-12) << name;
      // One process wants to stop, or fails: all end.
      int64_t steps = 0;
      const bool is_first = end.domain() == 0;
      FitOptions stopped{
          .epochs = 100, .stop = [&] { return is_first && ++steps > 1; }, .log = [](std::string_view) {}};
      history = Fit(*session, ExampleBatches(5), stopped);
      ASSERT_TRUE(history.ok()) << history.status();
      EXPECT_EQ(history->stopped, "interrupted by process 0");
      stopped.stop = nullptr;
      stopped.callbacks = {Lambdas({.on_step_end = [&](FitState& state) {
        return is_first && state.steps() == 4 ? absl::DataLossError("a bad disk") : absl::OkStatus();
      }})};
      EXPECT_FALSE(Fit(*session, ExampleBatches(5), stopped).ok());
    });
}

TEST(AccumulateTest, CountsInMetricsAloneAndUndoStillKnowsTheStep) {
  for (const bool atomic : {false, true}) {
    SessionOptions options;
    options.executor.atomic = atomic;
    Session session = Session::Create(Metered("batch=2"), options).value();
    const Tensor start = session.Get("w").value();
    ASSERT_TRUE(session.Run(Examples(5)).ok());
    const Tensor trained = session.Get("w").value();
    ASSERT_TRUE(session.Accumulate(Examples(5), {"loss"}).ok());  // "loss" depends on no metric
    EXPECT_EQ(session.Get("metrics/perplexity/count")->Scalar().value(), 5);
    ASSERT_TRUE(session.Accumulate(Examples(3), {"perplexity"}).ok());
    EXPECT_EQ(session.Get("metrics/perplexity/count")->Scalar().value(), 8);
    EXPECT_TRUE(BitwiseEqual(session.Get("w").value(), trained));
    EXPECT_EQ(session.steps_done(), 1);
    if (!atomic) continue;
    ASSERT_TRUE(session.Undo().ok());
    EXPECT_TRUE(BitwiseEqual(session.Get("w").value(), start));
    EXPECT_EQ(session.Get("metrics/perplexity/count")->Scalar().value(), 0);
  }
}

TEST(PipelineTest, KnowsWhetherItSurelyHasNoEnd) {
  const Pipeline ten = Pipeline::Range(10), all = Pipeline::Range();
  const auto same = [](const Example& e) { return e; };
  for (const Pipeline& p :
       {all, ten.Repeat(), all.Batch(3), all.Map(same), ten.Repeat().Shuffle(3, 1).Prefetch(1), all.Skip(3),
        all.Shard(0, 2), all.Repeat(2), all.Cache(), Pipeline::Interleave({ten, all})})
    EXPECT_TRUE(p.is_endless()) << p.ToString();
  for (const Pipeline& p : {ten, all.Take(5), ten.Repeat(3), Pipeline(), Pipeline().Repeat(), all.Repeat(0),
                            Pipeline::Interleave({ten, ten})})
    EXPECT_FALSE(p.is_endless()) << p.ToString();
}

TEST(HistoryTest, TextIsExact) {
  const History history{.epochs = {{.epoch = 0,
                                    .steps = 3,
                                    .examples = 12,
                                    .step = 3,
                                    .seconds = 0.1,
                                    .values = {{"loss", 1.0 / 3}, {"val_loss", INFINITY}}},
                                   {.epoch = 1, .steps = 3, .examples = 12, .step = 6, .values = {}}},
                        .steps = 7,
                        .stopped = "the \"user\"\n"};
  const History read = History::FromText(history.ToText()).value();
  EXPECT_EQ(read.epochs, history.epochs);
  EXPECT_EQ(read.steps, 7);
  EXPECT_EQ(read.stopped, history.stopped);
  EXPECT_EQ(history.ToCsv(), "epoch,step,loss,val_loss\n1,3,0.3333333333333333,inf\n2,6,,\n");
}

}  // namespace
}  // namespace meshwork::fit_test
