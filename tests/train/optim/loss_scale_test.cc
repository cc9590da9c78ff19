#include "meshwork/train/optim/loss_scale.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"

namespace meshwork::loss_scale_test {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// w: f32[3], loss = sum(w x), so that the gradient is x, which is fed.
Session Fed(const Optimizer& optimizer, const std::string& mesh = "model=3") {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec axis = g.mesh().FindAxes("model").ok() ? DimSpec("model") : DimSpec(UNSHARDED);
  const Variable w = g.Var("w", Filled(1, {3}), {axis});
  const Minimized step = optimizer.Minimize(ReduceSum(w * g.Input("x", F32, {3}, {axis}), {0}));
  g.Output("norm", step.gradient_norm());
  if (step.skipped().valid()) {
    g.Output("scale", step.loss_scale());
    g.Output("skipped", step.skipped());
  }
  return Session::Create(g).value();
}

StepResult StepOn(Session& session, const std::vector<float>& x) {
  return session.Run({{"x", Tensor::From<float>({3}, x)}}).value();
}

std::vector<double> ValuesOf(const Session& session, const std::string& name) {
  const Tensor x = session.Get(name)->Cast(F64);
  return {x.values<double>().begin(), x.values<double>().end()};
}

// The rule of torch.amp.GradScaler: growth after `growth_steps` good steps in a row, backoff after a bad one.
TEST(LossScaleTest, GrowsAfterGoodStepsAndBacksOffAfterABadOne) {
  const std::string good = "gggbgggggbbg";  // the last steps before and after which the scale changes
  for (const char* mesh : {"model=3", "model=2", "batch=2"}) {
    SCOPED_TRACE(mesh);
    Session session = Fed(
        Adam({.learning_rate = 0.125, .loss_scale = LossScale{.initial = 1024, .growth_steps = 2}}), mesh);
    double scale = 1024;
    int64_t in_a_row = 0, steps = 0;
    for (size_t t = 0; t < good.size(); ++t) {
      SCOPED_TRACE(t);
      const std::vector<double> before = ValuesOf(session, "w"), m = ValuesOf(session, "adam/m/w");
      const bool bad = good[t] == 'b';
      const StepResult result = StepOn(session, {1, bad ? (t % 2 == 0 ? kInf : kNan) : 2, 3});
      EXPECT_EQ(result.scalar("scale").value(), scale);  // the scale of this step
      EXPECT_EQ(result.scalar("skipped").value(), bad);
      if (bad) {
        EXPECT_EQ(ValuesOf(session, "w"), before);
        EXPECT_EQ(ValuesOf(session, "adam/m/w"), m);
        scale /= 2;
        in_a_row = 0;
      } else {
        EXPECT_NEAR(result.scalar("norm").value(), std::sqrt(14.0), 1e-6);
        EXPECT_NE(ValuesOf(session, "w"), before);
        ++steps;
        if (++in_a_row == 2) scale *= 2, in_a_row = 0;
      }
      EXPECT_EQ(session.Get("adam/step")->Scalar().value(), steps);
      EXPECT_EQ(session.Get("adam/loss_scale")->Scalar().value(), scale);
      EXPECT_EQ(session.Get("adam/good_steps")->Scalar().value(), in_a_row);
    }
  }
}

// A power of two changes no digit.
TEST(LossScaleTest, DoesNotChangeTheSteps) {
  const auto run = [](const std::optional<LossScale>& loss_scale) {
    Session session = Fed(Momentum({.learning_rate = CosineDecay({.initial = 0.3, .steps = 7}),
                                    .clip_norm = 2,
                                    .loss_scale = loss_scale}));
    for (int t = 0; t < 5; ++t) StepOn(session, {0.1f, static_cast<float>(t) / 3, 3});
    return ValuesOf(session, "w");
  };
  const std::vector<double> without = run({});
  EXPECT_EQ(run(LossScale()), without);
  EXPECT_EQ(run(LossScale::Static(0x1p20)), without);
}

TEST(LossScaleTest, AStaticScaleStays) {
  Session session = Fed(Sgd({.learning_rate = 0.5, .loss_scale = LossScale::Static(8)}));
  EXPECT_THAT(session.variable_names(), ElementsAre("w"));
  EXPECT_EQ(StepOn(session, {kInf, 0, 0}).scalar("skipped").value(), 1);
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(1, 1, 1));
  const StepResult result = StepOn(session, {1, 0, 2});
  EXPECT_EQ(result.scalar("scale").value(), 8);
  EXPECT_THAT(ValuesOf(session, "w"), ElementsAre(0.5, 1, 0));
}

TEST(LossScaleTest, DoesNotGrowBeyondF32) {
  Session session = Fed(Sgd({.loss_scale = LossScale{.initial = 0x1p126, .growth_steps = 1}}));
  for (const double scale : {0x1p126, 0x1p127, 0x1p127})
    EXPECT_EQ(StepOn(session, {0, 0, 0}).scalar("scale").value(), scale);
}

// 2^-140 is below the smallest number of bf16, through which the gradient passes.
TEST(LossScaleTest, KeepsSmallGradients) {
  const auto weights = [](const std::optional<LossScale>& loss_scale) {
    Graph g(Mesh::VirtualCpus("model=3").value());
    const Variable w = g.Var("w", Zeros({3}), {"model"});
    const Value x = g.Input("x", F32, {3}, {"model"});
    const Value y = Cast(w * 0x1p100, BF16) * Cast(x, BF16);
    Sgd({.learning_rate = 0x1p40, .loss_scale = loss_scale})
        .Minimize(ReduceSum(Cast(y, F32) * 0x1p-140, {0}));
    Session session = Session::Create(g).value();
    EXPECT_TRUE(session.Run({{"x", Tensor::From<float>({3}, {1, 1.5, 2})}}).ok());
    return ValuesOf(session, "w");
  };
  EXPECT_THAT(weights({}), ElementsAre(0, 0, 0));
  EXPECT_THAT(weights(LossScale::Static(0x1p60)), ElementsAre(-1, -1.5, -2));
}

}  // namespace
}  // namespace meshwork::loss_scale_test
