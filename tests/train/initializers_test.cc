#include "meshwork/train/initializers.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/train/session.h"

namespace meshwork {
namespace {

using ::testing::Each;

// What a variable of this initializer holds at the start.
Tensor Initial(const Initializer& initializer, int64_t seed = 1) {
  Graph g(Mesh::VirtualCpus("model=2").value());
  g.Var("w", initializer, LayoutSpec(initializer.type.shape.size(), UNSHARDED));
  return Session::Create(g, {.workers = 1, .seed = seed})->Get("w").value();
}

struct Moments {
  double low = 0, high = 0, mean = 0, deviation = 0;
};

Moments MomentsOf(const Tensor& tensor) {
  const auto values = tensor.values<double>();
  const auto n = static_cast<double>(values.size());
  Moments m{values[0], values[0]};
  for (double x : values) {
    m.low = std::min(m.low, x);
    m.high = std::max(m.high, x);
    m.mean += x / n;
  }
  for (double x : values) m.deviation += (x - m.mean) * (x - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(InitializersTest, ConstantsAreTheSameEverywhere) {
  EXPECT_THAT(Initial(Zeros({3, 5})).values<float>(), Each(0));
  EXPECT_THAT(Initial(Zeros({7}, I64)).values<int64_t>(), Each(0));
  EXPECT_THAT(Initial(Filled(-2.5, {3, 5}, F64)).values<double>(), Each(-2.5));
  EXPECT_THAT(Initial(Filled(3, {}, I32)).values<int32_t>(), Each(3));
}

TEST(InitializersTest, UniformStaysInItsIntervalAndFillsIt) {
  const Moments m = MomentsOf(Initial(UniformRandom({100, 100}, -1, 3, F64)));
  EXPECT_GE(m.low, -1);
  EXPECT_LT(m.low, -0.99);
  EXPECT_LT(m.high, 3);
  EXPECT_GT(m.high, 2.99);
  EXPECT_NEAR(m.mean, 1, 0.05);
  EXPECT_NEAR(m.deviation, 4 / std::sqrt(12), 0.05);
}

TEST(InitializersTest, NormalHasItsMeanAndDeviation) {
  const Moments m = MomentsOf(Initial(NormalRandom({100, 100}, 5, 2, F64)));
  EXPECT_NEAR(m.mean, 5, 0.08);
  EXPECT_NEAR(m.deviation, 2, 0.06);
  EXPECT_LT(m.low, 5 - 3 * 2);
  EXPECT_GT(m.high, 5 + 3 * 2);
}

TEST(InitializersTest, GlorotsLimitComesFromBothFans) {
  // sqrt(6 / (fan_in + fan_out)); for a vector both fans are its size.
  for (const auto& [shape, limit] : {std::pair<Shape, double>{{100, 50}, std::sqrt(6. / 150)},
                                     {{50, 100}, std::sqrt(6. / 150)},
                                     {{3, 40, 60}, std::sqrt(6. / 100)},
                                     {{3000}, std::sqrt(6. / 6000)}}) {
    SCOPED_TRACE(ShapeToString(shape));
    const Moments m = MomentsOf(Initial(GlorotUniform(shape, F64)));
    EXPECT_GE(m.low, -limit);
    EXPECT_LE(m.high, limit);
    EXPECT_NEAR(m.low, -limit, 0.01 * limit);
    EXPECT_NEAR(m.high, limit, 0.01 * limit);
    EXPECT_NEAR(m.deviation, limit / std::sqrt(3), 0.03 * limit);
  }
}

TEST(InitializersTest, HesDeviationComesFromTheFanIn) {
  for (const auto& [shape, fan_in] :
       {std::pair<Shape, double>{{50, 100}, 50}, {{100, 50}, 100}, {{3, 40, 60}, 40}}) {
    SCOPED_TRACE(ShapeToString(shape));
    const double deviation = std::sqrt(2 / fan_in);
    const Moments m = MomentsOf(Initial(HeNormal(shape, F64)));
    EXPECT_NEAR(m.mean, 0, 0.05 * deviation);
    EXPECT_NEAR(m.deviation, deviation, 0.04 * deviation);
  }
}

TEST(InitializersTest, SeedsGiveOtherNumbersAndTheSameSeedTheSame) {
  const Tensor a = Initial(GlorotUniform({4, 4}), 1), b = Initial(GlorotUniform({4, 4}), 1),
               c = Initial(GlorotUniform({4, 4}), 2);
  EXPECT_TRUE(std::ranges::equal(a.values<float>(), b.values<float>()));
  EXPECT_FALSE(std::ranges::equal(a.values<float>(), c.values<float>()));
}

TEST(InitializersTest, EmptyAndScalarShapesHaveNoFans) {
  EXPECT_EQ(Initial(GlorotUniform({0, 5})).num_elements(), 0);
  EXPECT_EQ(Initial(HeNormal({5, 0})).num_elements(), 0);
  EXPECT_LE(std::abs(Initial(GlorotUniform({}, F64)).Scalar().value()), std::sqrt(6. / 2));
}

}  // namespace
}  // namespace meshwork
