// A DCGAN (Radford et al., arXiv 1511.06434) that learns to draw digits of 32 x 32 pixels. See --help.
#include "examples/models/flags.h"
#include "meshwork/base/random.h"

namespace mw = meshwork;
using mw::BatchNormalization, mw::UNSHARDED, mw::Value;

constexpr int64_t kBatch = 16, kTrain = 64, kNoise = 32, kMaps = 8;
// As in the paper: filters start from N(0, 0.02), scales of norms from N(1, 0.02).
const mw::BatchNormalizationOptions kNorm{.momentum = 0.9, .scale_initializer = mw::NormalRandom(1, 0.02)};
const mw::Conv2DOptions kBetweenPixelAndImage{.kernel_initializer = mw::NormalRandom(0, 0.02), .bias = false};
const mw::Conv2DOptions kByTwo{.window = {.strides = {2, 2}, .padding = mw::WindowPadding::Same()},
                               .kernel_initializer = mw::NormalRandom(0, 0.02),
                               .bias = false};

// noise: [b,1,1,kNoise] -> images: [b,32,32,1] in (-1, 1).
mw::Sequential Generator(mw::Graph& graph) {
  const mw::NameScope scope(graph, "generator");
  return mw::Sequential(mw::Conv2DTranspose(graph, "conv1", kMaps * 4, {4, 4}, kBetweenPixelAndImage),
                        BatchNormalization(graph, "norm1", kNorm), mw::Relu,
                        mw::Conv2DTranspose(graph, "conv2", kMaps * 2, {4, 4}, kByTwo),
                        BatchNormalization(graph, "norm2", kNorm), mw::Relu,
                        mw::Conv2DTranspose(graph, "conv3", kMaps, {4, 4}, kByTwo),
                        BatchNormalization(graph, "norm3", kNorm), mw::Relu,
                        mw::Conv2DTranspose(graph, "conv4", 1, {4, 4}, kByTwo), mw::Tanh);
}

// images: [b,32,32,1] -> the logits of "this is real": [b].
mw::Sequential Discriminator(mw::Graph& graph) {
  const mw::NameScope scope(graph, "discriminator");
  const auto leaky = [](const Value& x) { return mw::LeakyRelu(x, 0.2); };
  return mw::Sequential(
      mw::Conv2D(graph, "conv1", kMaps, {4, 4}, kByTwo), leaky,
      mw::Conv2D(graph, "conv2", kMaps * 2, {4, 4}, kByTwo), BatchNormalization(graph, "norm2", kNorm), leaky,
      mw::Conv2D(graph, "conv3", kMaps * 4, {4, 4}, kByTwo), BatchNormalization(graph, "norm3", kNorm), leaky,
      mw::Conv2D(graph, "conv4", 1, {4, 4}, kBetweenPixelAndImage),
      [](const Value& x) { return mw::Reshape(x, {x.shape()[0]}); });
}

mw::Tensor Noise(int64_t rows, mw::Random& random, mw::DType dtype) {
  std::vector<double> values(rows * kNoise);
  for (double& value : values) value = random.Uniform(-1, 1);
  return mw::Tensor::From<double>({rows, 1, 1, kNoise}, values).Cast(dtype);
}

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "dcgan", "Trains a GAN on drawn digits.", /*steps=*/100);
  mw::Graph graph = flags.NewGraph({{"images", {"batch", UNSHARDED}},
                                    {"noise", {"batch", UNSHARDED, UNSHARDED, UNSHARDED}},
                                    {"discriminator/*/kernel", {UNSHARDED, UNSHARDED, UNSHARDED, "model"}},
                                    {"generator/*/kernel", {UNSHARDED, UNSHARDED, "model", UNSHARDED}},
                                    {"*/norm?/*", {"model"}}});
  const Value pixels = mw::Reshape(graph.Input("images", flags.dtype, {kBatch, 784}), {kBatch, 28, 28, 1});
  const Value noise = graph.Input("noise", flags.dtype, {kBatch, 1, 1, kNoise});
  const mw::Sequential generator = Generator(graph), discriminator = Discriminator(graph);
  const Value drawn = generator(noise),
              real = discriminator(mw::Resize(pixels, {32, 32}, mw::ResizeForm::kBilinear) * 2.0 - 1.0);
  const Value fake = discriminator(drawn);
  // Binary cross-entropy: softplus(-z) if the label is 1, softplus(z) if it is 0.
  const Value loss = mw::ReduceMean(mw::Softplus(-real) + mw::Softplus(fake), {0});
  const Value generator_loss = mw::ReduceMean(mw::Softplus(-fake), {0});
  // Each player updates its own weights. Both updates read the weights from before the step.
  mw::Adam({.learning_rate = 2e-4, .beta1 = 0.5, .groups = {{.pattern = "generator/*", .frozen = true}}})
      .Minimize(loss);
  mw::Adam({.learning_rate = 2e-4, .beta1 = 0.5, .groups = {{.pattern = "discriminator/*", .frozen = true}}})
      .Minimize(generator_loss);
  graph.Output("loss", loss);
  graph.Output("generator_loss", generator_loss);
  graph.Output("real", mw::ReduceMean(mw::Sigmoid(real), {0}));
  graph.Output("fake", mw::ReduceMean(mw::Sigmoid(fake), {0}));
  graph.Output("drawn", drawn);
  fmt::print("{}\n", mw::Summary(graph));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::Dataset digits = mw::SyntheticDigits(kTrain, 0, /*seed=*/1, flags.dtype).value().train;
  mw::Random random(/*seed=*/999);
  const mw::Tensor fixed_noise = Noise(kBatch, random, flags.dtype);
  int64_t step = 0;
  for (const mw::Example& b :
       mw::Pipeline::From(digits).Shuffle(kTrain, 1).Repeat().Batch(kBatch).Take(flags.steps)) {
    const mw::StepResult result =
        session.Run({{"images", b["image"]}, {"noise", Noise(kBatch, random, flags.dtype)}}).value();
    fmt::print("step {}: loss {:.{}g}, of the generator {:.{}g}, D(x) {:.4f}, D(G(z)) {:.4f}\n", ++step,
               result.scalar("loss").value(), flags.digits, result.scalar("generator_loss").value(),
               flags.digits, result.scalar("real").value(), result.scalar("fake").value());
  }
  const mw::Tensor image = session.Predict({{"noise", fixed_noise}}, {"drawn"})->Get("drawn").value()[0];
  for (int64_t y = 0; y < 32; y += 2) {
    for (int64_t x = 0; x < 32; ++x)
      fmt::print("{}", " .:+#"[static_cast<int>(2.499 * (image.At({y, x, 0}).value() + 1))]);
    fmt::print("\n");
  }
}
