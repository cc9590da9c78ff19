#include "meshwork/train/nn/initializers.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/runtime/tensor/tensor_compare.h"
#include "meshwork/session/session.h"

namespace meshwork::initializers_test {
namespace {

using ::testing::Each;

// The initial value of a variable with this initializer.
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

TEST(InitializersTest, VariancesAreThoseOfTheirPapers) {
  const Shape shape = {150, 50};
  for (const auto& [made, variance] : {std::pair<Initializer, double>{GlorotUniform(shape, F64), 2. / 200},
                                       {GlorotNormal(shape, F64), 2. / 200},
                                       {HeUniform(shape, F64), 2. / 150},
                                       {HeNormal(shape, F64), 2. / 150},
                                       {LecunUniform(shape, F64), 1. / 150},
                                       {LecunNormal(shape, F64), 1. / 150},
                                       {LecunNormal(shape, F64, Fans{16, 4}), 1. / 16},
                                       {GlorotNormal(shape, F64, Fans{16, 4}), 2. / 20}}) {
    const Moments m = MomentsOf(Initial(made));
    EXPECT_NEAR(m.mean, 0, 4 * std::sqrt(variance / 7500));
    EXPECT_NEAR(m.deviation * m.deviation / variance, 1, 4 * std::sqrt(2. / 7500));
  }
}

TEST(InitializersTest, FansOfFiltersCountPositionsAndGroups) {
  const Fans whole = FansOfFilter({3, 5, 8, 12}), grouped = FansOfFilter({3, 5, 2, 12}, 4),
             vector = FansOfFilter({7});
  EXPECT_EQ(whole.in, 15 * 8);
  EXPECT_EQ(whole.out, 15 * 12);
  EXPECT_EQ(grouped.in, 15 * 2);
  EXPECT_EQ(grouped.out, 15 * 3);
  EXPECT_EQ(vector.in, 7);
}

TEST(InitializersTest, TruncatedNormalStaysWithinTwoDeviations) {
  const Moments m = MomentsOf(Initial(TruncatedNormalRandom({100, 100}, 5, 2, F64)));
  EXPECT_GE(m.low, 1);
  EXPECT_LE(m.high, 9);
  EXPECT_NEAR(m.mean, 5, 0.08);
  EXPECT_NEAR(m.deviation, 2 * 0.8796, 0.06);  // of a standard normal cut at ±2
}

TEST(InitializersTest, OrthogonalHasOrthogonalColumnsOrRows) {
  for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{5, 5}, Shape{2, 3, 4}, Shape{3}}) {
    SCOPED_TRACE(ShapeToString(shape));
    const Tensor matrix = Initial(Orthogonal(shape, 2, F64));
    const int64_t columns = shape.back(), rows = matrix.num_elements() / columns;
    const bool is_wide = columns > rows;
    const int64_t vectors = is_wide ? rows : columns, length = is_wide ? columns : rows;
    const auto at = [&](int64_t vector, int64_t i) {
      return matrix.values<double>()[is_wide ? vector * columns + i : i * columns + vector];
    };
    for (int64_t a = 0; a < vectors; ++a) {
      for (int64_t b = 0; b < vectors; ++b) {
        double product = 0;
        for (int64_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        EXPECT_NEAR(product, a == b ? 4 : 0, 1e-12);
      }
    }
  }
  EXPECT_EQ(Initial(Orthogonal({3, 5}, 1, BF16)).dtype(), BF16);
  EXPECT_EQ(Initial(Orthogonal({0, 5}, 1, F64)).num_elements(), 0);
}

// The shape of the recurrent kernel of an Lstm of 512 units. All workers compute it together.
TEST(InitializersTest, OrthogonalOfManyUnitsIsTheSameForAnyNumberOfWorkers) {
  constexpr int64_t kUnits = 512, kColumns = 4 * kUnits;
  const auto initial = [&](int workers, const std::string& mesh) {
    Graph g(Mesh::VirtualCpus(mesh).value());
    g.Var("w", Orthogonal({kUnits, kColumns}), {UNSHARDED, "model"});
    return Session::Create(g, {.workers = workers})->Get("w").value();
  };
  const Tensor matrix = initial(1, "model=1");
  const auto values = matrix.values<float>();
  for (int64_t a = 0; a < kUnits; a += 31) {
    for (int64_t b = 0; b < kUnits; ++b) {
      double product = 0;
      for (int64_t c = 0; c < kColumns; ++c)
        product += static_cast<double>(values[a * kColumns + c]) * values[b * kColumns + c];
      ASSERT_NEAR(product, a == b ? 1 : 0, 1e-5);
    }
  }
  EXPECT_TRUE(AllEqual(initial(3, "model=1"), matrix).ok());
  EXPECT_TRUE(AllEqual(initial(2, "batch=2,model=2"), matrix).ok());
}

TEST(InitializersTest, OrthogonalIsAsLikelyOneWayAsTheOther) {
  // LAPACK makes r's diagonal negative more often than not. With the signs undone, each element of q has mean 0.
  double sum = 0;
  constexpr int kSeeds = 100;
  for (int seed = 0; seed < kSeeds; ++seed)
    sum += Initial(Orthogonal({2, 2}, 1, F64), seed).values<double>()[0];
  EXPECT_NEAR(sum / kSeeds, 0, 4 * std::sqrt(0.5 / kSeeds));
}

}  // namespace
}  // namespace meshwork::initializers_test
