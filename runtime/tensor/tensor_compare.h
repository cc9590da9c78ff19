// Checks whether two tensors hold the same numbers, exactly or nearly, and says where they differ most if they do not.
//
//   AllClose(loss, expected)                     // OK, or
//   // AllClose: elements further than 1e-08 + 1e-05 * |expected| apart: 2 of 6; most at [1,2], 0.5 apart: 6.5, expected
//   // 6.0.
//   EXPECT_EQ(AllClose(y, expected, {.rtol = 1e-3}), absl::OkStatus());
//
// Pure functions; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// The defaults are NumPy's.
struct Closeness {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // whether NaN is close to NaN
};

// OK if |actual - expected| <= atol + rtol * |expected| for all elements (numpy.allclose). Infinities are close to
// themselves only. dtypes may differ: whole numbers and bools are compared exactly, all others as doubles.
// Errors: InvalidArgument, a tensor is invalid; the shapes differ; elements differ (the message says how many, and
// which differs most).
absl::Status AllClose(const Tensor& actual, const Tensor& expected, const Closeness& closeness = {});

// OK if all elements are equal (numpy.array_equal): AllClose with tolerances of 0. So NaN is not equal to itself unless
// `equal_nan` says so, and -0 equals 0. Errors: those of AllClose.
absl::Status AllEqual(const Tensor& actual, const Tensor& expected, bool equal_nan = false);

}  // namespace meshwork
