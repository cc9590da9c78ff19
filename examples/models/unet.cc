// Segments images by a U-Net of residual blocks: which pixels are of the animal, of its edge, of the ground. See
// --help.
#include "examples/models/print_losses.h"
#include "meshwork/base/random.h"

namespace mw = meshwork;
using mw::UNSHARDED, mw::Value;

constexpr int64_t kBatch = 12, kSize = 32, kClasses = 3, kTrain = 48, kTest = 24;

// Images of a disc of one colour on a ground of another, with noise, and the class of each pixel.
mw::Dataset DrawAnimals(int64_t n, uint64_t seed, mw::DType dtype) {
  mw::Random random(seed);
  std::vector<float> pixels;
  std::vector<int32_t> classes;
  for (int64_t i = 0; i < n; ++i) {
    const double x = random.Uniform(10, 22), y = random.Uniform(10, 22), radius = random.Uniform(4, 9);
    const double colors[] = {random.Uniform(0.6, 1), random.Uniform(0.4, 0.6), random.Uniform(0, 0.4)};
    for (int64_t p = 0; p < kSize * kSize; ++p) {
      const double r = std::hypot(p % kSize - x, p / kSize - y) / radius;
      classes.push_back(r < 0.8 ? 0 : r < 1.1 ? 1 : 2);
      for (int c = 0; c < 3; ++c)
        pixels.push_back(static_cast<float>(colors[(classes.back() + c) % 3] + random.Uniform(-0.1, 0.1)));
    }
  }
  return mw::Dataset::Create({{"image", mw::Tensor::From<float>({n, kSize, kSize, 3}, pixels).Cast(dtype)},
                              {"mask", mw::Tensor::From<int32_t>({n, kSize, kSize}, classes)}})
      .value();
}

const mw::WindowOptions kSame{.padding = mw::WindowPadding::Same()};
const mw::WindowOptions kHalf{.strides = {2, 2}, .padding = mw::WindowPadding::Same()};

// images: [b,h,w,3] -> logits: [b,h,w,classes].
Value UNet(mw::Graph& graph, const Value& images) {
  const auto norm = [&](const char* name) { return mw::BatchNormalization(graph, name, {.momentum = 0.9}); };
  Value x = mw::Conv2D(graph, "entry", 8, {3, 3}, {.window = kHalf})(images);
  x = mw::Relu(norm("entry_norm")(x));
  for (int64_t filters : {16, 32, 64}) {
    const mw::NameScope scope(graph, fmt::format("down{}", filters));
    Value y = mw::SeparableConv2D(graph, "conv1", filters, {3, 3}, {.window = kSame})(mw::Relu(x));
    y = mw::SeparableConv2D(graph, "conv2", filters, {3, 3}, {.window = kSame})(mw::Relu(norm("norm1")(y)));
    y = mw::MaxPool(norm("norm2")(y), {3, 3}, kHalf);
    x = y + mw::Conv2D(graph, "residual", filters, {1, 1}, {.window = kHalf})(x);
  }
  for (int64_t filters : {64, 32, 16, 8}) {
    const mw::NameScope scope(graph, fmt::format("up{}", filters));
    Value y = mw::Conv2DTranspose(graph, "conv1", filters, {3, 3}, {.window = kSame})(mw::Relu(x));
    y = mw::Conv2DTranspose(graph, "conv2", filters, {3, 3}, {.window = kSame})(mw::Relu(norm("norm1")(y)));
    y = mw::Upsample(norm("norm2")(y), {2, 2});
    x = y + mw::Conv2D(graph, "residual", filters, {1, 1}, {.window = kSame})(mw::Upsample(x, {2, 2}));
  }
  return mw::Conv2D(graph, "classes", kClasses, {3, 3}, {.window = kSame})(x);
}

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "unet", "Trains a U-Net to segment drawn images.", /*steps=*/60);
  mw::Graph graph = flags.NewGraph({{"image", {"batch", UNSHARDED, UNSHARDED, UNSHARDED}},
                                    {"mask", {"batch", UNSHARDED, UNSHARDED}},
                                    {"*/kernel", {UNSHARDED, UNSHARDED, UNSHARDED, "model"}},
                                    {"*/norm?/*", {"model"}}});
  const Value masks = graph.Input("mask", mw::I32, {kBatch, kSize, kSize});
  const Value logits = UNet(graph, graph.Input("image", flags.dtype, {kBatch, kSize, kSize, 3}));
  const Value loss = mw::SparseSoftmaxCrossEntropy(logits, masks);
  mw::RmsProp({.epsilon = 1e-7}).Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("mask", mw::Argmax(logits, -1));
  graph.Output("accuracy", mw::AccuracyMetric(graph, "accuracy").Update(logits, masks));
  fmt::print("{}\n", mw::Summary(graph));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::Pipeline train =
      mw::Pipeline::From(DrawAnimals(kTrain, 1, flags.dtype)).Shuffle(kTrain, 1).Batch(kBatch);
  const mw::Pipeline test = mw::Pipeline::From(DrawAnimals(kTest, 2, flags.dtype)).Batch(kBatch);
  mw::Fit(session, train, {.steps_per_epoch = flags.steps, .callbacks = {mw::PrintLosses(flags)}}).value();
  const double accuracy = mw::Evaluate(session, test, {.outputs = {"accuracy"}})->at("accuracy");
  const mw::Tensor mask = mw::Predict(session, test, {.outputs = {"mask"}})->Get("mask").value()[0];
  fmt::print("pixels of other images whose class was found: {:.3f}\nof the first one:\n{}\n", accuracy, mask);
}
