// Running one row on drawn numbers: for tests of kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "meshwork/ir/row.h"
#include "support/interpreter.h"

namespace meshwork {

// The result of a row of one result on whole tensors.
inline HostTensor Apply(std::string_view op, const std::vector<HostTensor>& operands, const Attrs& attrs,
                        const Type& result, const std::vector<int64_t>& cuts = {}) {
  const OpRow& row = GetOp(op);
  std::vector<TensorPart> in, out = {HostTensor(result)};
  for (const HostTensor& operand : operands) in.emplace_back(operand);
  RunKernel(row, Graph::CompleteAttrs(row, attrs).value(), in, out, cuts);
  return out[0].local;
}

inline std::vector<double> Draw(std::mt19937& random, int64_t n, double low, double high, bool whole) {
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> numbers;
  for (; n > 0; --n) numbers.push_back(whole ? std::floor(draw(random)) : draw(random));
  return numbers;
}

// Row-major index of position `linear`.
inline Shape IndexAt(const Shape& shape, int64_t linear) {
  Shape index(shape.size());
  for (size_t d = shape.size(); d-- > 0; linear /= shape[d]) index[d] = linear % shape[d];
  return index;
}
inline int64_t Position(const Shape& shape, const Shape& index) {
  int64_t linear = 0;
  for (size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + index[d];
  return linear;
}
// Random places at which the work is cut into pieces.
inline std::vector<int64_t> DrawCuts(std::mt19937& random, int64_t elements) {
  std::vector<int64_t> cuts;
  for (int i = 0; i < 3; ++i)
    cuts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(elements + 1)));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace meshwork
