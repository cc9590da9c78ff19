// The messages for tensors that are not close. tests/fixtures/numpy_test.cc tests which tensors are close.
#include "meshwork/runtime/tensor/tensor_compare.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"

namespace meshwork::tensor_compare_test {
namespace {

const Tensor& Expected() {
  static const auto* const x = new Tensor(Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  return *x;
}

TEST(TensorCompareTest, SaysHowManyDifferAndWhereMost) {
  const Tensor x = Tensor::From<float>({2, 3}, {1, 2.25, 3, 4, 5, 6.5});
  EXPECT_EQ(
      MessageOf(AllClose(x, Expected())),
      "AllClose: elements further than 1e-08 + 1e-05 * |expected| apart: 2 of 6; most at [1,2], 0.5 apart: 6.5, "
      "expected 6.0.");
  EXPECT_EQ(MessageOf(AllEqual(x, Expected())),
            "AllEqual: elements that differ: 2 of 6; most at [1,2], 0.5 apart: 6.5, expected 6.0.");
  EXPECT_EQ(AllClose(x, Expected(), {.atol = 0.5}), absl::OkStatus());
  EXPECT_EQ(AllEqual(Expected(), Expected()), absl::OkStatus());
}

TEST(TensorCompareTest, NanIsFurthestAway) {
  Tensor x = Tensor::From<float>({2, 3}, {1, 2, 30, 4, std::nanf(""), 6});
  EXPECT_EQ(MessageOf(AllEqual(x, Expected())),
            "AllEqual: elements that differ: 2 of 6; most at [1,1], inf apart: nan, expected 5.0.");
  EXPECT_FALSE(AllEqual(x, x).ok());
  EXPECT_EQ(AllEqual(x, x, /*equal_nan=*/true), absl::OkStatus());
}

TEST(TensorCompareTest, WholeNumbersAreComparedExactly) {
  constexpr int64_t kLarge = int64_t{1} << 60, kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(MessageOf(AllEqual(Tensor(kLarge), Tensor(kLarge + 1))),
            "AllEqual: elements that differ: 1 of 1; most at [], 1 apart: 1152921504606846976, expected "
            "1152921504606846977.");
  EXPECT_FALSE(AllClose(Tensor(kMin), Tensor(std::numeric_limits<int64_t>::max())).ok());
  EXPECT_EQ(AllEqual(Tensor(1), Tensor(int64_t{1})), absl::OkStatus());
  EXPECT_EQ(AllEqual(Tensor(true), Tensor(1.0f)), absl::OkStatus());
  EXPECT_FALSE(AllEqual(Tensor(true), Tensor(2)).ok());
}

TEST(TensorCompareTest, ShapesMustBeEqual) {
  EXPECT_EQ(MessageOf(AllClose(Expected(), Expected().Transposed())),
            "AllClose: a f32[2,3] and an expected f32[3,2]; their shapes must be equal.");
  EXPECT_FALSE(AllClose(Expected(), Tensor(1.0f)).ok());
  EXPECT_EQ(MessageOf(AllEqual(Expected().Rows(1, 3), Expected())),
            "AllEqual: of the actual tensor: Tensor: rows 1 to 3 of a f32[2,3], which has rows 0 to 2; "
            "give a begin and an end there.");
  EXPECT_EQ(
      MessageOf(AllClose(Expected(), Tensor())),
      "AllClose: of the expected tensor: Tensor: it has no elements yet; a default-constructed Tensor is empty, "
      "make one by Tensor::From or Tensor::Zeros.");
  EXPECT_EQ(AllClose(Tensor(Type{F32, {0, 2}}), Tensor(Type{F64, {0, 2}})), absl::OkStatus());
}

}  // namespace
}  // namespace meshwork::tensor_compare_test
