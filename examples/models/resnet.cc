// ResNet-8 (He et al., arXiv 1512.03385, section 4.2, n = kBlocks) on drawn digits of 32 x 32 pixels. See --help.
#include "examples/models/flags.h"

namespace mw = meshwork;
using mw::UNSHARDED, mw::Value;

constexpr int64_t kBatch = 16, kTrain = 64, kTest = 64, kBlocks = 1, kEpoch = kTrain / kBatch;

// The model as Keras writes it: layers are made where they are called.
struct ResNet {
  mw::Graph& graph;
  std::vector<mw::Variable> kernels = {};  // their squares are part of the loss

  // Convolution, then a batch norm, unless it is a projection.
  Value Layer(const std::string& name, const Value& x, int64_t filters, int64_t size, int64_t stride,
              bool norm = true) {
    const mw::NameScope scope(graph, name);
    const mw::Conv2D conv(graph, "conv", filters, {size, size},
                          {.window = {.strides = {stride, stride}, .padding = mw::WindowPadding::Same()},
                           .kernel_initializer = mw::HeNormal(),
                           .bias = !norm});
    const Value y = conv(x);
    kernels.push_back(conv.kernel());
    return norm ? mw::BatchNormalization(graph, "norm", {.momentum = 0.9})(y) : y;
  }

  // images: [b,32,32,1] -> logits: [b,10].
  Value operator()(const Value& images) {
    Value x = mw::Relu(Layer("first", images, 16, 3, 1));
    for (int stack = 0; stack < 3; ++stack) {
      for (int block = 0; block < kBlocks; ++block) {
        const mw::NameScope scope(graph, fmt::format("stack{}/block{}", stack, block));
        const int64_t filters = 16 << stack, stride = stack > 0 && block == 0 ? 2 : 1;
        Value y = mw::Relu(Layer("a", x, filters, 3, stride));
        y = Layer("b", y, filters, 3, 1);
        if (stride == 2) x = Layer("shortcut", x, filters, 1, stride, /*norm=*/false);
        x = mw::Relu(x + y);
      }
    }
    return mw::Dense(graph, "logits", 10)(mw::GlobalAvgPool(x));
  }
};

int main(int argc, char** argv) {
  const mw::ModelFlags flags(argc, argv, "resnet", "Trains a residual network on drawn digits.",
                             /*steps=*/40);
  mw::Graph graph = flags.NewGraph({{"images", {"batch", UNSHARDED}},
                                    {"labels", {"batch"}},
                                    {"*/kernel", {UNSHARDED, UNSHARDED, UNSHARDED, "model"}},
                                    {"*/norm/*", {"model"}},
                                    {"logits/kernel", {"model", UNSHARDED}}});
  const Value images = graph.Input("images", flags.dtype, {kBatch, 784});
  const Value labels = graph.Input("labels", mw::I32, {kBatch});
  ResNet resnet{graph};
  const Value pixels = mw::Reshape(images, {kBatch, 28, 28, 1});
  const Value logits = resnet(mw::Resize(pixels, {32, 32}, mw::ResizeForm::kBilinear));
  Value loss = mw::SparseSoftmaxCrossEntropy(logits, labels);
  for (const mw::Variable& kernel : resnet.kernels)
    loss = loss + 1e-4 * mw::ReduceSum(mw::Square(kernel), {0, 1, 2, 3});
  mw::Adam({.learning_rate = mw::PiecewiseConstant({80 * kEpoch, 120 * kEpoch, 160 * kEpoch, 180 * kEpoch},
                                                   {1e-3, 1e-4, 1e-5, 1e-6, 5e-7})})
      .Minimize(loss);
  graph.Output("loss", loss);
  graph.Output("accuracy", mw::Accuracy(logits, labels));
  fmt::print("{}\n", mw::Summary(graph));

  mw::Session session = mw::Session::Create(graph).value();
  const mw::MnistData digits = mw::SyntheticDigits(kTrain, kTest, /*seed=*/1, flags.dtype).value();
  int64_t step = 0;
  for (const mw::Example& b :
       mw::Pipeline::From(digits.train).Shuffle(kTrain, 1).Repeat().Batch(kBatch).Take(flags.steps)) {
    const mw::StepResult result = session.Run({{"images", b["image"]}, {"labels", b["label"]}}).value();
    fmt::print("step {}: loss {:.{}g}\n", ++step, result.scalar("loss").value(), flags.digits);
  }
  double right = 0;
  for (const mw::Batch& b : digits.test.Batches({.batch_size = kBatch}))
    right += kBatch *
             session.Evaluate({{"images", b["image"]}, {"labels", b["label"]}})->scalar("accuracy").value();
  fmt::print("test accuracy {:.2f}\n", right / kTest);
}
