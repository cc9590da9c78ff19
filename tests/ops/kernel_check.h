// For tests that compare kernels with plain loops: shapes to draw, and numbers as a dtype holds them.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "meshwork/ir/type.h"
#include "support/interpreter.h"

namespace meshwork {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

inline auto SameNumbers(const Numbers& expected) {
  std::vector<::testing::Matcher<double>> each;
  for (double x : expected) each.push_back(::testing::NanSensitiveDoubleEq(x));
  return ::testing::ElementsAreArray(each);
}

// `numbers` converted to elements of the dtype: f32 rounds.
inline Numbers Rounded(DType dtype, Numbers numbers) {
  return HostTensor({dtype, {static_cast<int64_t>(numbers.size())}}, numbers).Numbers();
}

// A result shape of up to four dims and operand shapes that broadcast to it; the first one has every
// dim, so that the result is what they broadcast to.
inline std::vector<Shape> DrawBroadcast(std::mt19937& random, size_t operands) {
  auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  Shape result;
  for (int64_t rank = below(5); rank > 0; --rank) result.push_back(below(16) == 0 ? 0 : 1 + below(5));
  std::vector<Shape> shapes = {result, result};
  for (size_t o = 1; o < operands; ++o) {
    Shape shape(result.begin() + below(static_cast<int>(result.size()) + 1), result.end());
    for (int64_t& size : shape)
      if (below(3) == 0) size = 1;
    shapes.push_back(shape);
  }
  if (below(2) == 0) std::swap(shapes[1], shapes.back());
  return shapes;
}

}  // namespace meshwork
