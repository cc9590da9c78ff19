// The README's program: a two-layer classifier, data parallel over "batch", its hidden layer split over
// "model", on 8 virtual devices.
#include "meshwork/train.h"

namespace mw = meshwork;
using mw::UNSHARDED;

int main() {
  mw::Mesh mesh = mw::Mesh::VirtualCpus("batch=4,model=2").value();  // 8 devices

  mw::Graph g(mesh);
  mw::Value x = g.Input("x", mw::F32, {128, 784}, {"batch", UNSHARDED});
  mw::Value y = g.Input("y", mw::I32, {128}, {"batch"});
  mw::Variable w1 = g.Var("w1", mw::GlorotUniform({784, 700}), {UNSHARDED, "model"});
  mw::Variable w2 = g.Var("w2", mw::GlorotUniform({700, 10}), {"model", UNSHARDED});
  mw::Value logits = mw::MatMul(mw::Relu(mw::MatMul(x, w1)), w2);
  mw::Value loss = mw::SparseSoftmaxCrossEntropy(logits, y);
  mw::Adam({.learning_rate = 1e-3}).Minimize(loss);
  g.Output("loss", loss);

  mw::Session session = mw::Session::Create(g).value();
  fmt::print("{}", session.Explain({.search = true}));  // every collective, and why it is there
  mw::Dataset digits = mw::SyntheticDigits(1280, 0, /*seed=*/1, mw::F32).value().train;
  for (const mw::Batch& b : digits.Batches({.batch_size = 128}))
    fmt::print("loss {:.4f}\n", session.Run({{"x", b["image"]}, {"y", b["label"]}})->scalar("loss").value());
}
