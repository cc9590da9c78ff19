// Tensors that checks compare: every dtype's elements as doubles, which hold them exactly (i64 up to 2^53).
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// A dense row-major tensor.
struct DoubleTensor {
  Type type;
  std::vector<double> values;
};

std::vector<std::byte> ToBytes(const DoubleTensor& tensor);
// `bytes`: the elements of a tensor of this type.
DoubleTensor FromBytes(const Type& type, const void* bytes);

// The block of `whole`, with the shape of its extents.
DoubleTensor PartOf(const DoubleTensor& whole, const Block& block);

// Random values of samples, the same on every machine.
//
// There are three kinds of draws, by the seed. If many elements are folded into one, values of few levels
// fold to the same result everywhere, and so do fair coins. So the second kind has many levels, and the last
// two kinds have coins that are nearly all equal.
class Sampler {
 public:
  explicit Sampler(uint64_t seed) : engine_(seed), kind_(seed % 3) {}

  // Values of few levels in the row's ranges, so that ties occur, never zero; sums are exact or nearly so.
  DoubleTensor Draw(const Type& type, const OpRow& row);
  // A whole number from 0 to n - 1.
  uint64_t Below(uint64_t n) { return engine_() % n; }

 private:
  // Fair coins, or all true (false) except two.
  void DrawCoins(std::vector<double>& coins);

  std::mt19937_64 engine_;
  uint64_t kind_;
};

// The value of a real or whole number in the dtype: i32 wraps around.
double Wrapped(DType dtype, double x);

// Whether all elements agree up to the rounding of sums of some dozen terms. Equal ones agree even if
// infinite, and NaN agrees with NaN.
bool Agree(DType dtype, std::span<const double> a, std::span<const double> b);

}  // namespace meshwork
