// Draws of classes against their probabilities, and the kept classes against plain loops in double precision.
#include "meshwork/ops/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::sampling_test {
namespace {

using ::testing::Each;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

Numbers SoftmaxOf(const Numbers& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  Numbers p;
  for (const double x : logits) p.push_back(std::exp(x - most));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

Numbers Draws(DType dtype, int64_t rows, const Numbers& logits, const Numbers& step = {}) {
  Graph g{Mesh()};
  const Value row = g.Input("x", dtype, {static_cast<int64_t>(logits.size())}, {UNSHARDED});
  const Value x = BroadcastTo(row, {rows, static_cast<int64_t>(logits.size())}, {1});
  const Value at = step.empty() ? Value() : g.Input("step", I64, {}, {});
  g.Output("y", RandomCategorical(x, /*seed=*/17, /*stream=*/3, at));
  EXPECT_TRUE(g.status().ok()) << g.status();
  std::map<std::string, Numbers> feeds = {{"x", logits}};
  if (!step.empty()) feeds["step"] = step;
  return Interpret(g, feeds).outputs.at("y").Numbers();
}

TEST(RandomCategoricalTest, ClassesComeAsOftenAsTheyAreLikely) {
  constexpr int64_t kRows = 40'000;
  for (const Numbers& logits :
       {Numbers{0, 1, -2, 0.5, -kInf, 3}, Numbers{-4, -4}, Numbers{50, 50, 42}, Numbers{7}}) {
    const Numbers p = SoftmaxOf(logits);
    for (const DType dtype : {F32, F64, BF16}) {
      Numbers counts(logits.size());
      for (const double drawn : Draws(dtype, kRows, logits)) ++counts[static_cast<size_t>(drawn)];
      for (size_t c = 0; c < p.size(); ++c)  // five standard errors
        EXPECT_NEAR(counts[c] / kRows, p[c], 5 * std::sqrt(p[c] * (1 - p[c]) / kRows))
            << c << " of " << DTypeName(dtype);
    }
  }
}

TEST(RandomCategoricalTest, EachStepDrawsAnew) {
  const Numbers logits(10, 0.0), one = Draws(F32, 1000, logits, {1});
  EXPECT_EQ(Draws(F32, 1000, logits, {1}), one);
  const Numbers two = Draws(F32, 1000, logits, {2});
  int same = 0;
  for (size_t i = 0; i < one.size(); ++i) same += one[i] == two[i];
  EXPECT_NEAR(same, 100, 50);
  EXPECT_THAT(Draws(F32, 5, Numbers(3, -kInf)), Each(0));
}

// The rows of numbers of [rows,c].
std::vector<Numbers> RowsOf(const Numbers& all, size_t c) {
  std::vector<Numbers> rows;
  for (size_t i = 0; i < all.size(); i += c) rows.emplace_back(all.begin() + i, all.begin() + i + c);
  return rows;
}

// `rows` rows of c logits, of which some are equal and some -∞.
Numbers RandomLogits(size_t rows, size_t c, std::mt19937& random) {
  Numbers all;
  for (size_t i = 0; i < rows * c; ++i) {
    const double x = std::normal_distribution<>(0, 3)(random);
    all.push_back(random() % 8 == 0 ? -kInf : random() % 3 == 0 ? std::round(x) : static_cast<float>(x));
  }
  for (size_t i = 0; i < all.size(); i += c) all[i] = 0;  // one at least is a number
  return all;
}

Numbers Kept(const Numbers& logits, size_t c, const std::function<Value(const Value&)>& keep) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F32, {static_cast<int64_t>(logits.size() / c), static_cast<int64_t>(c)});
  g.Output("y", keep(x));
  EXPECT_TRUE(g.status().ok()) << g.status();
  return Interpret(g, {{"x", logits}}).outputs.at("y").Numbers();
}

TEST(KeepTest, TheLikelyClassesStay) {
  std::mt19937 random(5);
  for (const size_t c : {1u, 2u, 7u, 40u}) {
    const Numbers logits = RandomLogits(30, c, random);
    const std::vector<Numbers> rows = RowsOf(logits, c);
    for (const double p : {1e-9, 0.3, 0.9, 1.0}) {
      const std::vector<Numbers> kept =
          RowsOf(Kept(logits, c, [&](const Value& x) { return KeepTopP(x, p); }), c);
      for (size_t r = 0; r < rows.size(); ++r) {
        if (p == 1) {
          EXPECT_EQ(kept[r], rows[r]);
        }
        Numbers sorted = rows[r];
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        const Numbers likely = SoftmaxOf(sorted);
        double before = 0, least = sorted[0], margin = 1;
        for (size_t i = 0; i < c; before += likely[i++]) {
          margin = std::min(margin, std::abs(before - p));
          if (before < p) least = sorted[i];
        }
        if (margin < 1e-6) continue;  // rounding decides
        for (size_t i = 0; i < c; ++i)
          EXPECT_EQ(kept[r][i], rows[r][i] >= least ? rows[r][i] : -kInf) << p << " " << r << " " << i;
      }
    }
    for (const size_t k : {size_t{1}, (c + 1) / 2, c}) {
      const std::vector<Numbers> kept =
          RowsOf(Kept(logits, c, [&](const Value& x) { return KeepTopK(x, static_cast<int64_t>(k)); }), c);
      for (size_t r = 0; r < rows.size(); ++r) {
        Numbers sorted = rows[r];
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        for (size_t i = 0; i < c; ++i)
          EXPECT_EQ(kept[r][i], rows[r][i] >= sorted[k - 1] ? rows[r][i] : -kInf)
              << k << " " << r << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::sampling_test
