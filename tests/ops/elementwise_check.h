// For tests that compare elementwise rows with references in other arithmetic: applies a row to elements of
// C++ types, and lists difficult reals: ±0, ±∞, NaN, the least and the largest, halves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/row.h"
#include "support/interpreter.h"

namespace meshwork {

using Real = long double;

// The result of a row with one result, with elements of a dtype's C++ type.
template <typename To, typename From>
std::vector<To> ResultOf(std::string_view op, const std::vector<std::vector<From>>& operands,
                         const Attrs& attrs = {}) {
  const OpRow& row = GetOp(op);
  const Shape shape = {static_cast<int64_t>(operands[0].size())};
  std::vector<TensorPart> in, out = {HostTensor({DTypeOf<To>(), shape})};
  for (const std::vector<From>& operand : operands) {
    HostTensor tensor({DTypeOf<From>(), shape});
    std::copy(operand.begin(), operand.end(), tensor.template data<From>());
    in.emplace_back(std::move(tensor));
  }
  RunKernel(row, Graph::CompleteAttrs(row, attrs).value(), in, out);
  const To* data = out[0].local.data<To>();
  return std::vector<To>(data, data + operands[0].size());
}

template <typename T>
std::vector<T> HardReals() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> magnitudes = {0,
                               Limits::denorm_min(),
                               Limits::min() / 4,
                               Limits::min(),
                               Limits::epsilon() / 2,
                               Limits::epsilon(),
                               T(1e-3),
                               T(0.3),
                               T(0.5),
                               std::nextafter(T(0.5), T(0)),
                               std::nextafter(T(1), T(0)),
                               1,
                               std::nextafter(T(1), T(2)),
                               T(1.5),
                               2,
                               T(2.5),
                               3,
                               T(3.5),
                               6,
                               T(6.5),
                               9,
                               T(14),
                               20,
                               T(38),
                               88,
                               89,
                               104,
                               T(300),
                               709,
                               710,
                               745,
                               1000,
                               T(1e7) + T(0.5),
                               T(1) / Limits::epsilon() / 2 - T(0.5),
                               T(1) / Limits::epsilon(),
                               T(1e20),
                               std::sqrt(Limits::max()),
                               Limits::max(),
                               Limits::infinity(),
                               Limits::quiet_NaN()};
  std::mt19937 random(1);
  std::uniform_real_distribution<T> small(0, 1), large(0, 20);
  for (int i = 0; i < 300; ++i) magnitudes.push_back(i % 2 == 0 ? small(random) : large(random));
  std::vector<T> all;
  for (T x : magnitudes) all.insert(all.end(), {x, -x});
  return all;
}

}  // namespace meshwork
