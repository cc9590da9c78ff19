#include "meshwork/train/layers.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/optimizers.h"
#include "meshwork/train/session.h"

namespace meshwork {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Graph OnFour() { return Graph(Mesh::VirtualCpus("batch=2,model=2").value()); }

TEST(DenseTest, IsXTimesKernelPlusBias) {
  Graph g = OnFour();
  Value x = g.Input("x", F32, {3, 2}, {"batch", UNSHARDED});
  Dense dense(g, "dense", 2, 3, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  g.Output("y", dense(x));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Set("dense/kernel", Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6})).ok());
  ASSERT_TRUE(session.Set("dense/bias", Tensor::From<float>({3}, {100, 200, 300})).ok());
  const Tensor y = session.Run({{"x", Tensor::From<float>({3, 2}, {1, 0, 0, 1, 1, 1})}})->Get("y").value();
  EXPECT_EQ(y.shape(), (Shape{3, 3}));
  EXPECT_THAT(y.values<float>(), ElementsAre(101, 202, 303, 104, 205, 306, 105, 207, 309));
}

TEST(DenseTest, AddsItsBiasOnceWhereTheContractionIsSharded) {
  Graph g = OnFour();
  Value x = g.Input("x", F64, {1, 4}, {UNSHARDED, UNSHARDED});
  Dense dense(
      g, "dense", 4, 2,
      {.kernel_layout = {"model", UNSHARDED}, .dtype = F64, .kernel_initializer = Filled(1, {4, 2}, F64)});
  g.Output("y", dense(x));
  Session session = Session::Create(g).value();
  ASSERT_TRUE(session.Set("dense/bias", Tensor::From<double>({2}, {100, 200})).ok());
  const Tensor y = session.Run({{"x", Tensor::From<double>({1, 4}, {1, 2, 3, 4})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(110, 210));
}

// What three steps of Adam make of two layers and a norm.
std::vector<Tensor> Trained(const std::string& mesh, Gathering gather, std::string* explained) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = g.mesh().num_axes() == 0 ? DimSpec(UNSHARDED) : DimSpec("batch");
  Value x = g.Input("x", F64, {6, 5}, {batch, UNSHARDED});
  const DenseOptions options{
      .kernel_layout = {batch, UNSHARDED}, .bias_layout = {batch}, .dtype = F64, .gather = gather};
  Dense dense1(g, "dense1", 5, 7, options);
  LayerNormLayer norm(g, "norm", 7, {.layout = {batch}, .dtype = F64, .gather = gather});
  Dense dense2(g, "dense2", 7, 3, options);
  Adam({.learning_rate = 0.1}).Minimize(ReduceMean(Square(dense2(norm(Tanh(dense1(x))))), {0, 1}));
  Session session = Session::Create(g, {.executor = {.poison_padding = true}}).value();
  *explained = session.Explain();
  std::vector<double> numbers;
  for (int i = 0; i < 30; ++i) numbers.push_back(i % 7 - 3);
  for (int step = 0; step < 3; ++step)
    EXPECT_TRUE(session.Run({{"x", Tensor::From<double>({6, 5}, numbers)}}).ok());
  std::vector<Tensor> weights;
  for (const std::string& name : session.variable_names()) weights.push_back(session.Get(name).value());
  return weights;
}

TEST(DenseTest, LearnsTheSameWhereItsWeightsAreGatheredOnUse) {
  std::string kept, whole;
  const std::vector<Tensor> a = Trained("batch=4", Gathering::kOnUse, &kept),
                            b = Trained("", Gathering::kWithinBudget, &whole);
  EXPECT_NE(kept.find("uses %dense1/kernel, which is gathered on use"), std::string::npos) << kept;
  EXPECT_NE(kept.find("uses %norm/scale, which is gathered on use"), std::string::npos) << kept;
  EXPECT_NE(kept.find("reduce_scatter"), std::string::npos) << kept;
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() != F64) continue;  // the optimizer's count of steps
    EXPECT_THAT(a[i].values<double>(), testing::Pointwise(testing::DoubleNear(1e-9), b[i].values<double>()));
  }
}

TEST(DenseTest, StartsWithAGlorotKernelAndAZeroBias) {
  Graph g = OnFour();
  Dense dense(g, "a/b", 30, 20);
  EXPECT_EQ(dense.kernel().type(), (Type{F32, {30, 20}}));
  EXPECT_EQ(dense.bias().type(), (Type{F32, {20}}));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("a/b/kernel", "a/b/bias"));
  EXPECT_THAT(session.Get("a/b/bias")->values<float>(), Each(0));
  const Tensor kernel = session.Get("a/b/kernel").value();
  const auto [low, high] = std::ranges::minmax(kernel.values<float>());
  const float limit = std::sqrt(6.f / 50);
  EXPECT_THAT(kernel.values<float>(), Each(testing::AllOf(testing::Ge(-limit), testing::Le(limit))));
  EXPECT_LT(low, -0.95f * limit);
  EXPECT_GT(high, 0.95f * limit);
}

TEST(DenseTest, ReportsMistakesWhereItIsBuiltAndCalled) {
  Graph g = OnFour();
  const int line = __LINE__ + 1;
  Value x = g.Input("x", F32, {3, 2}, {"batch", UNSHARDED});
  Dense dense(g, "dense", 5, 3);
  Value y = dense(x);
  Dense twice(g, "dense", 5, 3);
  Dense mistyped(g, "mistyped", 2, 3, {.kernel_layout = {UNSHARDED, "modle"}});
  Dense other(g, "other", 2, 3, {.kernel_initializer = Zeros({3, 2})});
  Value z = other(x);
  EXPECT_FALSE(y.valid());
  EXPECT_FALSE(z.valid());
  EXPECT_EQ(
      MessageOf(g.status()),
      fmt::format(
          "matmul (layers_test.cc:{}): k differs: a is f32[3,2] (k=2), b is f32[5,3] (k=5).\n"
          "Var \"dense/kernel\" (layers_test.cc:{}): the name is already taken; names of inputs and "
          "variables must be unique.\n"
          "Var \"dense/bias\" (layers_test.cc:{}): the name is already taken; names of inputs and "
          "variables must be unique.\n"
          "Var \"mistyped/kernel\" (layers_test.cc:{}): Layout {{_,modle}}: mesh [batch=2, model=2] has "
          "no axis \"modle\"; did you mean \"model\"?\n"
          "matmul (layers_test.cc:{}): k differs: a is f32[3,2] (k=2), b is f32[3,2] (k=3).",
          line + 2, line + 3, line + 3, line + 4, line + 6));
}

TEST(LayerNormLayerTest, StandardizesRowsThenScalesAndShifts) {
  Graph g = OnFour();
  Value x = g.Input("x", F64, {2, 3}, {"batch", "model"});
  LayerNormLayer norm(g, "norm", 3, {.layout = {"model"}, .dtype = F64, .epsilon = 2});
  g.Output("y", norm(x));
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(), ElementsAre("norm/scale", "norm/offset"));
  EXPECT_THAT(session.Get("norm/scale")->values<double>(), Each(1));
  EXPECT_THAT(session.Get("norm/offset")->values<double>(), Each(0));
  ASSERT_TRUE(session.Set("norm/scale", Tensor::From<double>({3}, {1, 2, 4})).ok());
  ASSERT_TRUE(session.Set("norm/offset", Tensor::From<double>({3}, {10, 20, 30})).ok());
  // Rows 1, 4, 4 and -2, 1, 1: mean 3 or 0, variance 2; with epsilon, the root is 2.
  const Tensor y = session.Run({{"x", Tensor::From<double>({2, 3}, {1, 4, 4, -2, 1, 1})}})->Get("y").value();
  EXPECT_THAT(y.values<double>(), ElementsAre(9, 21, 32, 9, 21, 32));
}

TEST(LayerNormLayerTest, ReportsMistakesWhereItIsCalled) {
  Graph g = OnFour();
  LayerNormLayer norm(g, "norm", 3);
  Value y = norm(g.Input("x", F32, {2, 4}, {UNSHARDED, UNSHARDED}));
  const int line = __LINE__ - 1;
  EXPECT_FALSE(y.valid());
  EXPECT_EQ(
      MessageOf(g.status()),
      fmt::format("layer_norm (layers_test.cc:{}): x is f32[2,4], scale f32[3], offset f32[3]; x must be "
                  "floats, scale and offset as x's last dims.",
                  line));
}

}  // namespace
}  // namespace meshwork
