#include "benchmarks/gpu_step/convolutions.h"

#include <string>

#include "benchmarks/gpu_step/training.h"
#include "examples/support/cnn.h"

namespace meshwork {
namespace {

constexpr int64_t kImageClasses = 1000, kPixelClasses = 2;

// Pads both ends equally, as PyTorch does; "same" pads the odd pixel at the end.
WindowOptions SquareWindow(int64_t stride, int64_t padding) {
  return {.strides = {stride, stride},
          .padding = WindowPadding::Explicit({padding, padding}, {padding, padding})};
}

class ResNet {
 public:
  explicit ResNet(Graph& graph) : graph_(graph) {}

  // images: [b,h,w,3] -> logits: [b,1000].
  Value operator()(const Value& images) const {
    Value x = Relu(Convolution("first", images, 64, 7, 2));
    x = MaxPool(x, {3, 3}, SquareWindow(2, 1));
    const int64_t blocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; ++stage)
      for (int64_t block = 0; block < blocks[stage]; ++block) {
        const NameScope scope(graph_, fmt::format("stage{}/block{}", stage, block));
        x = Bottleneck(x, int64_t{64} << stage, /*stride=*/stage > 0 && block == 0 ? 2 : 1,
                       /*projects=*/block == 0);
      }
    return Dense(graph_, "logits", kImageClasses)(GlobalAvgPool(x));
  }

 private:
  // A convolution and its batch norm.
  Value Convolution(const std::string& name, const Value& x, int64_t filters, int64_t size,
                    int64_t stride) const {
    const NameScope scope(graph_, name);
    const Conv2D conv(
        graph_, "conv", filters, {size, size},
        {.window = SquareWindow(stride, size / 2), .kernel_initializer = HeNormal(), .bias = false});
    return BatchNormalization(graph_, "norm", {.momentum = 0.9, .unbiased = true})(conv(x));
  }

  Value Bottleneck(const Value& x, int64_t filters, int64_t stride, bool projects) const {
    Value y = Relu(Convolution("a", x, filters, 1, 1));
    y = Relu(Convolution("b", y, filters, 3, stride));
    y = Convolution("c", y, 4 * filters, 1, 1);
    return Relu(y + (projects ? Convolution("shortcut", x, 4 * filters, 1, stride) : x));
  }

  Graph& graph_;
};

class UNet {
 public:
  explicit UNet(Graph& graph) : graph_(graph) {}

  // images: [b,h,w,3] -> logits: [b,h,w,2].
  Value operator()(const Value& images, int64_t channels) const {
    constexpr int kLevels = 4;
    std::vector<Value> skipped;
    Value x = images;
    for (int level = 0; level < kLevels; ++level) {
      skipped.push_back(TwoConvolutions(fmt::format("down{}", level), x, channels << level));
      x = MaxPool(skipped.back(), {2, 2}, SquareWindow(2, 0));
    }
    x = TwoConvolutions("bottom", x, channels << kLevels);
    for (int level = kLevels - 1; level >= 0; --level) {
      const Conv2DTranspose up(graph_, fmt::format("up{}/transposed", level), channels << level, {2, 2},
                               {.window = SquareWindow(2, 0), .kernel_initializer = HeNormal()});
      x = TwoConvolutions(fmt::format("up{}", level), Concat({skipped[level], up(x)}, -1), channels << level);
    }
    return Conv2D(graph_, "logits", kPixelClasses, {1, 1})(x);
  }

 private:
  Value TwoConvolutions(const std::string& name, const Value& x, int64_t filters) const {
    const NameScope scope(graph_, name);
    const ConvLayerOptions options{.window = SquareWindow(1, 1), .kernel_initializer = HeNormal()};
    const Value y = Relu(Conv2D(graph_, "conv1", filters, {3, 3}, options)(x));
    return Relu(Conv2D(graph_, "conv2", filters, {3, 3}, options)(y));
  }

  Graph& graph_;
};

}  // namespace

std::vector<GpuWorkPlan> ResNetPlans(const GpuOptions& o) {
  const int64_t batch = o.convolution.resnet_batch, size = o.convolution.image;
  return TrainingPlans(
      o, {.name = fmt::format("resnet50/{}", batch),
          .about = {{"model", "resnet50"}, {"batch", batch}, {"image", size}, {"precision", o.compute}},
          .precision = o.compute,
          .build =
              [=, compute = ComputeOf(o)](Graph& graph) {
                graph.SetPrecision({.compute = compute});
                const Value images = graph.Input("images", F32, {batch, size, size, 3});
                const Value labels = graph.Input("labels", I32, {batch});
                const Value loss = SparseSoftmaxCrossEntropy(ResNet(graph)(images), labels);
                Momentum({.learning_rate = 0.01, .momentum = 0.9}).Minimize(loss);
                graph.Output("loss", loss);
              },
          .make_feeds =
              [=](Random& random) {
                return Feeds{{"images", RandomReals(random, {batch, size, size, 3})},
                             {"labels", RandomNumbers(random, {batch}, kImageClasses)}};
              }});
}

std::vector<GpuWorkPlan> CnnPlans(const GpuOptions& o) {
  const int64_t batch = o.convolution.cnn_batch;
  return TrainingPlans(
      o, {.name = fmt::format("cnn/{}", batch),
          .about = {{"model", "cnn"}, {"batch", batch}, {"precision", o.precision}},
          .precision = o.precision,
          .build = [=](Graph& graph) { BuildCnn(graph, batch, {}, Adam({.learning_rate = 1e-3})); },
          .make_feeds =
              [=](Random& random) {
                return Feeds{{"images", RandomReals(random, {batch, 28, 28, 1})},
                             {"labels", RandomNumbers(random, {batch}, 10)}};
              }});
}

std::vector<GpuWorkPlan> UNetPlans(const GpuOptions& o) {
  const int64_t batch = o.convolution.unet_batch, size = o.convolution.unet_image;
  const int64_t channels = o.convolution.unet_channels;
  return TrainingPlans(
      o, {.name = fmt::format("unet/{}", batch),
          .about = {{"model", "unet"},
                    {"batch", batch},
                    {"image", size},
                    {"channels", channels},
                    {"precision", o.compute}},
          .precision = o.compute,
          .build =
              [=, compute = ComputeOf(o)](Graph& graph) {
                graph.SetPrecision({.compute = compute});
                const Value images = graph.Input("images", F32, {batch, size, size, 3});
                const Value classes = graph.Input("classes", I32, {batch, size, size});
                const Value loss = SparseSoftmaxCrossEntropy(UNet(graph)(images, channels), classes);
                Adam({.learning_rate = 1e-4}).Minimize(loss);
                graph.Output("loss", loss);
              },
          .make_feeds =
              [=](Random& random) {
                return Feeds{{"images", RandomReals(random, {batch, size, size, 3})},
                             {"classes", RandomNumbers(random, {batch, size, size}, kPixelClasses)}};
              }});
}

}  // namespace meshwork
