// Steps of optimizers.
#include "meshwork/base/status.h"
#include "meshwork/kernels/cuda/families.h"
#include "meshwork/kernels/cuda/text.h"

namespace meshwork::cuda {
namespace {

// As AdamKernel (ops/optimizer.cc). What depends on the step alone is computed by one thread of each block, in double.
CudaKernel AdamUpdate(const OpRow& row, const KernelSpec& spec) {
  const auto attr = [&](std::string_view name) { return spec.attrs.Get<double>(name); };
  const DType dtype = spec.results[0].local.dtype;
  const std::string_view type = ComputeName(dtype);
  KernelText text = TextOf(row, spec);
  text.body = fmt::format(
      "__shared__ double scalars[3];\n"
      "if (threadIdx.x == 0) {{\n"
      "  const double step = (double)a4[0], lr = {0}{1};\n"
      "  scalars[0] = 1 - lr * {2};\n"
      "  scalars[1] = lr / (1 - pow({3}, step));\n"
      "  scalars[2] = 1 / sqrt(1 - pow({4}, step));\n"
      "}}\n"
      "__syncthreads();\n"
      "const {5} keep = ({5})scalars[0], rate = ({5})scalars[1], root = ({5})scalars[2];\n",
      Real(attr("learning_rate")), spec.operands.size() == 6 ? " * a5[0]" : "", Real(attr("weight_decay")),
      Real(attr("beta1")), Real(attr("beta2")), type);
  const std::string lines = fmt::format(
      "const {0} gradient = {1};\n"
      "const {0} m = {2} * {3} + {4} * gradient;\n"
      "const {0} v = {5} * {6} + {7} * gradient * gradient;\n"
      "const {0} weight = keep * {8} - rate * m / (Sqrt(v) * root + {9});\n"
      "r0[i] = {10};\nr1[i] = {11};\nr2[i] = {12};\n",
      type, Loaded(dtype, "a1[i]"), Number(dtype, attr("beta1")), Loaded(dtype, "a2[i]"),
      Number(dtype, 1 - attr("beta1")), Number(dtype, attr("beta2")), Loaded(dtype, "a3[i]"),
      Number(dtype, 1 - attr("beta2")), Loaded(dtype, "a0[i]"), Number(dtype, attr("epsilon")),
      Rounded(dtype, "weight"), Rounded(dtype, "m"), Rounded(dtype, "v"));
  return ForEach(std::move(text), spec.results[0].local.num_elements(), lines);
}

}  // namespace

std::span<const Generator> OptimizerKernels() {
  static constexpr Generator kGenerators[] = {{"adam_update", AdamUpdate}};
  return kGenerators;
}

}  // namespace meshwork::cuda
