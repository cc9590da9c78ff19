#include "meshwork/train/optim/optimizers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/program.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/nn/layers.h"
#include "meshwork/train/nn/metrics.h"
#include "meshwork/train/optim/averages.h"
#include "support/tensors.h"

namespace meshwork::optimizers_test {
namespace {

using ::testing::ElementsAre;

Graph OnTwo() { return Graph(Mesh::VirtualCpus("model=2").value()); }

std::vector<double> ValuesOf(const Session& session, const std::string& name) {
  const Tensor tensor = session.Get(name).value();
  return {tensor.values<double>().begin(), tensor.values<double>().end()};
}

// loss = sum(c · w²) / 2, so that the gradient is c · w; w: f64[3] is sharded.
Value Parabola(Graph& g) {
  Variable w = g.Var("w", Filled(2, {3}, F64), {"model"});
  Value c = Iota(g, {F64, {3}}, 0) + 1.0;  // 1, 2, 3
  Value loss = ReduceSum(c * w * w, {0}) / 2.0;
  g.Output("loss", loss);
  return loss;
}

TEST(SgdTest, StepsAgainstTheGradient) {
  Graph g = OnTwo();
  Sgd({.learning_rate = 0.125}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("w"));
  EXPECT_EQ(session.Run({})->scalar("loss").value(), 12);  // before the step
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.75, 1.5, 1.25));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.53125, 1.125, 0.78125));
}

TEST(AdamTest, FollowsAlgorithm1) {
  Graph g = OnTwo();
  Adam({.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("w", "adam/step", "adam/m/w", "adam/v/w"));
  std::vector<double> w(3, 2), m(3, 0), v(3, 0);
  for (int t = 1; t <= 5; ++t) {
    SCOPED_TRACE(t);
    ASSERT_TRUE(session.Run({}).ok());
    EXPECT_EQ(session.Get("adam/step")->Scalar().value(), t);
    for (int i = 0; i < 3; ++i) {
      const double gradient = (i + 1) * w[i];
      m[i] = 0.8 * m[i] + 0.2 * gradient;
      v[i] = 0.95 * v[i] + 0.05 * gradient * gradient;
      const double m_hat = m[i] / (1 - std::pow(0.8, t)), v_hat = v[i] / (1 - std::pow(0.95, t));
      w[i] -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-4);
      EXPECT_NEAR(ValuesOf(session, "w")[i], w[i], 1e-14);
      EXPECT_NEAR(ValuesOf(session, "adam/m/w")[i], m[i], 1e-14);
      EXPECT_NEAR(ValuesOf(session, "adam/v/w")[i], v[i], 1e-13);
    }
  }
}

// Row 41 of the design's hard cases: systems that move a read across its assignment use the old momentum.
TEST(MomentumTest, MovesTheWeightByTheNewMomentum) {
  Graph g = OnTwo();
  Momentum({.learning_rate = 0.25, .momentum = 0.5}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("w", "momentum/m/w"));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "momentum/m/w"), ElementsAre(2, 4, 6));
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.5, 1, 0.5));  // the old momentum, 0, would leave 2, 2, 2
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "momentum/m/w"), ElementsAre(2.5, 4, 4.5));
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(0.875, 0, -0.625));
}

TEST(NesterovTest, LooksAheadByTheNewMomentum) {
  Graph g = OnTwo();
  Nesterov({.learning_rate = 0.25, .momentum = 0.5}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "nesterov/m/w"), ElementsAre(2, 4, 6));
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.25, 0.5, -0.25));  // 2 - (g + m/2) / 4
}

TEST(AdagradTest, KeepsTheSumOfSquares) {
  Graph g = OnTwo();
  Adagrad({.learning_rate = 0.5, .initial_accumulator = 12}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  EXPECT_THAT(ValuesOf(session, "adagrad/a/w"), ElementsAre(12, 12, 12));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "adagrad/a/w"), ElementsAre(16, 28, 48));
  EXPECT_NEAR(ValuesOf(session, "w")[0], 2 - 0.5 * 2 / 4, 1e-10);
}

TEST(RmsPropTest, KeepsTheStateItsOptionsNeed) {
  using Options = RmsPropOptions;
  auto names = [](Options options) {
    Graph g = OnTwo();
    RmsProp(options).Minimize(Parabola(g));
    return Session::Create(g)->variable_names();
  };
  EXPECT_THAT(names({}), ElementsAre("w", "rmsprop/v/w"));
  EXPECT_THAT(names({.momentum = 0.5}), ElementsAre("w", "rmsprop/v/w", "rmsprop/m/w"));
  EXPECT_THAT(names({.momentum = 0.5, .centered = true}),
              ElementsAre("w", "rmsprop/v/w", "rmsprop/a/w", "rmsprop/m/w"));
}

// The variance of a constant is 0. Rounding would make it negative.
TEST(RmsPropTest, StaysFiniteWhereTheGradientIsConstant) {
  Graph g = OnTwo();
  Variable w = g.Var("w", Zeros({3}), {"model"});
  RmsProp({.rho = 0.9, .centered = true}).Minimize(ReduceSum(w * 1234.567, {0}));
  Session session = Session::Create(g).value();
  for (int step = 0; step < 200; ++step) ASSERT_TRUE(session.Run({}).ok());
  const Tensor weights = session.Get("w").value();
  for (float x : weights.values<float>()) EXPECT_TRUE(std::isfinite(x)) << x;
}

std::vector<Optimizer> AllOptimizers() {
  return {Sgd({}),  Momentum({}), Nesterov({}), Adagrad({}), RmsProp({.momentum = 0.5, .centered = true}),
          Adam({}), AdamW({})};
}

TEST(OptimizersTest, LayTheirStateOutLikeTheWeight) {
  for (const Optimizer& optimizer : AllOptimizers()) {
    Graph g = OnTwo();
    optimizer.Minimize(Parabola(g));
    Session session = Session::Create(g).value();
    const Graph& local = session.program().body;
    for (const std::string& name : session.variable_names()) {
      const std::string layout = name.ends_with("/step") ? "{}" : "{model}";
      EXPECT_EQ(local.value(local.arguments()[local.FindArgument(name)].value).layout->ToString(), layout)
          << name;
    }
  }
}

// Data parallel with three weights: one all-reduce sums all gradients, whatever the optimizer does with them.
TEST(OptimizersTest, SumAllGradientsInOneAllReduce) {
  for (const Optimizer& optimizer : AllOptimizers()) {
    Graph g(Mesh::VirtualCpus("batch=4").value());
    Value x = g.Input("x", F32, {8, 6}, {"batch", UNSHARDED});
    Value h = Relu(Dense(g, "dense", 6, 5)(x));
    Variable scale = g.Var("scale", Filled(1, {5}), {UNSHARDED});
    optimizer.Minimize(ReduceMean(h * scale, {0, 1}));
    Session session = Session::Create(g).value();
    const std::vector<CollectiveSummary> collectives = SummarizeCollectives(session.program().body);
    ASSERT_EQ(collectives.size(), 1u) << session.Explain();
    EXPECT_EQ(collectives[0].type, "all_reduce");
    EXPECT_EQ(collectives[0].count, 1);
    EXPECT_EQ(collectives[0].bytes, 2 * 3 * (6 * 5 + 5 + 5) * 4 / 4);  // 2(n-1)/n·B
  }
}

// A weight that is sharded and one that is not: the norm is of both. Gradients are 3 and 4 · (1, 0).
TEST(OptimizersTest, ClipAllGradientsByOneNorm) {
  Graph g = OnTwo();
  Variable a = g.Var("a", Zeros({}, F64), {}), b = g.Var("b", Zeros({2}, F64), {"model"});
  const Value first = 1.0 - Iota(g, {F64, {2}}, 0);
  Sgd({.learning_rate = 1, .clip_norm = 2.5}).Minimize(a * 3.0 + ReduceSum(b * first * 4.0, {0}));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "a"), ElementsAre(-1.5));
  EXPECT_THAT(ValuesOf(session, "b"), ElementsAre(-2, 0));
}

TEST(OptimizersTest, UpdateTheFloatVariablesTheLossDependsOnAndNoOther) {
  Graph g = OnTwo();
  Value loss = Parabola(g);
  g.Var("unused", Filled(7, {3}, F64), {UNSHARDED});
  Variable count = g.Var("count", Filled(2, {}, I32), {});
  Variable offset = g.Var("offset", Filled(1, {}, F64), {});
  Sgd({.learning_rate = 0.125}).Minimize(loss + Cast(count, F64) + offset);
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.75, 1.5, 1.25));
  EXPECT_THAT(ValuesOf(session, "offset"), ElementsAre(0.875));
  EXPECT_THAT(ValuesOf(session, "unused"), ElementsAre(7, 7, 7));
  EXPECT_EQ(session.Get("count")->Scalar().value(), 2);
}

// loss = sum((frozen · w)²), with `freeze` applied to `frozen`.
TEST(OptimizersTest, LeaveWhatNoGradientReaches) {
  const std::vector<std::pair<std::string, Optimizer>> optimizers = {{"sgd", Sgd({})},
                                                                     {"momentum", Momentum({})},
                                                                     {"nesterov", Nesterov({})},
                                                                     {"adagrad", Adagrad({})},
                                                                     {"rmsprop", RmsProp({})},
                                                                     {"adam", Adam({})},
                                                                     {"adamw", AdamW({.weight_decay = 0.1})},
                                                                     {"lamb", Lamb({.weight_decay = 0.1})}};
  const std::vector<std::function<Value(const Value&)>> freezes = {
      [](const Value& x) { return StopGradient(x); },
      [](const Value& x) { return Cast(Cast(x, I32), F64); },
      [](const Value& x) { return Select(Greater(x, 0.5), Floor(x), 0.0); },
      [](const Value& x) {  // in a loop
        return Scan(*x.graph(), {StopGradient(x) * 0.0}, {},
                    [&](Graph&, const auto& c, const auto&) {
                      return ScanStep{.carries = {c[0] + StopGradient(x) / 2.0}};
                    },
                    {.length = 2})
            .carries[0];
      },
      [](const Value& x) {  // in a body, of a value that differs between iterations
        const Value slices = Constant(*x.graph(), 1.0, {F64, {2, 3}});
        return Scan(*x.graph(), {}, {slices},
                    [&](Graph&, const auto&, const auto& s) {
                      return ScanStep{.sums = {StopGradient(s[0] * x)}};
                    })
            .sums[0];
      },
      [](const Value& x) {  // a loop whose sum is a number
        const Value slices = Constant(*x.graph(), 1.0, {F64, {2, 3}});
        return Scan(*x.graph(), {}, {slices},
                    [&](Graph&, const auto&, const auto& s) {
                      return ScanStep{.sums = {ReduceSum(StopGradient(s[0] * x), {0})}};
                    })
            .sums[0];
      },
      [](const Value& x) {  // in both branches
        return If(
            Greater(ReduceSum(x, {0}), 0.0),
            [&](Graph&) { return std::vector<Value>{StopGradient(x * 2.0)}; },
            [&](Graph&) { return std::vector<Value>{StopGradient(x)}; })[0];
      }};
  for (const auto& [name, optimizer] : optimizers) {
    for (size_t f = 0; f < freezes.size(); ++f) {
      SCOPED_TRACE(name + " " + std::to_string(f));
      Graph g = OnTwo();
      const Variable frozen = g.Var("frozen", Filled(2, {3}, F64), {UNSHARDED});
      const Variable w = g.Var("w", Filled(1, {3}, F64), {UNSHARDED});
      const Value loss = ReduceSum(Square(freezes[f](frozen) * w), {0});
      optimizer.Minimize(loss);
      Session session = Session::Create(g).value();
      for (int step = 0; step < 3; ++step) ASSERT_TRUE(session.Run({}).ok());
      EXPECT_THAT(ValuesOf(session, "frozen"), ElementsAre(2, 2, 2));
      EXPECT_NE(ValuesOf(session, "w")[0], 1);
      for (const std::string& variable : session.variable_names())
        EXPECT_THAT(variable, ::testing::Not(::testing::EndsWith("/frozen")));
    }
  }
}

TEST(OptimizersTest, AddNothingWhereTheOptionsAreRefused) {
  Graph g = OnTwo();
  Value loss = Parabola(g);
  const size_t nodes = g.nodes().size();
  Adam({.beta1 = 1}).Minimize(loss);
  EXPECT_FALSE(g.status().ok());
  EXPECT_EQ(g.nodes().size(), nodes);
}

TEST(OptimizersTest, TakeAFormulaOfYourOwn) {
  Graph g = OnTwo();
  UpdateRule sign{.name = "Last", .slots = {{"g", 5}}, .formula = [](const UpdateRule::Operands& x) {
                    return std::vector<Value>{x.weight - x.state[0], x.gradient};
                  }};
  Optimizer(sign).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(-3, -3, -3));
  EXPECT_THAT(ValuesOf(session, "last/g/w"), ElementsAre(2, 4, 6));
}

// ---- Chosen variables, groups and rates.

// loss = sum(a²) + sum(b²), f64[2] each: gradients 2 a and 2 b.
struct TwoWeights {
  explicit TwoWeights(Graph& g)
      : a(g.Var("layer/a", Filled(1, {2}, F64), {UNSHARDED})),
        b(g.Var("layer/b", Filled(2, {2}, F64), {UNSHARDED})),
        loss(ReduceSum(Square(a), {0}) + ReduceSum(Square(b), {0})) {}

  Variable a, b;
  Value loss;
};

// The variable's value after one step. All its elements are equal.
double AfterAStep(Graph& g, const std::string& name, const Feeds& feeds = {}) {
  absl::StatusOr<Session> session = Session::Create(g);
  if (!session.ok() || !session->Run(feeds).ok()) return NAN;
  return ValuesOf(*session, name)[0];
}

TEST(OptimizersTest, UpdateTheVariablesThatAreNamedAndNoOther) {
  for (const bool by_container : {false, true}) {
    Graph g = OnTwo();
    const TwoWeights w(g);
    if (by_container) Sgd({.learning_rate = 0.25}).Minimize(w.loss, std::vector<Variable>{w.b});
    else Sgd({.learning_rate = 0.25}).Minimize(w.loss, {w.b});
    EXPECT_EQ(AfterAStep(g, "layer/a"), 1);
    EXPECT_EQ(AfterAStep(g, "layer/b"), 1);
  }
}

// The case of a GAN: each of two players has its own loss and its own Adam.
TEST(OptimizersTest, TwoOfOneKindCanBeInOneGraph) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Adam({}).Minimize(w.loss, {w.a});
  Adam({}).Minimize(w.loss * -1.0, {w.b});
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(),
              ElementsAre("layer/a", "layer/b", "adam/step", "adam/m/layer/a", "adam/v/layer/a",
                          "adam_1/step", "adam_1/m/layer/b", "adam_1/v/layer/b"));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_NEAR(ValuesOf(session, "layer/a")[0], 1 - 1e-3, 1e-9);
  EXPECT_NEAR(ValuesOf(session, "layer/b")[0], 2 + 1e-3, 1e-9);
}

TEST(OptimizersTest, CallTheirStateAsTheUserDoes) {
  Graph g = OnTwo();
  Momentum({.name = "players/first"}).Minimize(Parabola(g));
  EXPECT_THAT(Session::Create(g)->variable_names(), ElementsAre("w", "players/first/m/w"));
}

TEST(OptimizersTest, LeaveWhatIsNotTrainable) {
  Graph g = OnTwo();
  const Variable frozen = g.Var("frozen", Filled(3, {2}, F64), {UNSHARDED}, {.trainable = false});
  const Variable w = g.Var("w", Filled(1, {2}, F64), {UNSHARDED});
  Sgd({.learning_rate = 0.25}).Minimize(ReduceSum(frozen * Square(w), {0}), {frozen, w});
  EXPECT_EQ(AfterAStep(g, "frozen"), 3);
  EXPECT_EQ(AfterAStep(g, "w"), 1 - 0.25 * 3 * 2);
}

TEST(OptimizersTest, TreatGroupsOtherwise) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Sgd({.learning_rate = 0.5,
       .weight_decay = 0.5,
       .groups = {{.pattern = "*/a", .learning_rate = 0.25, .weight_decay = 0}}})
      .Minimize(w.loss);
  EXPECT_EQ(AfterAStep(g, "layer/a"), 1 - 0.25 * 2);
  EXPECT_EQ(AfterAStep(g, "layer/b"), 2 - 0.5 * (4 + 0.5 * 2));
}

TEST(OptimizersTest, TheLastGroupThatFitsCounts) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Momentum({.learning_rate = 0.5,
            .groups = {{.pattern = "layer/*", .learning_rate = 0.25}, {.pattern = "*/b", .frozen = true}}})
      .Minimize(w.loss);
  EXPECT_EQ(AfterAStep(g, "layer/a"), 1 - 0.25 * 2);
  EXPECT_EQ(AfterAStep(g, "layer/b"), 2);
  EXPECT_THAT(Session::Create(g)->variable_names(), ElementsAre("layer/a", "layer/b", "momentum/m/layer/a"));
}

// One optimizer may update the weights that another one freezes, as in a game of two players.
TEST(OptimizersTest, FrozenWeightsMayBelongToAnotherOptimizer) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Sgd({.learning_rate = 0.25, .groups = {{.pattern = "*/b", .frozen = true}}}).Minimize(w.loss);
  Sgd({.learning_rate = 0.5, .groups = {{.pattern = "*/a", .frozen = true}}}).Minimize(w.loss);
  EXPECT_EQ(AfterAStep(g, "layer/a"), 1 - 0.25 * 2);
  EXPECT_EQ(AfterAStep(g, "layer/b"), 2 - 0.5 * 4);
}

// Gradients [2,2] and [4,4]: norms of sqrt(8) and sqrt(32).
TEST(OptimizersTest, ClipAGroupByItsOwnNorm) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Sgd({.learning_rate = 1, .clip_norm = 1, .groups = {{.pattern = "*/b", .clip_norm = 0.5}}})
      .Minimize(w.loss);
  EXPECT_NEAR(AfterAStep(g, "layer/a"), 1 - 2 / std::sqrt(8), 1e-14);
  EXPECT_NEAR(AfterAStep(g, "layer/b"), 2 - 0.5 * 4 / std::sqrt(32), 1e-14);
}

TEST(OptimizersTest, ApplyGradientsThatTheUserHasChanged) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  std::vector<VariableGradient> gradients = VariableGradients(w.loss);
  ASSERT_EQ(gradients.size(), 2u);
  for (VariableGradient& gradient : gradients) gradient.gradient = gradient.gradient * 0.5;
  Sgd({.learning_rate = 0.5}).ApplyGradients(gradients);
  EXPECT_EQ(AfterAStep(g, "layer/a"), 1 - 0.5 * 1);
  EXPECT_EQ(AfterAStep(g, "layer/b"), 2 - 0.5 * 2);
}

TEST(OptimizersTest, GiveTheNormTheRateAndTheStep) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  const Minimized minimized =
      Adam({.learning_rate = PolynomialDecay({.initial = 1, .steps = 4}), .clip_norm = 1}).Minimize(w.loss);
  g.Output("norm", minimized.gradient_norm());
  g.Output("rate", minimized.learning_rate());
  g.Output("step", minimized.step());
  Session session = Session::Create(g).value();
  const StepResult first = session.Run({}).value(), second = session.Run({}).value();
  EXPECT_NEAR(first.scalar("norm").value(), std::sqrt(8 + 32), 1e-14);
  EXPECT_EQ(first.scalar("rate").value(), 1);
  EXPECT_EQ(second.scalar("rate").value(), 0.75);
  EXPECT_EQ(first.scalar("step").value(), 1);
  EXPECT_EQ(second.scalar("step").value(), 2);
}

TEST(OptimizersTest, GiveARateThatIsANumber) {
  Graph g = OnTwo();
  g.Output("rate", Sgd({.learning_rate = 0.125}).Minimize(Parabola(g)).learning_rate());
  EXPECT_EQ(Session::Create(g)->Run({})->scalar("rate").value(), 0.125);
}

TEST(OptimizersTest, TakeARateThatIsFed) {
  for (const DType dtype : {F32, F64}) {
    Graph g = OnTwo();
    const TwoWeights w(g);
    AdamW({.learning_rate = g.Input("rate", dtype, {}, {}), .epsilon = 0, .weight_decay = 0.5})
        .Minimize(w.loss);
    Tensor rate({dtype, {}});
    if (dtype == F32) rate.mutable_values<float>()[0] = 0.25;
    else rate.mutable_values<double>()[0] = 0.25;
    EXPECT_NEAR(AfterAStep(g, "layer/a", {{"rate", rate}}), 1 - 0.25 * (1 + 0.5), 1e-12);
  }
}

// The argument of a schedule is the optimizer's step variable, so that a rate resumes from a checkpoint.
TEST(OptimizersTest, CountStepsForASchedule) {
  Graph g = OnTwo();
  Sgd({.learning_rate = RateSchedule([](const Value& step) { return 0.125 * (step + 1.0); })})
      .Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("w", "sgd/step"));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.75, 1.5, 1.25));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1.3125, 0.75, 0.3125));
}

// ---- Averages.

TEST(AverageWeightsTest, FollowTheWeights) {
  for (const bool warm_up : {false, true}) {
    Graph g = OnTwo();
    const TwoWeights w(g);
    Sgd({.learning_rate = 0.125}).Minimize(w.loss);
    AverageWeights(g, {.decay = 0.25, .warm_up = warm_up});
    Session session = Session::Create(g).value();
    EXPECT_THAT(session.variable_names(),
                ElementsAre("layer/a", "layer/b", "ema/step", "ema/layer/a", "ema/layer/b"));
    double a = 1, average = 0;
    for (int t = 1; t <= 6; ++t) {
      ASSERT_TRUE(session.Run({}).ok());
      a *= 0.75;
      const double decay = t == 1 ? 0 : warm_up ? std::min(0.25, (1.0 + t) / (10.0 + t)) : 0.25;
      average = decay * average + (1 - decay) * a;
      EXPECT_NEAR(ValuesOf(session, "layer/a")[1], a, 1e-15);
      EXPECT_NEAR(ValuesOf(session, "ema/layer/a")[1], average, 1e-15);
    }
  }
}

// The average of a bf16 weight is kept in f32. In bf16 it would lose everything that a step adds.
TEST(AverageWeightsTest, OfBf16AreKeptInF32) {
  Graph g = OnTwo();
  const Variable w = g.Var("w", Filled(1, {2}, BF16));
  Sgd({.learning_rate = 0.01}).Minimize(-ReduceSum(Cast(w, F32)));
  AverageWeights(g, {.decay = 0.999});
  Session session = Session::Create(g).value();
  double average = 0;
  for (int t = 1; t <= 400; ++t) {
    ASSERT_TRUE(session.Run({}).ok());
    const double decay = t == 1 ? 0 : 0.999;
    average = decay * average + (1 - decay) * NumbersOf(session.Get("w").value())[0];
  }
  EXPECT_GT(average, 1.3);
  EXPECT_EQ(session.Get("ema/wide/w")->type(), (Type{F32, {2}}));
  EXPECT_NEAR(NumbersOf(session.Get("ema/wide/w").value())[1], average, 1e-4);
  EXPECT_NEAR(NumbersOf(session.Get("ema/w").value())[1], average, 1.0 / 128);
  // Without a cast, the average can be set as the weight.
  EXPECT_TRUE(session.Set("w", session.Get("ema/w").value()).ok());
}

// The variables of optimizers and metrics are updated, too, but are no weights.
TEST(AverageWeightsTest, LeaveOutState) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Momentum({}).Minimize(w.loss);
  MeanMetric(g, "loss").Update(w.loss);
  EXPECT_EQ(AverageWeights(g).size(), 2u);
}

TEST(AverageWeightsTest, CanBeOfSomeWeights) {
  Graph g = OnTwo();
  const TwoWeights w(g);
  Adam({}).Minimize(w.loss);
  EXPECT_EQ(AverageWeights({w.b}, {.name = "slow"}).size(), 1u);
  EXPECT_EQ(Session::Create(g)->variable_names().back(), "slow/layer/b");
}

}  // namespace
}  // namespace meshwork::optimizers_test
