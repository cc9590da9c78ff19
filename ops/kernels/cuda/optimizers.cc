// Steps of optimizers.
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/cuda/families.h"
#include "meshwork/ops/kernels/cuda/sweep.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

CudaKernel AdamUpdate(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  return KernelOfSweep(row, spec, SweepOfAdam(spec), alignment);
}

CudaKernel AdagradUpdate(const OpRow& row, const KernelSpec& spec, int64_t alignment) {
  return KernelOfSweep(row, spec, SweepOfAdagrad(spec), alignment);
}

}  // namespace

// The same as AdamKernel (ops/optimizer.cc). Numbers that depend on the step alone are computed in double, each by one
// thread, in different warps.
Sweep SweepOfAdam(const KernelSpec& spec) {
  const auto attr = [&](std::string_view name) { return spec.attrs.Get<double>(name); };
  const DType dtype = spec.results[0].local.dtype;
  Sweep sweep{.in = {}, .out = {dtype, dtype, dtype}, .before = {}, .behind = {}, .lines = {}};
  for (size_t o = 0; o < 4; ++o) sweep.in.push_back(spec.operands[o].local.dtype);
  sweep.before = fmt::format(
      "__shared__ double scalars[3];\n"
      "if (threadIdx.x % 32 == 0 && threadIdx.x < 96) {{\n"
      "  const double step = (double)a4[0], lr = {0}{1};\n"
      "  if (threadIdx.x == 0) scalars[0] = 1 - lr * {2};\n"
      "  else if (threadIdx.x == 32) scalars[1] = lr / (1 - pow({3}, step));\n"
      "  else scalars[2] = 1 / sqrt(1 - pow({4}, step));\n"
      "}}\n",
      Real(attr("learning_rate")), spec.operands.size() == 6 ? " * a5[0]" : "", Real(attr("weight_decay")),
      Real(attr("beta1")), Real(attr("beta2")));
  sweep.behind =
      fmt::format("const {0} keep = ({0})scalars[0], rate = ({0})scalars[1], root = ({0})scalars[2];\n",
                  ComputeName(dtype));
  const std::string_view stays = spec.attrs.Get<bool>("lazy") ? "x1 == 0 ? x{} : " : "";
  const auto unless_it_stays = [&](int operand) { return fmt::format(fmt::runtime(stays), operand); };
  sweep.lines = fmt::format(
      "const {0} v1 = {6}{1} * x2 + {2} * x1;\n"
      "const {0} v2 = {7}{3} * x3 + {4} * x1 * x1;\n"
      "const {0} v0 = {8}keep * x0 - rate * v1 / (Sqrt(v2) * root + {5});\n",
      ComputeName(dtype), Number(dtype, attr("beta1")), Number(dtype, 1 - attr("beta1")),
      Number(dtype, attr("beta2")), Number(dtype, 1 - attr("beta2")), Number(dtype, attr("epsilon")),
      unless_it_stays(2), unless_it_stays(3), unless_it_stays(0));
  return sweep;
}

// The same as AdagradKernel (ops/optimizer.cc).
Sweep SweepOfAdagrad(const KernelSpec& spec) {
  const DType dtype = spec.results[0].local.dtype;
  Sweep sweep{.in = {}, .out = {dtype, dtype}, .before = {}, .behind = {}, .lines = {}};
  for (size_t o = 0; o < 3; ++o) sweep.in.push_back(spec.operands[o].local.dtype);
  sweep.behind =
      fmt::format("const {0} rate = ({0})({1}{2});\n", ComputeName(dtype),
                  Real(spec.attrs.Get<double>("learning_rate")), spec.operands.size() == 4 ? " * a3[0]" : "");
  sweep.lines = fmt::format(
      "const {0} v1 = x1 == 0 ? x2 : x2 + x1 * x1;\n"
      "const {0} v0 = x1 == 0 ? x0 : x0 - x1 * rate / (Sqrt(v1) + {1});\n",
      ComputeName(dtype), Number(dtype, spec.attrs.Get<double>("epsilon")));
  return sweep;
}

std::span<const Generator> OptimizerKernels() {
  static constexpr Generator kGenerators[] = {{"adam_update", nullptr, AdamUpdate},
                                              {"adagrad_update", nullptr, AdagradUpdate}};
  return kGenerators;
}

}  // namespace meshwork::cuda
