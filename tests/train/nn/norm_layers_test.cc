#include "meshwork/train/nn/norm_layers.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork::norm_layers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kNormMeshes[] = {"batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"};

// ---- Batch norm. Fixtures by PyTorch: tests/fixtures/layers_test.cc.

// x: [6,..] -> y.
Session Normalized(const std::string& mesh, const Shape& shape, const BatchNormalizationOptions& options) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  LayoutSpec layout(shape.size(), UNSHARDED);
  layout[0] = AxisOrWhole(g.mesh(), "batch");
  BatchNormalizationOptions sharded = options;
  sharded.layout = {AxisOrWhole(g.mesh(), "model")};
  const Value x = g.Input("x", options.dtype.value_or(F32), shape, layout);
  g.Output("y", BatchNormalization(g, "norm", shape.back(), sharded)(x));
  return Session::Create(g, {.executor = {.poison_padding = true}}).value();
}

TEST(BatchNormalizationTest, RunningStatisticsAreMovingAveragesOfThoseOfTheBatch) {
  for (const char* mesh : kNormMeshes) {
    for (const Shape& shape : {Shape{6, 3}, Shape{6, 2, 3}, Shape{6, 2, 2, 2, 3}}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, ShapeToString(shape)));
      Session session = Normalized(mesh, shape, {.momentum = 0.8, .dtype = F64});
      std::vector<double> mean(3, 0), variance(3, 1);
      for (int64_t rows : {6, 4, 1, 6}) {
        Shape part = shape;
        part[0] = rows;
        const Tensor x = Rough(Type{F64, part});
        ASSERT_TRUE(session.Run({{"x", x}}).ok());
        const int64_t n = x.num_elements() / 3;
        for (int64_t c = 0; c < 3; ++c) {
          double m = 0, v = 0;
          for (int64_t i = 0; i < n; ++i) m += x.values<double>()[i * 3 + c] / static_cast<double>(n);
          for (int64_t i = 0; i < n; ++i)
            v += std::pow(x.values<double>()[i * 3 + c] - m, 2) / static_cast<double>(n);
          mean[c] = 0.8 * mean[c] + 0.2 * m;
          variance[c] = 0.8 * variance[c] + 0.2 * v;
        }
        ExpectNear(session.Get("norm/mean").value(), Tensor::From<double>({3}, mean));
        ExpectNear(session.Get("norm/variance").value(), Tensor::From<double>({3}, variance));
      }
    }
  }
}

// Each call normalizes by its own x; the running statistics take the first one's, then the second one's.
TEST(BatchNormalizationTest, MayBeCalledSeveralTimes) {
  for (const char* mesh : kNormMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    g.SetLayouts({.layouts = {{"[ab]", {"batch", UNSHARDED}}}, .missing_axes = MissingAxes::kShardNothing});
    const BatchNormalization norm(g, "norm", 1, {.momentum = 0.5, .epsilon = 0, .dtype = F64});
    g.Output("a", norm(g.Input("a", F64, {2, 1})));
    g.Output("b", norm(g.Input("b", F64, {2, 1})));
    ASSERT_TRUE(g.status().ok()) << g.status();
    Session session = Session::Create(g).value();
    // Means 4 and 10, variances 4 and 1.
    const StepResult result =
        session
            .Run({{"a", Tensor::From<double>({2, 1}, {2, 6})}, {"b", Tensor::From<double>({2, 1}, {9, 11})}})
            .value();
    EXPECT_THAT(result.Get("a")->values<double>(), ElementsAre(-1, 1));
    EXPECT_THAT(result.Get("b")->values<double>(), ElementsAre(-1, 1));
    EXPECT_EQ(session.Get("norm/mean")->Scalar().value(), (0 * 0.5 + 4 * 0.5) * 0.5 + 10 * 0.5);
    EXPECT_EQ(session.Get("norm/variance")->Scalar().value(), (1 * 0.5 + 4 * 0.5) * 0.5 + 1 * 0.5);
  }
}

TEST(BatchNormalizationTest, EvaluationReadsTheRunningStatisticsAndLeavesThem) {
  for (const char* mesh : kNormMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Normalized(mesh, {6, 2}, {.epsilon = 1, .dtype = F64});
    ASSERT_TRUE(session.Set("norm/mean", Tensor::From<double>({2}, {1, -2})).ok());
    ASSERT_TRUE(session.Set("norm/variance", Tensor::From<double>({2}, {3, 8})).ok());
    ASSERT_TRUE(session.Set("norm/scale", Tensor::From<double>({2}, {2, 3})).ok());
    ASSERT_TRUE(session.Set("norm/offset", Tensor::From<double>({2}, {10, 20})).ok());
    // (x - mean) / (2 or 3) · scale + offset, whatever the other rows are.
    const Feeds feeds = {{"x", Tensor::From<double>({2, 2}, {1, -2, 5, 4})}};
    EXPECT_THAT(session.Evaluate(feeds)->Get("y")->values<double>(), ElementsAre(10, 20, 14, 26));
    EXPECT_THAT(session.Predict(feeds, {"y"})->Get("y")->values<double>(), ElementsAre(10, 20, 14, 26));
    EXPECT_THAT(session.Get("norm/mean")->values<double>(), ElementsAre(1, -2));
    EXPECT_THAT(session.Get("norm/variance")->values<double>(), ElementsAre(3, 8));
  }
}

TEST(BatchNormalizationTest, ScaleAndOffsetMayBeMissing) {
  Session session =
      Normalized("batch=2", {6, 2}, {.epsilon = 0, .scale = false, .offset = false, .dtype = F64});
  EXPECT_THAT(session.variable_names(), ElementsAre("norm/mean", "norm/variance"));
  const Tensor x = Tensor::From<double>({2, 2}, {1, 5, 3, 1});
  EXPECT_THAT(session.Run({{"x", x}})->Get("y")->values<double>(), ElementsAre(-1, 1, 1, -1));
}

TEST(BatchNormalizationTest, OneRowHasVarianceZero) {
  Session session = Normalized("batch=2", {6, 2}, {.momentum = 0.5, .unbiased = true, .dtype = F64});
  const Tensor y = session.Run({{"x", Tensor::From<double>({1, 2}, {4, -8})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(0, 0));
  EXPECT_THAT(session.Get("norm/mean")->values<double>(), ElementsAre(2, -4));
  EXPECT_THAT(session.Get("norm/variance")->values<double>(), ElementsAre(0.5, 0.5));
}

TEST(BatchNormalizationTest, OfBF16HasStatisticsInF32) {
  Session session = Normalized("batch=2", {6, 2}, {.dtype = BF16});
  EXPECT_EQ(session.Get("norm/mean")->dtype(), F32);
  EXPECT_EQ(session.Get("norm/scale")->dtype(), BF16);
  Tensor x(Type{BF16, {2, 2}});
  const float numbers[] = {256, 1, 258, 1};
  for (int i = 0; i < 4; ++i) x.mutable_values<BFloat16>()[i] = BFloat16(numbers[i]);
  for (int step = 0; step < 3; ++step) {
    const Tensor y = session.Run({{"x", x}})->Get("y").value();
    ASSERT_EQ(y.dtype(), BF16);
    EXPECT_EQ(static_cast<float>(y.values<BFloat16>()[0]), -1);
    EXPECT_EQ(static_cast<float>(y.values<BFloat16>()[2]), 1);
  }
  // 257 (1 - 0.99³): in bf16 the mean of 256 and 258 would be 256 or 258, and the average lose its small steps.
  EXPECT_NEAR(session.Get("norm/mean")->values<float>()[0], 257 * (1 - std::pow(0.99, 3)), 1e-4);
}

TEST(BatchNormalizationTest, OptimizersLeaveTheStatistics) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {4, 2}, {"batch", UNSHARDED});
  const BatchNormalization norm(g, "norm", 2, {.dtype = F64});
  AdamW({.weight_decay = 0.5}).Minimize(ReduceSum(Square(norm(x)), {0, 1}));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Run({{"x", Tensor::From<double>({4, 2}, {1, 2, 1, 2, 1, 2, 1, 2})}}).ok());
  EXPECT_THAT(session.variable_names(), testing::Not(testing::Contains(HasSubstr("norm/mean/"))));
  EXPECT_NEAR(session.Get("norm/mean")->values<double>()[1], 0.02, 1e-15);
  EXPECT_NEAR(session.Get("norm/variance")->values<double>()[1], 0.99, 1e-15);
}

// ---- A network with batch norm and dropout.

Graph Network(const std::string& mesh) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const Value x = g.Input("x", F64, {12, 3}, {batch, UNSHARDED});
  const Value y = g.Input("y", I32, {12}, {batch});
  const Dense dense1(g, "dense1", 3, 8,
                     {.kernel_layout = {UNSHARDED, model}, .bias_layout = {model}, .dtype = F64});
  const BatchNormalization norm(g, "norm", 8, {.momentum = 0.5, .layout = {model}, .dtype = F64});
  const Dropout dropout(g, "dropout", 0.25, {.seed = 5});
  const Dense dense2(g, "dense2", 8, 4, {.kernel_layout = {model, UNSHARDED}, .dtype = F64});
  const Value logits = dense2(dropout(Relu(norm(dense1(x)))));
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  g.Output("logits", logits);
  return g;
}

TEST(NormLayersTest, TrainTheSameOnEveryMeshWithShortBatches) {
  std::vector<double> losses;
  Tensors state;
  Tensor evaluated;
  for (const char* mesh : {"", "batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"}) {
    SCOPED_TRACE(mesh);
    Session session = Session::Create(Network(mesh), {.executor = {.poison_padding = true}}).value();
    std::vector<double> got;
    for (int64_t rows : {12, 12, 7, 12, 2, 11, 12, 12})
      got.push_back(session.Run(Examples(rows))->scalar("loss").value());
    const Tensor logits = session.Evaluate(Examples(9))->Get("logits").value();
    if (losses.empty()) {
      losses = got;
      state = StateOf(session);
      evaluated = logits;
      continue;
    }
    EXPECT_THAT(got, testing::Pointwise(testing::DoubleNear(1e-9), losses));
    ExpectNear(logits, evaluated, 1e-9);
    for (const auto& [name, tensor] : StateOf(session))
      if (tensor.dtype() == F64) ExpectNear(tensor, state.at(name), 1e-9);
  }
}

// ---- Dropout.

// x: f64[8,100] of ones -> "y"; "z": of a layer with another name; "again": of a second call of the first layer.
Session Dropped(const std::string& mesh, double rate, int64_t seed = 0) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const Value x = g.Input("x", F64, {8, 100}, {AxisOrWhole(g.mesh(), "batch"), UNSHARDED});
  const Dropout first(g, "first", rate, {.seed = seed}), second(g, "second", rate, {.seed = seed});
  g.Output("y", first(x));
  g.Output("z", second(x));
  g.Output("again", first(x));
  return Session::Create(g).value();
}

Feeds Ones(int64_t rows = 8) {
  return {{"x", Tensor::From<double>({rows, 100}, std::vector<double>(rows * 100, 1))}};
}

std::vector<double> Numbers(const StepResult& result, const char* output) {
  const Tensor tensor = result.Get(output).value();
  return {tensor.values<double>().begin(), tensor.values<double>().end()};
}

TEST(DropoutTest, DropsItsRateAndScalesTheRest) {
  Session session = Dropped("batch=2", 0.2);
  double kept = 0;
  constexpr int kSteps = 20;
  for (int step = 0; step < kSteps; ++step) {
    for (double y : Numbers(*session.Run(Ones()), "y")) {
      ASSERT_TRUE(y == 0 || y == 1.25) << y;
      kept += y != 0;
    }
  }
  // A binomial's deviation is sqrt(n p q) = 50.6 of 16000.
  EXPECT_NEAR(kept, 0.8 * kSteps * 800, 4 * 50.6);
}

TEST(DropoutTest, DrawsAnewAtEveryStepCallAndLayer) {
  Session session = Dropped("batch=2", 0.5);
  const StepResult first = session.Run(Ones()).value();
  const StepResult second = session.Run(Ones()).value();
  EXPECT_NE(Numbers(first, "y"), Numbers(second, "y"));
  EXPECT_NE(Numbers(first, "y"), Numbers(first, "z"));
  EXPECT_NE(Numbers(first, "y"), Numbers(first, "again"));
  EXPECT_NE(Numbers(first, "z"), Numbers(first, "again"));
  Session other = Dropped("batch=2", 0.5, 1);
  EXPECT_NE(Numbers(first, "y"), Numbers(*other.Run(Ones()), "y"));
}

TEST(DropoutTest, IsTheSameOnEveryMeshAndForEveryNumberOfRows) {
  std::vector<std::vector<double>> want;
  for (const char* mesh : kNormMeshes) {
    SCOPED_TRACE(mesh);
    Session session = Dropped(mesh, 0.5);
    for (size_t step = 0; step < 3; ++step) {
      const std::vector<double> got = Numbers(*session.Run(Ones(step == 1 ? 3 : 8)), "y");
      if (want.size() <= step) want.push_back(got);
      EXPECT_EQ(got, want[step]);
    }
  }
}

// Drop path, and channels: whole dims, the same on every mesh, of short batches too.
TEST(DropoutTest, DropsWholeDimsTheSameOnEveryMesh) {
  std::vector<std::vector<double>> want;
  for (const char* mesh : kNormMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    g.SetLayouts(
        {.layouts = {{"x", {"batch", UNSHARDED, "model"}}}, .missing_axes = MissingAxes::kShardNothing});
    const Value x = g.Input("x", F64, {8, 5, 6});
    g.Output("paths", Dropout(g, "path", 0.5, {.whole_dims = {1, 2}})(x));
    g.Output("channels", Dropout(g, "channels", 0.5, {.whole_dims = 1})(x));
    g.Output("columns", Dropout(g, "columns", 0.5, {.whole_dims = {0, 1}})(x));
    Session session = Session::Create(g).value();
    std::vector<double> last;
    for (size_t step = 0; step < 3; ++step) {
      const int64_t rows = step == 1 ? 3 : 8;
      const StepResult result = session.Run({{"x", Tensor::Full({F64, {rows, 5, 6}}, 1)}}).value();
      std::vector<double> got;
      for (const char* name : {"paths", "channels", "columns"}) {
        const std::vector<double> y = Numbers(result, name);
        for (int64_t i = 0; i < rows * 30; ++i) {
          ASSERT_TRUE(y[i] == 0 || y[i] == 2) << y[i];
          const int64_t first = name == std::string("paths")      ? i / 30 * 30
                                : name == std::string("channels") ? i / 30 * 30 + i % 6
                                                                  : i % 6;
          ASSERT_EQ(y[i], y[first]) << name << " " << i;
        }
        got.insert(got.end(), y.begin(), y.end());
      }
      EXPECT_NE(got, last);
      if (want.size() <= step) want.push_back(got);
      EXPECT_EQ(got, want[step]);
      last = got;
    }
    EXPECT_EQ(Numbers(*session.Evaluate({{"x", Tensor::Full({F64, {2, 5, 6}}, 1)}}), "paths"),
              std::vector<double>(60, 1));
  }
}

TEST(DropoutTest, OneCounterCountsTheStepsOfTraining) {
  Session session = Dropped("batch=2", 0.5);
  EXPECT_THAT(session.variable_names(), ElementsAre(kDropoutStep));
  const std::vector<double> first = Numbers(*session.Run(Ones()), "y");
  ASSERT_TRUE(session.Run(Ones()).ok());
  EXPECT_EQ(session.Get(kDropoutStep)->Scalar().value(), 2);
  EXPECT_EQ(Numbers(*session.Evaluate(Ones()), "y"), std::vector<double>(800, 1));
  EXPECT_EQ(Numbers(*session.Predict(Ones(5), {"y"}), "y"), std::vector<double>(500, 1));
  EXPECT_EQ(session.Get(kDropoutStep)->Scalar().value(), 2);
  // A checkpoint restores this counter, which decides what is dropped.
  ASSERT_TRUE(session.Set(kDropoutStep, Tensor::From<int64_t>({}, {0})).ok());
  EXPECT_EQ(Numbers(*session.Run(Ones()), "y"), first);
}

TEST(DropoutTest, GradientsGoWhereNothingWasDropped) {
  for (const char* mesh : kNormMeshes) {
    SCOPED_TRACE(mesh);
    Graph g(Mesh::VirtualCpus(mesh).value());
    const Value x = g.Input("x", F64, {8, 100}, {AxisOrWhole(g.mesh(), "batch"), UNSHARDED});
    const Value y = Dropout(g, "dropout", 0.5)(x);
    g.Output("y", y);
    g.Output("gradient", Gradients(ReduceSum(y, {0, 1}), {x})[0]);
    Session session = Session::Create(g).value();
    const StepResult result = session.Run(Ones()).value();
    EXPECT_EQ(Numbers(result, "y"), Numbers(result, "gradient"));
  }
}

TEST(DropoutTest, HoldsInLoops) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {8, 100}, {"batch", UNSHARDED});
  const Dropout dropout(g, "dropout", 0.5);
  const ScanResult scan = Scan(g, {x}, {},
                               [&](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) {
                                 return ScanStep{.carries = {dropout(carries[0])}};
                               },
                               {.length = 2});
  g.Output("y", scan.carries[0]);
  Session session = Session::Create(g).value();
  const std::vector<double> first = Numbers(*session.Run(Ones()), "y"),
                            second = Numbers(*session.Run(Ones()), "y");
  EXPECT_NE(first, second);
  for (double y : first) EXPECT_TRUE(y == 0 || y == 4) << y;
}

// ---- Group norm.

TEST(GroupNormalizationTest, StandardizesGroupsThenScalesAndShifts) {
  Graph g(Mesh::VirtualCpus("batch=2,model=2").value());
  const Value x = g.Input("x", F64, {1, 2, 4}, {"batch", UNSHARDED, "model"});
  const GroupNormalization norm(g, "norm", 4, 2, {.layout = {"model"}, .dtype = F64, .epsilon = 0});
  g.Output("y", norm(x));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("norm/scale", "norm/offset"));
  ASSERT_TRUE(session.Set("norm/scale", Tensor::From<double>({4}, {1, 2, 1, 1})).ok());
  ASSERT_TRUE(session.Set("norm/offset", Tensor::From<double>({4}, {0, 10, 0, 0})).ok());
  // Group 1: 1, 1, 3, 3, mean 2, deviation 1; group 2: 0, 4, 0, 4, mean and deviation 2.
  const Tensor y =
      session.Run({{"x", Tensor::From<double>({1, 2, 4}, {1, 1, 0, 4, 3, 3, 0, 4})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(-1, 8, -1, 1, 1, 12, -1, 1));
}

}  // namespace
}  // namespace meshwork::norm_layers_test
