// The CPU's kernel of products: where it is cut, and that no cut changes a bit or writes beside its part.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/blas/library_threads.h"

namespace meshwork::matmul_kernel_test {
namespace {

struct Product {
  Shape a, b;
  bool transpose_a = false, transpose_b = false;

  Shape result() const {
    Shape shape(std::max(a, b, [](const Shape& x, const Shape& y) { return x.size() < y.size(); }));
    shape.end()[-2] = a.end()[transpose_a ? -1 : -2];
    shape.end()[-1] = b.end()[transpose_b ? -2 : -1];
    return shape;
  }
  Kernel MakeKernel() const {
    KernelSpec spec;
    for (const Shape* shape : {&a, &b}) spec.operands.push_back({{F32, *shape}, {F32, *shape}});
    spec.results.push_back({{F32, result()}, {F32, result()}});
    spec.attrs = {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}, {"sum_batch", false}};
    return CpuKernelOf(GetOp("matmul"))(spec);
  }
};

std::vector<float> Draw(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> numbers(static_cast<size_t>(NumElements(shape)));
  for (float& x : numbers) x = draw(random);
  return numbers;
}

// Products whose rows are too few to be cut, as those of a text's next token; a batch of few; transposed weights; a
// last slice that is longer than the others.
const Product kFewRows[] = {{{1, 96}, {96, 3000}},
                            {{1, 700}, {500, 700}, false, true},
                            {{8, 96}, {96, 3000}},
                            {{8, 700}, {500, 700}, false, true},
                            {{96, 70}, {96, 1001}, true},
                            {{2, 1, 96}, {2, 96, 3000}},
                            {{3, 5, 700}, {3, 500, 700}, false, true}};

TEST(MatmulKernelTest, CutsTheColumnsOfFewRows) {
  for (const Product& product : kFewRows) {
    const Kernel kernel = product.MakeKernel();
    const Shape result = product.result();
    const int64_t rows = result.end()[-2], columns = result.end()[-1],
                  products = NumElements(result) / rows / columns;
    EXPECT_EQ(kernel.units, products * columns);
    EXPECT_GE(std::ssize(kernel.bounds), 2 * products + 1) << "a product is cut at least once";
    EXPECT_EQ(kernel.by_rows, rows == 1);
  }
}

TEST(MatmulKernelTest, AnyCutGivesTheSameBitsAndWritesNothingElse) {
  const SingleThreadedLibraries one;
  for (const Product& product : kFewRows) {
    const Kernel kernel = product.MakeKernel();
    const std::vector<float> a = Draw(product.a, 1), b = Draw(product.b, 2);
    const std::vector<const void*> in = {a.data(), b.data()};
    const int64_t size = NumElements(product.result());
    const auto run = [&](const std::vector<std::pair<int64_t, int64_t>>& slices) {
      std::vector<float> c(static_cast<size_t>(size) + 1, -99);
      const std::vector<void*> out = {c.data()};
      for (const auto& [begin, end] : slices) kernel.run({.in = in, .out = out, .begin = begin, .end = end});
      return c;
    };
    const std::vector<float> whole = run({{0, kernel.units}});
    EXPECT_EQ(whole.back(), -99);
    EXPECT_EQ(std::count(whole.begin(), whole.end(), -99.0f), 1);
    std::vector<std::pair<int64_t, int64_t>> slices;
    for (size_t i = 0; i + 1 < kernel.bounds.size(); ++i)
      slices.emplace_back(kernel.bounds[i], kernel.bounds[i + 1]);
    EXPECT_EQ(run(slices), whole);
    std::reverse(slices.begin(), slices.end());
    EXPECT_EQ(run(slices), whole);
    // A slice alone writes its columns.
    const auto written = [&](size_t i) {
      const std::vector<float> c = run({slices[i]});
      return size + 1 - std::count(c.begin(), c.end(), -99.0f);
    };
    const Shape result = product.result();
    for (size_t i = 0; i < slices.size(); ++i)
      EXPECT_EQ(written(i), (slices[i].second - slices[i].first) * result.end()[-2]);
  }
}

TEST(MatmulKernelTest, FewRowsAreTheSumsInDouble) {
  const SingleThreadedLibraries one;
  for (const Product& product : kFewRows) {
    const Kernel kernel = product.MakeKernel();
    const std::vector<float> a = Draw(product.a, 3), b = Draw(product.b, 4);
    const Shape result = product.result();
    const int64_t m = result.end()[-2], n = result.end()[-1];
    const int64_t k = product.b.end()[product.transpose_b ? -1 : -2];
    std::vector<float> c(static_cast<size_t>(NumElements(result)));
    const std::vector<const void*> in = {a.data(), b.data()};
    const std::vector<void*> out = {c.data()};
    kernel.run({.in = in, .out = out, .begin = 0, .end = kernel.units});
    for (int64_t i = 0; i < std::ssize(c); ++i) {
      const int64_t product_of = i / (m * n), row = i / n % m, column = i % n;
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum +=
            static_cast<double>(a[product_of * m * k + (product.transpose_a ? l * m + row : row * k + l)]) *
            b[product_of * k * n + (product.transpose_b ? column * k + l : l * n + column)];
      ASSERT_NEAR(c[i], sum, 1e-4) << i;
    }
  }
}

TEST(MatmulKernelTest, CutsRowsWhereThereAreManyOrManyProducts) {
  for (const Product& product : {Product{{512, 64}, {64, 1000}}, Product{{8, 4, 700}, {8, 700, 500}}}) {
    const Shape result = product.result();
    const Kernel kernel = product.MakeKernel();
    EXPECT_TRUE(kernel.by_rows);
    EXPECT_EQ(kernel.units, NumElements(result) / result.end()[-1]);
  }
}

}  // namespace
}  // namespace meshwork::matmul_kernel_test
