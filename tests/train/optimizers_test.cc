#include "train/optimizers.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "train/initializers.h"
#include "train/session.h"

namespace meshwork {
namespace {

using ::testing::ElementsAre;

Graph OnTwo() { return Graph(Mesh::VirtualCpus("model=2").value()); }

std::vector<double> Values(const Session& session, const std::string& name) {
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
  EXPECT_THAT(Values(session, "w"), ElementsAre(1.75, 1.5, 1.25));
  ASSERT_TRUE(session.Run({}).ok());
  EXPECT_THAT(Values(session, "w"), ElementsAre(1.53125, 1.125, 0.78125));
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
      EXPECT_NEAR(Values(session, "w")[i], w[i], 1e-14);
      EXPECT_NEAR(Values(session, "adam/m/w")[i], m[i], 1e-14);
      EXPECT_NEAR(Values(session, "adam/v/w")[i], v[i], 1e-13);
    }
  }
}

TEST(AdamTest, LaysItsStateOutLikeTheWeight) {
  Graph g = OnTwo();
  Adam({}).Minimize(Parabola(g));
  Session session = Session::Create(g).value();
  const Graph& local = session.program().body;
  for (const char* name : {"w", "adam/m/w", "adam/v/w"})
    EXPECT_EQ(local.value(local.arguments()[local.FindArgument(name)].value).layout->ToString(), "{model}")
        << name;
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
  EXPECT_THAT(Values(session, "w"), ElementsAre(1.75, 1.5, 1.25));
  EXPECT_THAT(Values(session, "offset"), ElementsAre(0.875));
  EXPECT_THAT(Values(session, "unused"), ElementsAre(7, 7, 7));
  EXPECT_EQ(session.Get("count")->Scalar().value(), 2);
}

// The message of a graph in which `mistake` was made.
template <typename F>
std::string Mistake(F mistake) {
  Graph g = OnTwo();
  mistake(g);
  return std::string(MessageOf(g.status()));
}

TEST(OptimizersTest, RefuseALossWithoutVariables) {
  auto without = [](Graph& g) { return ReduceSum(g.Input("x", F32, {3}, {UNSHARDED}), {0}); };
  const int line = __LINE__ + 1;
  const std::string sgd = Mistake([&](Graph& g) { Sgd({}).Minimize(without(g)); });
  const std::string adam = Mistake([&](Graph& g) { Adam({}).Minimize(without(g)); });
  const std::string rule = "the loss depends on no float variable; there is nothing to minimize.";
  EXPECT_EQ(sgd, fmt::format("Sgd (optimizers_test.cc:{}): {}", line, rule));
  EXPECT_EQ(adam, fmt::format("Adam (optimizers_test.cc:{}): {}", line + 1, rule));
}

TEST(OptimizersTest, RefuseALossThatIsNoFloatScalar) {
  const int line = __LINE__ + 2;
  const std::string mistake =
      Mistake([](Graph& g) { Sgd({}).Minimize(g.Var("w", Zeros({3}), {UNSHARDED})); });
  EXPECT_EQ(mistake,
            fmt::format(
                "Gradients (optimizers_test.cc:{}): the loss is f32[3]; it must be a scalar f32[] or f64[].",
                line));
}

TEST(OptimizersTest, RefuseASecondUpdateOfAVariable) {
  const int line = __LINE__ + 4;
  const std::string mistake = Mistake([](Graph& g) {
    Value loss = Parabola(g);
    Sgd({}).Minimize(loss);
    Sgd({}).Minimize(loss);
  });
  EXPECT_EQ(
      mistake,
      fmt::format("Update of \"w\" (optimizers_test.cc:{}): it is already updated; a step writes a variable "
                  "once.",
                  line));
}

TEST(OptimizersTest, PassOverALossThatIsAMistakeItself) {
  const int line = __LINE__ + 1;
  const std::string mistake = Mistake([](Graph& g) { Adam({}).Minimize(g.Input("x y", F32, {}, {})); });
  EXPECT_EQ(mistake,
            fmt::format("Input \"x y\" (optimizers_test.cc:{}): a name is a letter followed by letters, "
                        "digits and any of _ . / -",
                        line));
}

}  // namespace
}  // namespace meshwork
