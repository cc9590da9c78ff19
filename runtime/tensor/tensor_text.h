// Prints Tensors as NumPy prints arrays.
//
//   Tensor x = Tensor::From<float>({2, 3}, {1, 2.5, -3, 0.125, 5, 6});
//   fmt::print("{}\n", x);          // [[ 1.     2.5   -3.   ]
//                                   //  [ 0.125  5.     6.   ]]
//   fmt::print("{:.2}\n", x);       // at most 2 digits behind the point
//   x.ToString({.threshold = 4, .edge_items = 1});
//
// The rules are those of numpy.array2string with the print options of NumPy 2.4: every number of a tensor has the same
// width; reals have the fewest digits that tell them from other numbers of their dtype, and at most `precision` behind
// the point; they are written with exponents where the largest is 1e8 or more (f32 and bf16: 1e6), the smallest below
// 1e-4, or less than a thousandth of the largest. A scalar is written with all its digits. A tensor without elements is
// "[]".
//
// Thread-safe, as other reads of a tensor.
#pragma once

#include <algorithm>
#include <iosfwd>
#include <string>

#include "fmt/format.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

struct TensorTextOptions {
  int precision = 8;         // digits behind the point, at most
  int64_t threshold = 1000;  // a tensor of more elements is summarised:
  int64_t edge_items = 3;    // so many at the beginning and the end of each dim, "..." between them
  int64_t line_width = 75;   // columns after which a line is broken
};

// x.ToString(); GoogleTest prints tensors by it.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace meshwork

// `{}` and `{:.N}`, N digits behind the point.
template <>
struct fmt::formatter<meshwork::Tensor> {
  constexpr auto parse(format_parse_context& context) {
    auto at = context.begin();
    if (at == context.end() || *at != '.') return at;
    precision = 0;
    for (++at; at != context.end() && *at >= '0' && *at <= '9'; ++at)
      if (precision < 1000) precision = 10 * precision + (*at - '0');
    return at;
  }
  template <typename Context>
  auto format(const meshwork::Tensor& x, Context& context) const {
    const std::string text = x.ToString({.precision = precision});
    return std::copy(text.begin(), text.end(), context.out());
  }

  int precision = meshwork::TensorTextOptions().precision;
};
