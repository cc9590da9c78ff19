#include "meshwork/runtime/tensor/quantized.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::quantized_test {
namespace {

using ::testing::Each;

// A block that counts up in steps of 1/8 from -2.
std::vector<float> Steps() {
  std::vector<float> steps;
  for (int i = 0; i < 32; ++i) steps.push_back(static_cast<float>(i) / 8 - 2);
  return steps;
}

// As ggml-quants.c has it: id = 127 / 2, numbers to the nearest, halves away from zero.
TEST(QuantizeMatrixTest, RoundsTo8BitsAsGgufDoes) {
  const QuantizedMatrix w = QuantizeMatrix(Tensor::From<float>({1, 32}, Steps()), {.bits = 8}).value();
  EXPECT_EQ(w.q.type().ToString(), "i8[1,1,32]");
  EXPECT_EQ(w.scale.type().ToString(), "f16[1,1]");
  EXPECT_FALSE(w.zero.valid());
  EXPECT_EQ(w.scale.At({0, 0}).value(), static_cast<float>(Float16(2.0f / 127)));
  const std::vector<int> expected = {-127, -119, -111, -103, -95, -87, -79, -71, -64, -56, -48,
                                     -40,  -32,  -24,  -16,  -8,  0,   8,   16,  24,  32,  40,
                                     48,   56,   64,   71,   79,  87,  95,  103, 111, 119};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(w.q.values<int8_t>()[i], expected[i]) << i;
}

// d = 3.875 / 15, halves up; number i lies beside number i + 16.
TEST(QuantizeMatrixTest, RoundsTo4BitsAsGgufDoes) {
  const QuantizedMatrix w = QuantizeMatrix(Tensor::From<float>({1, 32}, Steps()), {.bits = 4}).value();
  EXPECT_EQ(w.q.type().ToString(), "u8[1,1,16]");
  EXPECT_EQ(w.scale.At({0, 0}).value(), static_cast<float>(Float16(3.875f / 15)));
  EXPECT_EQ(w.zero.At({0, 0}).value(), -2);
  for (int i = 0; i < 16; ++i) {
    const auto whole = [](int number) { return static_cast<int>(std::floor(number * 15.0 / 31 + 0.5)); };
    EXPECT_EQ(w.q.values<uint8_t>()[i], whole(i) + 16 * whole(i + 16)) << i;
  }
}

// The bounds of the header.
TEST(QuantizeMatrixTest, StaysWithinItsErrors) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw(0.3f, 1);
  std::vector<float> numbers(6 * 64);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = std::ldexp(draw(random), static_cast<int>(i / 32) - 9);
  for (const int bits : {8, 4}) {
    const QuantizedMatrix w = QuantizeMatrix(Tensor::From<float>({6, 64}, numbers), {.bits = bits}).value();
    for (size_t block = 0; block < numbers.size() / 32; ++block) {
      const float* const x = numbers.data() + 32 * block;
      const auto [least, most] = std::minmax_element(x, x + 32);
      const double largest = std::max(-*least, *most), range = *most - *least;
      const double d = bits == 8 ? largest / 127 : range / 15;
      const double bound = d / 2 + (bits == 8 ? largest : range + std::abs(*least)) * 0x1p-11 +
                           (bits == 8 ? 127 : 16) * 0x1p-25 + 1e-6 * largest;
      const double scale = w.scale.values<Float16>()[block];
      for (size_t i = 0; i < 32; ++i) {
        double number = 0;
        if (bits == 8) {
          number = scale * w.q.values<int8_t>()[32 * block + i];
        } else {
          const int both = w.q.values<uint8_t>()[16 * block + i % 16];
          number = scale * (i < 16 ? both % 16 : both / 16) + w.zero.values<Float16>()[block];
        }
        EXPECT_LE(std::abs(number - x[i]), bound) << bits << " bits, block " << block << ", " << i;
      }
    }
  }
}

TEST(QuantizeMatrixTest, KeepsBlocksOfEqualNumbersAndOtherDtypes) {
  for (const DType dtype : {F64, BF16, F16}) {
    const Tensor zeros = Tensor::Zeros({dtype, {2, 3, 32}}), halves = Tensor::Full({dtype, {32}}, 0.5);
    const QuantizedMatrix none = QuantizeMatrix(zeros, {.bits = 8}).value();
    EXPECT_EQ(none.q.shape(), Shape({2, 3, 1, 32}));
    EXPECT_THAT(none.q.values<int8_t>(), Each(0));
    EXPECT_THAT(none.scale.Cast(F32).values<float>(), Each(0));
    const QuantizedMatrix half = QuantizeMatrix(halves, {.bits = 4}).value();
    EXPECT_THAT(half.q.values<uint8_t>(), Each(0));
    EXPECT_THAT(half.zero.Cast(F32).values<float>(), Each(0.5f));
  }
  EXPECT_EQ(QuantizeMatrix(Tensor::Zeros({F32, {0, 32}}))->q.shape(), Shape({0, 1, 32}));
}

}  // namespace
}  // namespace meshwork::quantized_test
