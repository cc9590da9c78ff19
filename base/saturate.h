// Sums and products of counts that stay at the largest int64_t where they would go beyond it: a loop of 2^40 turns in
// another one has more turns than can be counted.
#pragma once

#include <cstdint>
#include <limits>

namespace meshwork {

// REQUIRES: a, b >= 0.
inline int64_t SaturatedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}
inline int64_t SaturatedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace meshwork
