// An op of one's own: swiglu(a, b) = a sigmoid(a) b, with its kernel, sharding rule and gradient. The program
// checks the op, registers it, and trains a model that uses it on 4 virtual devices and on one.
#include <cmath>

#include "meshwork/ops/elementwise.h"
#include "meshwork/tools/check/check_op.h"
#include "meshwork/train.h"

namespace mw = meshwork;

absl::StatusOr<std::vector<mw::Type>> Infer(const mw::OpView& view) {
  const mw::Type &a = view.operands[0], &b = view.operands[1];
  if (a == b && (a.dtype == mw::F32 || a.dtype == mw::F64)) return std::vector<mw::Type>{a};
  return mw::InvalidArgument("takes two alike, f32 or f64, got {} and {}.", a.ToString(), b.ToString());
}
mw::Rule Rule(const mw::OpView& view) { return mw::ElementwiseRule(view, mw::Linear(mw::kSecond)); }
template <typename T>
void Run(const mw::KernelArgs& args) {
  const T *a = args.In<T>(0), *b = args.In<T>(1);
  for (int64_t i = args.begin; i < args.end; ++i) args.Out<T>(0)[i] = a[i] / (1 + std::exp(-a[i])) * b[i];
}
mw::Kernel Cpu(const mw::KernelSpec& spec) {  // computes a block of the result, element by element
  const mw::Type& block = spec.results[0].local;
  return {.run = block.dtype == mw::F32 ? Run<float> : Run<double>, .units = block.num_elements()};
}
std::vector<mw::Value> Grad(const mw::GradView& view) {
  const mw::Value &a = view.operands[0], &b = view.operands[1], &g = view.result_grads[0], s = mw::Sigmoid(a);
  return {g * b * s * (1.0 + a * (1.0 - s)), g * a * s};
}

double Train(std::string_view devices) {
  mw::Graph g(mw::Mesh::VirtualCpus(devices).value());
  mw::Value x = g.Input("x", mw::F32, {8, 16}, {"data", mw::UNSHARDED});
  mw::Variable w1 = g.Var("w1", mw::GlorotUniform({16, 32}), {mw::UNSHARDED, "model"});
  mw::Variable w2 = g.Var("w2", mw::GlorotUniform({16, 32}), {mw::UNSHARDED, "model"});
  mw::Value y = mw::AddOp("swiglu", {mw::MatMul(x, w1), mw::MatMul(x, w2)});  // as any other op
  mw::Sgd({.learning_rate = 0.1}).Minimize(mw::ReduceMean(y * y, {0, 1}));
  g.Output("y", mw::ReduceSum(y, {0, 1}));
  mw::Session session = mw::Session::Create(g).value();
  const mw::Tensor ones = mw::Tensor::From({8, 16}, std::vector<float>(8 * 16, 1));
  for (int step = 0; step < 9; ++step) session.Run({{"x", ones}}).value();
  return session.Run({{"x", ones}})->scalar("y").value();
}

int main() {
  const mw::OpRow row = {.name = "swiglu",
                         .doc = "a sigmoid(a) b",
                         .num_operands = 2,
                         .infer = Infer,
                         .rule = Rule,
                         .grad = Grad,
                         .cpu = Cpu,
                         .samples = {"f32[4,6], f32[4,6]", "f64[5], f64[5]"}};
  fmt::print("{}", mw::CheckOp(row).value().ToString());  // or what is wrong, and where
  if (!mw::RegisterOp(row).ok()) return 1;
  const double four = Train("data=2,model=2"), one = Train("data=1,model=1");
  fmt::print("after 10 steps: {:.4f} on 4 devices, {:.4f} on one\n", four, one);
  return std::abs(four - one) < 1e-4 ? 0 : 1;
}
