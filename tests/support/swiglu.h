// A row from outside the library, for tests: a sigmoid(a) b of two f32 or f64 operands.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/ops.h"

namespace meshwork {

template <typename T>
void RunSwiglu(const KernelArgs& args) {
  const T *a = args.In<T>(0), *b = args.In<T>(1);
  for (int64_t i = args.begin; i < args.end; ++i) args.Out<T>(0)[i] = a[i] / (1 + std::exp(-a[i])) * b[i];
}

inline OpRow SwigluRow(std::string_view name = "swiglu") {
  return {.name = name,
          .doc = "a sigmoid(a) b",
          .num_operands = 2,
          .infer = [](const OpView& view) -> absl::StatusOr<std::vector<Type>> {
            const Type &a = view.operands[0], &b = view.operands[1];
            if (a == b && (a.dtype == F32 || a.dtype == F64)) return std::vector<Type>{a};
            return InvalidArgument("takes two alike, f32 or f64, got {} and {}.", a.ToString(), b.ToString());
          },
          .rule = [](const OpView& view) { return ElementwiseRule(view, Linear(kSecond)); },
          .grad =
              [](const GradView& view) {
                const Value &a = view.operands[0], &b = view.operands[1], &g = view.result_grads[0];
                const Value s = Sigmoid(a);
                return std::vector<Value>{g * b * s * (1.0 + a * (1.0 - s)), g * a * s};
              },
          .cpu =
              [](const KernelSpec& spec) {
                const Type& block = spec.results[0].local;
                return Kernel{.run = block.dtype == F32 ? RunSwiglu<float> : RunSwiglu<double>,
                              .units = block.num_elements()};
              },
          .samples = {"f32[4,6], f32[4,6]", "f64[5], f64[5]"}};
}

}  // namespace meshwork
