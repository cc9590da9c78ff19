// Texts that NumPy does not have; tests/fixtures/numpy_test.cc compares all others with NumPy's.
#include "meshwork/runtime/tensor/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::tensor_text_test {
namespace {

TEST(TensorTextTest, IsFormattedAndStreamed) {
  const Tensor x = Tensor::From<float>({2, 3}, {1, 2.5, -3, 0.125, 5, 6});
  EXPECT_EQ(fmt::format("{}", x), "[[ 1.     2.5   -3.   ]\n [ 0.125  5.     6.   ]]");
  EXPECT_EQ(fmt::format("{:.2}", x), "[[ 1.    2.5  -3.  ]\n [ 0.12  5.    6.  ]]");
  std::ostringstream out;
  out << x[0];
  EXPECT_EQ(out.str(), "[ 1.   2.5 -3. ]");
  EXPECT_EQ(testing::PrintToString(x[0]), out.str());
}

TEST(TensorTextTest, SaysWhatIsWrong) {
  EXPECT_EQ(Tensor().ToString(),
            "<Tensor: it has no elements yet; a default-constructed Tensor is empty, "
            "make one by Tensor::From or Tensor::Zeros.>");
}

TEST(TensorTextTest, WritesBfloatsWithTheDigitsThatTheyHave) {
  const Tensor x = Tensor::From<float>({4}, {0.1f, 1, 3.140625f, 100}).Cast(BF16);
  EXPECT_EQ(x.ToString(), "[  0.1    1.     3.14 100.  ]");
  EXPECT_EQ(Tensor(BFloat16(0.1f)).ToString(), "0.1");
}

// Every bf16 is read back from its text, which is short or is the exact number.
TEST(TensorTextTest, EveryBfloatIsReadBackFromFewDigits) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    BFloat16 x;
    x.bits = static_cast<uint16_t>(bits);
    const std::string text = Tensor(x).ToString();
    const float read = std::strtof(text.c_str(), nullptr);
    ASSERT_EQ(BFloat16(read).bits, bits) << text;
    std::string digits;
    for (const char c : text.substr(0, text.find('e')))
      if (c != '.') digits += c;
    digits = digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
    digits = digits.substr(0, digits.find_last_not_of('0') + 1);
    // 8 bits need at most ceil(1 + 8 log10 2) digits.
    ASSERT_TRUE(digits.size() <= 4 || read == static_cast<float>(x)) << text;
  }
}

TEST(TensorTextTest, TakesOptionsOfAnySize) {
  const Tensor x = Tensor::Arange(F64, 0, 20);
  EXPECT_EQ(x.ToString({.threshold = 3, .edge_items = 0}), "[...]");
  EXPECT_EQ(x.ToString({.precision = -5, .threshold = -1, .edge_items = 1, .line_width = -3}),
            "[ 0.\n ...\n 19.]");
  EXPECT_EQ(x.Reshaped({4, 5}).ToString({.threshold = 3, .edge_items = -1}), "[...]");
  EXPECT_EQ(Tensor(0.1).ToString({.precision = 1 << 30}), "0.1");
}

}  // namespace
}  // namespace meshwork::tensor_text_test
