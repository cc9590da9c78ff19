// A program of someone who installed meshwork: it trains a few steps on 8 virtual devices, with ops of many
// families, and one product in f64. Prints the version first. Exit code 1 if the loss does not fall.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "meshwork.h"
#include "meshwork/ir/registry.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/ops/elementwise.h"

namespace mw = meshwork;
using mw::UNSHARDED;

namespace {

// An op of the program's own, with a kernel for CPUs and one for GPUs.
mw::OpRow LogisticRow() {
  return mw::RealRow(
      "logistic", "1 / (1 + exp(-x))", MESHWORK_OF_X(T(1) / (T(1) + Exp(-x))),
      [](const mw::Value& g, const mw::Value&, const mw::Value& y) { return g * y * (1.0 - y); });
}

// The loss of digits classified by a net of two layers.
mw::Value Classify(mw::Graph& g) {
  mw::Value x = g.Input("x", mw::F32, {64, 784}, {"batch", UNSHARDED});
  mw::Value y = g.Input("y", mw::I32, {64}, {"batch"});
  mw::Variable scale = g.Var("scale", mw::NormalRandom({10, 32}, 1, 0.01), {UNSHARDED, "model"});
  mw::Dense dense1(g, "dense1", 784, 32, {.kernel_layout = {UNSHARDED, "model"}, .bias_layout = {"model"}});
  mw::Dense dense2(g, "dense2", 32, 10, {.kernel_layout = {"model", UNSHARDED}});

  mw::Value hidden = mw::StatelessDropout(mw::Gelu(dense1(x)), 0.1, /*seed=*/1, /*stream=*/0);
  hidden = hidden * mw::Gather(scale, y, 0);
  mw::Value logits = dense2(mw::Concat({mw::SliceDim(hidden, 1, 16, 32), mw::SliceDim(hidden, 1, 0, 16)}, 1));
  g.Output("accuracy", mw::ReduceMean(mw::Cast(mw::Equal(mw::Argmax(logits, 1), y), mw::F32), {0}));
  return mw::SparseSoftmaxCrossEntropy(logits, y);
}

int Train() {
  const mw::Mesh mesh = mw::Mesh::VirtualCpus("batch=4,model=2").value();
  mw::Graph g(mesh);
  mw::Value loss = Classify(g);
  mw::Adam({.learning_rate = 1e-2, .clip_norm = 1}).Minimize(loss);
  g.Output("loss", loss);

  mw::Session session = mw::Session::Create(g).value();
  const mw::Dataset digits = mw::SyntheticDigits(512, 0, /*seed=*/1, mw::F32).value().train;
  double first = NAN, last = NAN;
  for (const mw::Batch& b : digits.Batches({.batch_size = 64})) {
    last = session.Run({{"x", b["image"]}, {"y", b["label"]}})->scalar("loss").value();
    if (std::isnan(first)) first = last;
  }
  fmt::print("loss {:.4f}, then {:.4f}\n", first, last);
  return last < first ? 0 : 1;
}

// A program that comes as text, whose product is that of f64: 3 · 2.
int Multiply() {
  const mw::Graph g = mw::ParseGraph(R"(mesh [a=2]
func f() {
  %0 = constant value=2 dtype=f64 shape=[4,3] : f64[4,3] {a,_}
  %1 = constant value=1 dtype=f64 shape=[3,4] : f64[3,4] {_,a}
  %2 = matmul %0, %1
  %3 = reduce_max %2 dims=[0,1]
  return product=%3
})")
                          .value();
  const double product = mw::Session::Create(g).value().Run({})->scalar("product").value();
  fmt::print("product {}\n", product);
  return product == 6 ? 0 : 1;
}

}  // namespace

int main() {
  fmt::print("meshwork {}\n", MESHWORK_VERSION);
  static_assert(MESHWORK_VERSION_MAJOR >= 0 && MESHWORK_VERSION_MINOR >= 0 && MESHWORK_VERSION_PATCH >= 0);
  fmt::print("{} ops\n", mw::AllOps().size());
  if (const absl::Status added = mw::RegisterOp(LogisticRow()); !added.ok()) {
    fmt::print("{}\n", mw::MessageOf(added));
    return 1;
  }
  return Train() + Multiply();
}
