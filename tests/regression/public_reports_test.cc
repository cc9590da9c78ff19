// Wrong numbers that were reported of other systems, class by class: sizes, meshes, layouts and dtypes are drawn, and
// the reference is a plain loop in double. These are here, and in training_reports_test.cc, because the tests of the
// rooms compare with one device, which has the same kernels:
//
//   1. means of shards of different size, and empty ones         MeansOfUnevenShards
//   2. dynamic slices and updates whose starts are clamped       DynamicSlicesAlongAShardedDim
//   3. views across shards, two axes on a dim                    ViewsAcrossShards
//   4. sharded tables: ids that repeat, their gradients          LookupsInShardedTables
//   5. rolls with one element per device                         RollsOfOneElementPerDevice
//   6. a loss over a sharded vocabulary, one device all -inf     LossesOverAShardedVocabulary
//   7. batch norm of few rows on many replicas                   training_reports_test.cc
//   8. tied, frozen and unused variables under ZeRO, saved and restored by other numbers of processes: the same
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "regression/drawn_case.h"

namespace meshwork::public_reports_test {
namespace {

using Numbers = DrawnCase::Numbers;

constexpr DType kReals[] = {F64, F32, BF16};

// The sums of x over `dims`, and how many terms each has.
Numbers SumOver(const Numbers& x, const Shape& shape, const std::vector<int64_t>& dims, Shape& kept) {
  kept.clear();
  for (int64_t d = 0; d < std::ssize(shape); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(shape[static_cast<size_t>(d)]);
  Numbers sums(static_cast<size_t>(NumElements(kept)), 0);
  for (int64_t i = 0; i < NumElements(shape); ++i) {
    Shape to;
    for (int64_t d = 0; d < std::ssize(shape); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end())
        to.push_back(IndexAt(shape, i)[static_cast<size_t>(d)]);
    sums[static_cast<size_t>(Position(kept, to))] += x[static_cast<size_t>(i)];
  }
  return sums;
}

TEST(PublicReportsTest, MeansOfUnevenShards) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    DrawnCase c(seed, seed % 2 == 0 ? "a=3,b=4" : "a=1,b=4", kReals[seed % 3]);
    const Shape shape = c.DrawShape(c.Between(1, 3), 11);
    const Numbers numbers = c.DrawNumbers(NumElements(shape));
    const Value x = c.Input("x", shape, numbers);
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (c.OneIn(2)) dims.push_back(d);
    if (dims.empty()) dims.push_back(c.Below(x.rank()));
    Shape kept;
    Numbers means = SumOver(numbers, shape, dims, kept);
    const double terms = static_cast<double>(NumElements(shape)) / static_cast<double>(NumElements(kept));
    for (double& mean : means) mean /= terms;
    const Value mean = ReduceMean(x, dims);
    c.Output("mean", mean, kept, means);
    // d/dx of the sum of the means.
    if (c.OneIn(2))
      c.Output("dx", Gradients(ReduceSum(mean), {x})[0], shape, Numbers(numbers.size(), 1 / terms));
    EXPECT_EQ(c.Error(), "") << "seed " << seed;
  }
}

TEST(PublicReportsTest, DynamicSlicesAlongAShardedDim) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    DrawnCase c(seed, seed % 2 == 0 ? "a=4" : "a=2,b=3", kReals[seed % 3]);
    const Shape shape = c.DrawShape(c.Between(1, 3), 9);
    const int64_t d = c.Below(std::ssize(shape)), n = shape[static_cast<size_t>(d)];
    Shape window = shape;
    const int64_t size = window[static_cast<size_t>(d)] = c.Between(1, n);
    const int64_t asked = c.Between(-3, n + 3), start = std::clamp<int64_t>(asked, 0, n - size);
    LayoutSpec pins(shape.size(), UNSHARDED);
    pins[static_cast<size_t>(d)] =
        c.graph().mesh().num_axes() == 2 && c.OneIn(2) ? DimSpec({"b", "a"}) : DimSpec("a");
    const Numbers numbers = c.DrawNumbers(NumElements(shape)), other = c.DrawNumbers(NumElements(window));
    const Value x = c.Input("x", shape, numbers, pins);
    const Value update = c.Input("update", window, other);
    const Value at = c.Indices("at", {1}, {static_cast<double>(asked)}, {UNSHARDED});
    Numbers slice(other.size()), updated = numbers, gradient(numbers.size(), 0);
    for (int64_t i = 0; i < NumElements(window); ++i) {
      Shape from = IndexAt(window, i);
      from[static_cast<size_t>(d)] += start;
      const auto p = static_cast<size_t>(Position(shape, from));
      slice[static_cast<size_t>(i)] = numbers[p];
      updated[p] = other[static_cast<size_t>(i)];
      gradient[p] = other[static_cast<size_t>(i)];
    }
    const Value found = DynamicSlice(x, at, {d}, {size});
    c.Output("slice", found, window, slice);
    Value y = DynamicUpdateSlice(x, update, at, {d});
    if (c.OneIn(2)) y = WithLayout(y, pins);
    c.Output("updated", y, shape, updated);
    c.Output("dx", Gradients(ReduceSum(found * update), {x})[0], shape, gradient);
    EXPECT_EQ(c.Error(), "") << "seed " << seed << ", start " << asked;
  }
}

// Another shape with this many elements.
Shape OtherShape(DrawnCase& c, int64_t elements) {
  Shape shape;
  while (elements > 1 && std::ssize(shape) < 3) {
    std::vector<int64_t> divisors;
    for (int64_t i = 2; i <= elements; ++i)
      if (elements % i == 0) divisors.push_back(i);
    shape.push_back(divisors[static_cast<size_t>(c.Below(std::ssize(divisors)))]);
    elements /= shape.back();
  }
  shape.push_back(elements);
  return shape;
}

TEST(PublicReportsTest, ViewsAcrossShards) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const std::string_view meshes[] = {"a=2,b=2", "a=2,b=3", "a=4,b=2"};
    DrawnCase c(seed, meshes[seed % 3], seed % 2 == 0 ? F64 : F32);
    const Shape shape = c.DrawShape(c.Between(1, 3), 8);
    Numbers numbers = c.DrawNumbers(NumElements(shape));
    LayoutSpec pins(shape.size(), UNSHARDED);
    pins[static_cast<size_t>(c.Below(std::ssize(shape)))] =
        c.OneIn(2) ? DimSpec({"a", "b"}) : DimSpec({"b", "a"});
    Value x = c.Input("x", shape, numbers, pins);
    for (int64_t step = c.Between(1, 3); step > 0; --step) {
      const Shape view = OtherShape(c, NumElements(shape));
      x = Reshape(x, view);
      if (c.OneIn(2)) x = WithLayout(x, c.DrawPins(std::ssize(view)));
      std::vector<int64_t> order(view.size());
      for (size_t d = 0; d < view.size(); ++d) order[d] = static_cast<int64_t>(view.size() - 1 - d);
      Shape turned(view.rbegin(), view.rend());
      Numbers moved(numbers.size());
      for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        Shape index = IndexAt(view, i);
        std::reverse(index.begin(), index.end());
        moved[static_cast<size_t>(Position(turned, index))] = numbers[static_cast<size_t>(i)];
      }
      x = Transpose(x, order);
      numbers = std::move(moved);
    }
    c.Output("y", x, x.shape(), numbers);
    EXPECT_EQ(c.Error(), "") << "seed " << seed;
  }
}

TEST(PublicReportsTest, LookupsInShardedTables) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const std::string_view meshes[] = {"a=2,b=2", "a=3,b=2", "a=4,b=2"};
    DrawnCase c(seed, meshes[seed % 3], kReals[seed % 2]);
    const int64_t rows = c.Between(1, 9), columns = c.Between(1, 5), count = c.Between(1, 24);
    const Numbers table = c.DrawNumbers(rows * columns), scale = c.DrawNumbers(count * columns);
    Numbers ids, found, gradient(table.size(), 0);
    const int64_t different = c.Between(1, rows);  // few, so that they repeat
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = c.Below(different);
      ids.push_back(static_cast<double>(id));
      for (int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<size_t>(id * columns + j);
        found.push_back(table[at]);
        gradient[at] += scale[static_cast<size_t>(i * columns + j)];
      }
    }
    const bool of_rows = c.OneIn(2);
    const Value t =
        c.Input("table", {rows, columns}, table, {of_rows ? DimSpec({"a", "b"}) : DimSpec("a"), UNSHARDED});
    const Value i = c.Indices("ids", {count}, ids, {c.OneIn(3) ? DimSpec("b") : DimSpec({"a", "b"})});
    const Value s = c.Input("scale", {count, columns}, scale);
    const Value y = Gather(t, i, 0);
    c.Output("y", y, {count, columns}, found);
    Value dt = Gradients(ReduceSum(y * s), {t})[0];
    if (c.OneIn(2)) dt = WithLayout(dt, {DimSpec("a"), UNSHARDED});
    c.Output("dt", dt, {rows, columns}, gradient);
    EXPECT_EQ(c.Error(), "") << "seed " << seed;
  }
}

TEST(PublicReportsTest, RollsOfOneElementPerDevice) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    const std::string_view meshes[] = {"a=5", "a=2,b=3", "a=3,b=4"};
    DrawnCase c(seed, meshes[seed % 3], kReals[seed % 2]);
    const bool both = c.graph().mesh().num_axes() == 2 && c.OneIn(2);
    const int64_t of_a = c.graph().mesh().axis(0).size,
                  n = both ? of_a * c.graph().mesh().axis(1).size : of_a;
    const Shape shape = {c.Between(1, 3), n};
    const int64_t shift = c.Between(-2 * n, 2 * n);
    const Numbers numbers = c.DrawNumbers(NumElements(shape));
    Numbers rolled(numbers.size());
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < n; ++j)
        rolled[static_cast<size_t>(i * n + ((j + shift) % n + n) % n)] =
            numbers[static_cast<size_t>(i * n + j)];
    const Value x = c.Input("x", shape, numbers, {UNSHARDED, both ? DimSpec({"b", "a"}) : DimSpec("a")});
    c.Output("y", Roll(x, shift, 1), shape, rolled);
    EXPECT_EQ(c.Error(), "") << "seed " << seed << ", shift " << shift;
  }
}

TEST(PublicReportsTest, LossesOverAShardedVocabulary) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  for (uint64_t seed = 0; seed < 90; ++seed) {
    const int64_t model = 2 + static_cast<int64_t>(seed % 3);
    DrawnCase c(seed, fmt::format("batch={},model={}", 1 + seed % 2, model), kReals[seed % 2]);
    const int64_t rows = c.Between(1, 5), block = c.Between(1, 3), words = model * block;
    Numbers logits = c.DrawNumbers(rows * words), labels, losses, gradient;
    const int64_t dark = c.Below(model);  // the device whose words are masked
    double loss = 0;
    for (int64_t r = 0; r < rows; ++r) {
      double* row = logits.data() + r * words;
      std::fill_n(row + dark * block, block, kNothing);
      int64_t label = c.Below(words);
      while (label / block == dark) label = c.Below(words);
      labels.push_back(static_cast<double>(label));
      double sum = 0;
      for (int64_t w = 0; w < words; ++w) sum += std::exp(row[w]);
      loss += (std::log(sum) - row[label]) / static_cast<double>(rows);
      for (int64_t w = 0; w < words; ++w)
        gradient.push_back((std::exp(row[w]) / sum - (w == label ? 1 : 0)) / static_cast<double>(rows));
    }
    const Value x = c.Input("logits", {rows, words}, logits, {"batch", "model"});
    const Value y = c.Indices("labels", {rows}, labels, {"batch"});
    const Value found = SparseSoftmaxCrossEntropy(x, y);
    c.Output("loss", found, {}, {loss});
    c.Output("dlogits", Gradients(found, {x})[0], {rows, words}, gradient);
    EXPECT_EQ(c.Error(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace meshwork::public_reports_test
