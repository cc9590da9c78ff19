// Layers of convolution networks against PyTorch: tests/fixtures/layers_test.cc. Here: how they start, and a training.
#include "meshwork/train/nn/conv_layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork::conv_layers_test {
namespace {

using ::testing::ElementsAre;

// Images [6,8,8,2] through layers of all kinds to three classes; rows of images over "model", or filters.
Graph Network(const std::string& mesh, bool spatial) {
  Graph g(Mesh::VirtualCpus(mesh).value());
  const DimSpec batch = AxisOrWhole(g.mesh(), "batch"), model = AxisOrWhole(g.mesh(), "model");
  const DimSpec filters = spatial ? DimSpec(UNSHARDED) : model;
  const WindowOptions same{.padding = WindowPadding::Same()};
  const LayoutSpec kernel = {UNSHARDED, UNSHARDED, UNSHARDED, filters};
  const Value x =
      g.Input("x", F64, {6, 8, 8, 2}, {batch, spatial ? model : DimSpec(UNSHARDED), UNSHARDED, UNSHARDED});
  const Value y = g.Input("y", I32, {6}, {batch});
  const Conv2D conv(g, "conv", 2, 4, {3, 3},
                    {.window = same, .kernel_layout = kernel, .dtype = F64, .bias = false});
  const BatchNormalization norm(g, "norm", 4, {.layout = {filters}, .dtype = F64});
  const DepthwiseConv2D depthwise(g, "depthwise", 4, {3, 3},
                                  {.window = {.strides = {2, 2}, .padding = WindowPadding::Same()},
                                   .multiplier = 2,
                                   .kernel_layout = kernel,
                                   .bias_layout = {filters},
                                   .dtype = F64});
  const Conv2DTranspose up(g, "up", 8, 2, {2, 2},
                           {.window = {.strides = {2, 2}},
                            .kernel_layout = {UNSHARDED, UNSHARDED, UNSHARDED, filters},
                            .dtype = F64});
  const GroupNormalization groups(g, "groups", 2, 2, {.dtype = F64});
  const Dense dense(g, "dense", 2, 3, {.dtype = F64});
  const Value h = groups(up(depthwise(Relu(norm(conv(x))))));
  const Value logits = dense(Add(GlobalAvgPool(Square(h)), GlobalMaxPool(h)));
  const Value loss = SparseSoftmaxCrossEntropy(logits, y);
  Momentum({.learning_rate = 0.1}).Minimize(loss);
  g.Output("loss", loss);
  return g;
}

Feeds Images(int64_t rows) {
  return {{"x", Rough(Type{F64, {6, 8, 8, 2}}).Rows(0, rows)},
          {"y", Tensor::From<int32_t>({6}, {0, 1, 2, 2, 1, 0}).Rows(0, rows)}};
}

TEST(ConvLayersTest, TrainTheSameOnEveryMeshWithShortBatches) {
  std::vector<double> losses;
  Tensors state;
  for (bool spatial : {false, true}) {
    for (const char* mesh : {"", "batch=1", "batch=2", "model=2", "batch=3,model=2", "batch=4,model=2"}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, spatial ? "rows of images" : "filters"));
      Session session =
          Session::Create(Network(mesh, spatial), {.executor = {.poison_padding = true}}).value();
      std::vector<double> got;
      for (int64_t rows : {6, 4, 6, 1, 5}) got.push_back(session.Run(Images(rows))->scalar("loss").value());
      got.push_back(session.Evaluate(Images(3))->scalar("loss").value());
      if (losses.empty()) {
        losses = got;
        state = StateOf(session);
        continue;
      }
      EXPECT_THAT(got, testing::Pointwise(testing::DoubleNear(1e-9), losses));
      for (const auto& [name, tensor] : StateOf(session)) ExpectNear(tensor, state.at(name), 1e-9);
    }
  }
}

double LargestOf(const Session& session, const std::string& name) {
  const Tensor tensor = session.Get(name).value();
  double largest = 0;
  for (float x : tensor.values<float>()) largest = std::max<double>(largest, std::abs(x));
  return largest;
}

TEST(ConvLayersTest, KernelsStartAsGlorotSaysOfTheWholeFilter) {
  Graph g(Mesh::VirtualCpus("model=2").value());
  const Conv1D conv1(g, "conv1", 20, 30, {5});
  const Conv2D conv2(g, "conv2", 20, 30, {3, 3});
  const Conv2D grouped(g, "grouped", 40, 80, {3, 3}, {.groups = 4, .bias = false});
  const Conv3D conv3(g, "conv3", 20, 30, {2, 3, 2});
  const Conv2DTranspose up(g, "up", 20, 30, {3, 3});
  const DepthwiseConv2D depthwise(g, "depthwise", 100, {3, 3}, {.multiplier = 2});
  EXPECT_EQ(conv1.kernel().shape(), (Shape{5, 20, 30}));
  EXPECT_EQ(grouped.kernel().shape(), (Shape{3, 3, 10, 80}));
  EXPECT_EQ(up.kernel().shape(), (Shape{3, 3, 30, 20}));
  EXPECT_EQ(up.bias().shape(), (Shape{30}));
  EXPECT_EQ(depthwise.kernel().shape(), (Shape{3, 3, 1, 200}));
  EXPECT_FALSE(grouped.bias().valid());
  Session session = Session::Create(g).value();
  EXPECT_THAT(session.variable_names(),
              ElementsAre("conv1/kernel", "conv1/bias", "conv2/kernel", "conv2/bias", "grouped/kernel",
                          "conv3/kernel", "conv3/bias", "up/kernel", "up/bias", "depthwise/kernel",
                          "depthwise/bias"));
  // sqrt(6 / (positions · (inputs of an output + outputs of an input))).
  const std::vector<std::pair<std::string, double>> limits = {
      {"conv1", 5 * (20 + 30)},  {"conv2", 9 * (20 + 30)}, {"grouped", 9 * (10 + 20)},
      {"conv3", 12 * (20 + 30)}, {"up", 9 * (20 + 30)},    {"depthwise", 9 * (1 + 2)}};
  for (const auto& [name, fans] : limits) {
    SCOPED_TRACE(name);
    const double limit = std::sqrt(6 / fans), largest = LargestOf(session, name + "/kernel");
    EXPECT_LE(largest, limit);
    EXPECT_GT(largest, 0.98 * limit);
  }
}

TEST(ConvLayersTest, ReportMistakesWhereTheyAreCalled) {
  Graph g(Mesh::VirtualCpus("model=2").value());
  const Conv2D conv(g, "conv", 3, 4, {3, 3});
  const int line = __LINE__ + 1;
  const Value y = conv(g.Input("x", F32, {2, 6, 6, 2}, LayoutSpec(4, UNSHARDED)));
  EXPECT_FALSE(y.valid());
  EXPECT_THAT(MessageOf(g.status()),
              testing::StartsWith(fmt::format("conv (conv_layers_test.cc:{} in conv): ", line)));
}

}  // namespace
}  // namespace meshwork::conv_layers_test
