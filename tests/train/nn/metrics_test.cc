// Metrics over several batches, one of them short, on several meshes and domains, beside plain loops over all rows.
#include "meshwork/train/nn/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/random.h"
#include "support/in_domains.h"
#include "train/classifier.h"

namespace meshwork::metrics_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr int64_t kBatch = 127, kClasses = 5, kIgnored = -1, kThresholds = 21;

// Rows for a classifier and for a binary one. Some labels are ignored, some are out of range. Some predictions lie on a
// threshold, some outside of 0 to 1. Some logits are equal.
struct Rows {
  std::vector<double> logits;  // [n,5]
  std::vector<int32_t> labels;
  std::vector<double> predictions, targets, weights;
  std::vector<int32_t> truth;  // 0 or 1
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

Rows MakeRows(int64_t n) {
  Random random(/*seed=*/5);
  Rows rows;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < kClasses; ++c) rows.logits.push_back(std::floor(random.Uniform(-2, 2) * 4) / 4);
    rows.labels.push_back(static_cast<int32_t>(random.Below(kClasses + 3)) - 1);
    rows.truth.push_back(static_cast<int32_t>(random.Below(2)));
    rows.predictions.push_back(std::floor(random.Uniform(-0.1, 0.9) * 40) / 40 + 0.2 * rows.truth.back());
    rows.targets.push_back(random.Uniform(-1, 1));
    rows.weights.push_back(random.Uniform(0, 2));
  }
  return rows;
}

// A program with every metric. Its outputs are the results of the metrics.
Graph Metered(const std::string& mesh_text, int64_t batch) {
  Graph g(Mesh::VirtualCpus(mesh_text).value());
  const DimSpec rows = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const Value logits = g.Input("logits", F64, {batch, kClasses}, {rows, model});
  const Value labels = g.Input("labels", I32, {batch}, {rows}),
              truth = g.Input("truth", I32, {batch}, {rows});
  const Value p = g.Input("predictions", F64, {batch}, {rows}), t = g.Input("targets", F64, {batch}, {rows});
  const Value w = g.Input("weights", F64, {batch}, {rows});
  const MetricOptions weighted{.weights = w};
  const LabelMetricOptions labeled{.weights = w, .ignore_label = kIgnored};
  g.Output("mean", MeanMetric(g, "mean").Update(t, weighted));
  g.Output("plain_mean", MeanMetric(g, "plain_mean").Update(t));
  g.Output("accuracy", AccuracyMetric(g, "accuracy").Update(logits, labels, labeled));
  g.Output("plain_accuracy", AccuracyMetric(g, "plain_accuracy").Update(logits, labels));
  g.Output("top2", TopKAccuracyMetric(g, "top2", 2).Update(logits, labels, labeled));
  g.Output("binary", BinaryAccuracyMetric(g, "binary", 0.4).Update(p, truth, weighted));
  g.Output("precision", PrecisionMetric(g, "precision", 0.4).Update(p, truth, weighted));
  g.Output("recall", RecallMetric(g, "recall", 0.4).Update(p, truth, weighted));
  g.Output("auc", AucMetric(g, "auc", kThresholds).Update(p, truth, weighted));
  g.Output("plain_auc", AucMetric(g, "plain_auc", kThresholds).Update(p, truth));
  g.Output("mae", MeanAbsoluteErrorMetric(g, "mae").Update(p, t, weighted));
  g.Output("mse", MeanSquaredErrorMetric(g, "mse").Update(p, t, weighted));
  g.Output("rmse", RootMeanSquaredErrorMetric(g, "rmse").Update(p, t));
  g.Output("perplexity", PerplexityMetric(g, "perplexity").Update(logits, labels, labeled));
  g.Output("confusion", ConfusionMatrixMetric(g, "confusion", kClasses).Update(logits, labels, labeled));
  return g;
}

Tensor From(const std::vector<double>& numbers, const Shape& shape) {
  return Tensor::From<double>(shape, numbers);
}

// Rows [begin, end).
Feeds FeedsOf(const Rows& rows, int64_t begin, int64_t end) {
  const int64_t n = rows.size();
  const Feeds all = {{"logits", From(rows.logits, {n, kClasses})},
                     {"labels", Tensor::From<int32_t>({n}, rows.labels)},
                     {"truth", Tensor::From<int32_t>({n}, rows.truth)},
                     {"predictions", From(rows.predictions, {n})},
                     {"targets", From(rows.targets, {n})},
                     {"weights", From(rows.weights, {n})}};
  Feeds feeds;
  for (const auto& [name, tensor] : all) feeds[name] = tensor.Rows(begin, end);
  return feeds;
}

// total / count, one row at a time.
struct PlainMean {
  double total = 0, count = 0;
  void Add(double value, double weight) {
    total += value * weight;
    count += weight;
  }
  double value() const { return count == 0 ? 0 : total / count; }
};

// Keras' definition of AUC: counts at each threshold, rates, trapezoids.
double PlainAuc(const Rows& rows, int64_t end, bool is_weighted) {
  std::vector<double> x, y;
  for (int64_t i = 0; i < kThresholds; ++i) {
    double threshold = static_cast<double>(i) / (kThresholds - 1);
    if (i == 0) threshold = -1e-7;
    if (i == kThresholds - 1) threshold = 1 + 1e-7;
    double above[2] = {0, 0}, all[2] = {0, 0};
    for (int64_t r = 0; r < end; ++r) {
      const double weight = is_weighted ? rows.weights[r] : 1;
      all[rows.truth[r]] += weight;
      if (std::clamp(rows.predictions[r], 0.0, 1.0) > threshold) above[rows.truth[r]] += weight;
    }
    x.push_back(above[0] / all[0]);
    y.push_back(above[1] / all[1]);
  }
  double area = 0;
  for (int64_t i = 0; i + 1 < kThresholds; ++i) area += (x[i] - x[i + 1]) * (y[i] + y[i + 1]) / 2;
  return area;
}

// All metrics over the first `end` rows.
std::map<std::string, std::vector<double>> PlainMetrics(const Rows& rows, int64_t end) {
  PlainMean mean, plain_mean, accuracy, plain_accuracy, top2, binary, precision, recall, mae, mse, rmse,
      surprise;
  std::vector<double> confusion(kClasses * kClasses, 0);
  for (int64_t r = 0; r < end; ++r) {
    const double* logits = &rows.logits[r * kClasses];
    const int64_t label = rows.labels[r], guess = std::max_element(logits, logits + kClasses) - logits;
    const double weight = rows.weights[r], p = rows.predictions[r], t = rows.targets[r];
    const bool is_class = label >= 0 && label < kClasses;
    mean.Add(t, weight);
    plain_mean.Add(t, 1);
    plain_accuracy.Add(guess == label, 1);
    if (label != kIgnored) {
      accuracy.Add(guess == label, weight);
      top2.Add(is_class &&
                   std::count_if(logits, logits + kClasses, [&](double z) { return z > logits[label]; }) < 2,
               weight);
    }
    if (is_class) {
      double sum = 0;
      for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(logits[c]);
      surprise.Add(std::log(sum) - logits[label], weight);
      confusion[label * kClasses + guess] += weight;
    }
    binary.Add((p > 0.4) == (rows.truth[r] == 1), weight);
    if (p > 0.4) precision.Add(rows.truth[r], weight);
    if (rows.truth[r] == 1) recall.Add(p > 0.4, weight);
    mae.Add(std::abs(p - t), weight);
    mse.Add((p - t) * (p - t), weight);
    rmse.Add((p - t) * (p - t), 1);
  }
  return {{"mean", {mean.value()}},
          {"plain_mean", {plain_mean.value()}},
          {"accuracy", {accuracy.value()}},
          {"plain_accuracy", {plain_accuracy.value()}},
          {"top2", {top2.value()}},
          {"binary", {binary.value()}},
          {"precision", {precision.value()}},
          {"recall", {recall.value()}},
          {"auc", {PlainAuc(rows, end, true)}},
          {"plain_auc", {PlainAuc(rows, end, false)}},
          {"mae", {mae.value()}},
          {"mse", {mse.value()}},
          {"rmse", {std::sqrt(rmse.value())}},
          {"perplexity", {std::exp(surprise.value())}},
          {"confusion", confusion}};
}

void ExpectMetrics(const StepResult& result, const Rows& rows, int64_t end) {
  const auto want = PlainMetrics(rows, end);
  ASSERT_EQ(result.outputs().size(), want.size());
  for (const auto& [name, numbers] : want) {
    SCOPED_TRACE(name);
    EXPECT_THAT(result.Get(name)->values<double>(), Pointwise(DoubleNear(1e-10), numbers));
  }
}

// Two batches of 127 rows and one of 31.
void ExpectAnEpoch(Session& session, const Rows& rows) {
  for (int64_t begin = 0; begin < rows.size(); begin += kBatch) {
    const int64_t end = std::min(begin + kBatch, rows.size());
    SCOPED_TRACE(end);
    const Feeds feeds = FeedsOf(rows, begin, end);
    const absl::StatusOr<StepResult> before = session.Evaluate(feeds);  // leaves no trace
    ASSERT_TRUE(before.ok()) << before.status();
    ExpectMetrics(*before, rows, end);
    ExpectMetrics(session.Run(feeds).value(), rows, end);
  }
}

class MetricsTest : public testing::TestWithParam<const char*> {};

TEST_P(MetricsTest, EqualPlainLoopsOverAllRowsOfAnEpoch) {
  const Rows rows = MakeRows(2 * kBatch + 31);
  Session session = Session::Create(Metered(GetParam(), kBatch),
                                    {.executor = {.poison_padding = true, .check_replicas = true}})
                        .value();
  ExpectAnEpoch(session, rows);
  ASSERT_EQ(MessageOf(ResetMetrics(session)), "");
  ExpectAnEpoch(session, rows);
}

INSTANTIATE_TEST_SUITE_P(Meshes, MetricsTest,
                         testing::Values("batch=1", "batch=8", "batch=3", "batch=2,model=2", "model=5",
                                         "batch=2,model=3"));

// The batch is as long as there are classes or thresholds. The session must still recognise the batch dim.
TEST(MetricsTest, SizesMayBeThoseOfTheBatch) {
  for (const int64_t batch : {kClasses, kThresholds}) {
    const Rows rows = MakeRows(batch + 2);
    Session session = Session::Create(Metered("batch=2", batch)).value();
    ExpectMetrics(session.Run(FeedsOf(rows, 0, batch)).value(), rows, batch);
    ExpectMetrics(session.Run(FeedsOf(rows, batch, batch + 2)).value(), rows, batch + 2);
  }
}

TEST(MetricsTest, AreTheSameInEveryDomain) {
  const Rows rows = MakeRows(kBatch + 31);
  InDomains(2, [&](Transport& end) {
    SessionOptions options{.workers = 1, .own_cores = false};
    options.executor.transport = &end;
    Session session = Session::Create(Metered("batch=4", kBatch), options).value();
    ExpectAnEpoch(session, rows);
    ASSERT_EQ(MessageOf(ResetMetrics(session)), "");
    ExpectAnEpoch(session, rows);
  });
}

TEST(MetricsTest, CountBeyondTheWholeNumbersOfF32) {
  Graph g{Mesh()};
  g.Output("mean", MeanMetric(g, "m").Update(g.Input("x", F32, {2}, {UNSHARDED})));
  Session session = Session::Create(g).value();
  const double many = 1 << 24;
  ASSERT_EQ(MessageOf(session.Set("metrics/m/count", Tensor::From<double>({}, {many}))), "");
  ASSERT_EQ(MessageOf(session.Set("metrics/m/total", Tensor::From<double>({}, {many}))), "");
  ASSERT_TRUE(session.Run({{"x", Tensor::From<float>({1}, {1})}}).ok());
  EXPECT_EQ(session.Get("metrics/m/count")->Scalar().value(), many + 1);
  EXPECT_EQ(session.Get("metrics/m/total")->Scalar().value(), many + 1);
}

TEST(MetricsTest, OfNothingAreZero) {
  Graph g{Mesh()};
  const Value p = g.Input("p", F32, {2}, {UNSHARDED}), y = g.Input("y", BOOL, {2}, {UNSHARDED});
  const Value none = g.Input("none", BOOL, {2}, {UNSHARDED});
  g.Output("mean", MeanMetric(g, "mean").Update(p, {.weights = none}));
  g.Output("precision", PrecisionMetric(g, "precision").Update(p, y, {.weights = none}));
  g.Output("recall", RecallMetric(g, "recall").Update(p, y, {.weights = none}));
  g.Output("auc", AucMetric(g, "auc").Update(p, y, {.weights = none}));
  Session session = Session::Create(g).value();
  const StepResult result = session
                                .Run({{"p", Tensor::From<float>({2}, {NAN, 1})},
                                      {"y", Tensor::Zeros({BOOL, {2}})},
                                      {"none", Tensor::Zeros({BOOL, {2}})}})
                                .value();
  for (const auto& [name, value] : result.outputs()) EXPECT_EQ(value.Scalar().value(), 0) << name;
}

// A model with metrics beside its loss trains as without them.
TEST(MetricsTest, DoNotChangeTheTraining) {
  const auto train = [](bool is_metered) {
    Graph g = Classifier("batch=2,model=2", 9);
    if (is_metered) {
      const Value logits(&g, g.outputs()[2].value), loss(&g, g.outputs()[0].value);
      const Value labels(&g, g.arguments()[1].value);
      g.Output("mean_loss", MeanMetric(g, "loss").Update(loss));
      g.Output("mean_accuracy", AccuracyMetric(g, "accuracy").Update(logits, labels));
    }
    Session session = Session::Create(g).value();
    for (const int64_t rows : {9, 9, 4}) EXPECT_TRUE(session.Run(Examples(rows)).ok());
    return session.Get("w").value();
  };
  ExpectNear(train(true), train(false), 0);
}

TEST(MetricsTest, AreResetByName) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F64, {2}, {UNSHARDED});
  MeanMetric train(g, "train/mean"), test(g, "test");
  g.Output("train", train.Update(x));
  g.Output("test", test.Update(x));
  EXPECT_EQ(train.name(), "train/mean");
  EXPECT_TRUE(test.result().valid());
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("metrics/train/mean/total", "metrics/train/mean/count",
                                                    "metrics/test/total", "metrics/test/count"));
  ASSERT_TRUE(session.Run({{"x", Tensor::From<double>({2}, {1, 3})}}).ok());
  const std::vector<std::string> names = {"train/mean"};
  ASSERT_EQ(MessageOf(ResetMetrics(session, names)), "");
  const StepResult result = session.Run({{"x", Tensor::From<double>({2}, {4, 6})}}).value();
  EXPECT_EQ(result.scalar("train").value(), 5);
  EXPECT_EQ(result.scalar("test").value(), 3.5);
}

// By the definition, in doubles: the loss is NaN if the row counts and its label is no class; the gradient is 0 there.
TEST(MetricsTest, LabelsOutOfRangeHaveNoLossAndNoGradient) {
  constexpr int64_t kRows = 11, kClasses = 3;
  for (int seed = 0; seed < 8; ++seed) {
    for (const char* mesh : {"batch=1,model=1", "batch=2,model=3", "batch=4,model=2"}) {
      const bool has_mask = seed % 2 == 1, has_ignored = seed % 4 >= 2, is_smoothed = seed >= 4;
      std::mt19937_64 engine(static_cast<uint64_t>(seed));
      std::vector<double> logits;
      std::vector<int64_t> labels;
      for (int64_t i = 0; i < kRows * kClasses; ++i)
        logits.push_back(static_cast<double>(engine() % 100) / 25 - 2);
      for (int64_t i = 0; i < kRows; ++i) labels.push_back(static_cast<int64_t>(engine() % 7) - 2);
      std::vector<uint8_t> counts;
      for (int64_t i = 0; i < kRows; ++i) counts.push_back(engine() % 2);
      Graph g(Mesh::VirtualCpus(mesh).value());
      const Value z = g.Input("z", F64, {kRows, kClasses}, {"batch", "model"});
      const Value y = g.Input("y", I64, {kRows}, {"batch"}), seen = g.Input("seen", BOOL, {kRows}, {"batch"});
      const LabelLossOptions options{.reduction = Reduction::kNone,
                                     .weights = has_mask ? seen : Value(),
                                     .label_smoothing = is_smoothed ? 0.1 : 0.0,
                                     .ignore_label = has_ignored ? std::optional<int64_t>(-1) : std::nullopt};
      const Value losses = SparseSoftmaxCrossEntropy(z, y, options);
      g.Output("losses", losses);
      g.Output("slopes", Gradients(ReduceSum(losses), {z})[0]);
      g.Output("seen", seen);
      Session session = Session::Create(g).value();
      const StepResult step = session
                                  .Run({{"z", Tensor::From<double>({kRows, kClasses}, logits)},
                                        {"y", Tensor::From<int64_t>({kRows}, labels)},
                                        {"seen", Tensor::From<uint8_t>({kRows}, counts).Cast(BOOL)}})
                                  .value();
      const Tensor found = step.Get("losses").value(), slopes = step.Get("slopes").value();
      for (int64_t i = 0; i < kRows; ++i) {
        const int64_t label = labels[static_cast<size_t>(i)];
        const bool does_count =
            !(has_mask && counts[static_cast<size_t>(i)] == 0) && !(has_ignored && label == -1);
        const bool is_class = label >= 0 && label < kClasses;
        double sum = 0, mean = 0;
        for (int64_t c = 0; c < kClasses; ++c) {
          sum += std::exp(logits[static_cast<size_t>(i * kClasses + c)]);
          mean += logits[static_cast<size_t>(i * kClasses + c)] / kClasses;
        }
        const double loss = found.values<double>()[i];
        SCOPED_TRACE(fmt::format("seed {}, {}, row {} of label {}", seed, mesh, i, label));
        if (!does_count) EXPECT_EQ(loss, 0);
        else if (!is_class) EXPECT_TRUE(std::isnan(loss)) << loss;
        else
          EXPECT_NEAR(loss,
                      std::log(sum) -
                          (is_smoothed ? 0.9 : 1) * logits[static_cast<size_t>(i * kClasses + label)] -
                          (is_smoothed ? 0.1 : 0) * mean,
                      1e-12);
        for (int64_t c = 0; c < kClasses; ++c) {
          const double share = std::exp(logits[static_cast<size_t>(i * kClasses + c)]) / sum;
          const double hit = (c == label ? (is_smoothed ? 0.9 : 1) : 0) + (is_smoothed ? 0.1 / kClasses : 0);
          EXPECT_NEAR(slopes.values<double>()[i * kClasses + c], does_count && is_class ? share - hit : 0,
                      1e-12);
        }
      }
    }
  }
}

TEST(MetricsTest, LabelsOutOfRangeAreReported) {
  Graph g(Mesh::VirtualCpus("batch=3").value());
  const Value z = g.Input("z", F32, {7, 3}, {"batch", UNSHARDED}), y = g.Input("y", I64, {7}, {"batch"});
  g.Output(kInvalidLabels, CountInvalidLabels(z, y, -1));
  Session session = Session::Create(g).value();
  const Tensor logits = Tensor::Zeros({F32, {7, 3}}),
               labels = Tensor::From<int64_t>({7}, {0, 3, -1, 2, -2, 1, 9});
  const auto check = [&](int64_t rows) -> std::string {
    const Feeds feeds = {{"z", logits.Rows(0, rows)}, {"y", labels.Rows(0, rows)}};
    return std::string(MessageOf(CheckLabels(session.Run(feeds).value())));
  };
  EXPECT_EQ(check(1), "");
  EXPECT_THAT(check(4), HasSubstr("1 label of this step is out of range"));
  EXPECT_THAT(check(7), HasSubstr("3 labels of this step are out of range"));
}

}  // namespace
}  // namespace meshwork::metrics_test
