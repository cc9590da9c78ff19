#include "meshwork/train/data/digits.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include "gtest/gtest.h"

namespace meshwork::digits_test {
namespace {

std::span<const float> PixelsOf(const Tensor& images, int64_t i) {
  return images.values<float>().subspan(784 * i, 784);
}

double SquaredDistance(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// FNV-1a over the pixels as bytes and the labels.
uint64_t Fingerprint(const Dataset& dataset) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (float pixel : dataset.column("image")->values<float>())
    add(static_cast<uint8_t>(std::lround(pixel * 255)));
  for (int32_t label : dataset.column("label")->values<int32_t>()) add(static_cast<uint8_t>(label));
  return hash;
}

TEST(DigitsTest, DrawsTheSameImagesOnEveryPlatform) {
  const MnistData digits = SyntheticDigits(200, 50, 1, F32).value();
  EXPECT_EQ(Fingerprint(digits.train), 18287383471151397698u);
  EXPECT_EQ(Fingerprint(digits.test), 15783130129312582532u);
}

TEST(DigitsTest, HasTheFormOfMnist) {
  const MnistData f32 = SyntheticDigits(300, 20, 1, F32).value();
  const MnistData f64 = SyntheticDigits(300, 20, 1, F64).value();
  EXPECT_EQ(f32.train.column("image")->type().ToString(), "f32[300,784]");
  EXPECT_EQ(f64.test.column("image")->type().ToString(), "f64[20,784]");
  EXPECT_EQ(f32.test.column("label")->type().ToString(), "i32[20]");
  std::array<int, 10> count = {};
  for (int32_t label : f32.train.column("label")->values<int32_t>()) ++count.at(label);
  for (int n : count) EXPECT_GE(n, 15);
  const Tensor images32 = f32.train.column("image").value(), images64 = f64.train.column("image").value();
  for (int64_t i = 0; i < images32.num_elements(); ++i) {
    const double pixel = images64.values<double>()[i];
    ASSERT_TRUE(0 <= pixel && pixel <= 1);
    ASSERT_EQ(std::lround(pixel * 255) / 255.0, pixel);
    ASSERT_FLOAT_EQ(images32.values<float>()[i], static_cast<float>(pixel));
  }
}

TEST(DigitsTest, ALargerSetBeginsWithTheSmallerOne) {
  const MnistData large = SyntheticDigits(50, 30, 9, F32).value(),
                  small = SyntheticDigits(20, 10, 9, F32).value();
  EXPECT_EQ(Fingerprint(large.train.Take(20)), Fingerprint(small.train));
  EXPECT_EQ(Fingerprint(large.test.Take(10)), Fingerprint(small.test));
}

TEST(DigitsTest, SeedsAndPartsDiffer) {
  const MnistData one = SyntheticDigits(10, 10, 1, F32).value(),
                  two = SyntheticDigits(10, 10, 2, F32).value();
  EXPECT_NE(Fingerprint(one.train), Fingerprint(two.train));
  EXPECT_NE(Fingerprint(one.train), Fingerprint(one.test));
}

TEST(DigitsTest, MayBeEmpty) {
  const MnistData digits = SyntheticDigits(0, 0, 1, F32).value();
  EXPECT_EQ(digits.train.size(), 0);
  EXPECT_EQ(digits.test.size(), 0);
}

// Neither hopeless nor trivial: the nearest example names most digits, the nearest mean image far fewer.
TEST(DigitsTest, IsLearnableButNotLinearlySimple) {
  constexpr int64_t kTrain = 2000, kTest = 200;
  const MnistData digits = SyntheticDigits(kTrain, kTest, 1, F32).value();
  const Tensor images = digits.train.column("image").value(), labels = digits.train.column("label").value();
  const Tensor test_images = digits.test.column("image").value(),
               test_labels = digits.test.column("label").value();

  std::array<std::array<float, 784>, 10> means = {};
  std::array<float, 10> count = {};
  for (int64_t i = 0; i < kTrain; ++i) {
    const int32_t label = labels.values<int32_t>()[i];
    ++count[label];
    for (int p = 0; p < 784; ++p) means[label][p] += PixelsOf(images, i)[p];
  }
  for (int digit = 0; digit < 10; ++digit)
    for (float& pixel : means[digit]) pixel /= count[digit];

  int64_t right_by_example = 0, right_by_mean = 0;
  for (int64_t t = 0; t < kTest; ++t) {
    const auto nearest = [&](int64_t n, auto image) {
      int64_t best = 0;
      double best_distance = std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < n; ++i) {
        const double distance = SquaredDistance(PixelsOf(test_images, t), image(i));
        if (distance < best_distance) std::tie(best, best_distance) = std::tie(i, distance);
      }
      return best;
    };
    const int32_t label = test_labels.values<int32_t>()[t];
    right_by_example +=
        labels.values<int32_t>()[nearest(kTrain, [&](int64_t i) { return PixelsOf(images, i); })] == label;
    right_by_mean += nearest(10, [&](int64_t i) { return std::span<const float>(means[i]); }) == label;
  }
  EXPECT_EQ(right_by_example, 162);
  EXPECT_EQ(right_by_mean, 133);
}

}  // namespace
}  // namespace meshwork::digits_test
