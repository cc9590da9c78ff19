// The matmul row against a plain loop: batches that broadcast, sums over batches, bf16.
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/kernels/blas/gemm.h"
#include "meshwork/ops/ops.h"
#include "support/interpreter.h"

namespace meshwork::matmul_test {
namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

struct Product {
  Shape a, b, result;
  bool transpose_a = false, transpose_b = false, sum_batch = false;
};

HostTensor Apply(const Product& p, const HostTensor& a, const HostTensor& b, const Ints& cuts = {}) {
  std::vector<TensorPart> out = {HostTensor({a.type().dtype, p.result})};
  const Attrs attrs = {
      {"transpose_a", p.transpose_a}, {"transpose_b", p.transpose_b}, {"sum_batch", p.sum_batch}};
  RunKernel(GetOp("matmul"), Graph::CompleteAttrs(GetOp("matmul"), attrs).value(), {a, b}, out, cuts);
  return out[0].local;
}

// Element [index of the batch, row, column] of a batch that broadcasts to `batch`.
double At(const HostTensor& x, const Shape& batch, int64_t linear, int64_t row, int64_t column) {
  const Shape& shape = x.type().shape;
  const size_t own = shape.size() - 2;
  int64_t at = 0, stride = 1;
  for (size_t d = batch.size(); d-- > batch.size() - own; linear /= batch[d]) {
    const size_t mine = d - (batch.size() - own);
    if (shape[mine] != 1) at += linear % batch[d] * stride;
    stride *= shape[mine];
  }
  return x.Numbers()[(at * shape[own] + row) * shape[own + 1] + column];
}

// The product in extended precision.
Numbers PlainProduct(const Product& p, const HostTensor& a, const HostTensor& b, const Shape& batch) {
  const size_t ra = p.a.size();
  const int64_t m = p.result.end()[-2], n = p.result.end()[-1], k = p.a[ra - (p.transpose_a ? 2 : 1)];
  const int64_t matrices = NumElements(batch);
  std::vector<long double> sums(static_cast<size_t>(NumElements(p.result)), 0);
  for (int64_t t = 0; t < matrices; ++t)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          sums[((p.sum_batch ? 0 : t) * m + i) * n + j] +=
              static_cast<long double>(p.transpose_a ? At(a, batch, t, l, i) : At(a, batch, t, i, l)) *
              (p.transpose_b ? At(b, batch, t, j, l) : At(b, batch, t, l, j));
  return {sums.begin(), sums.end()};
}

HostTensor Draw(std::mt19937& random, const Type& type) {
  Numbers x(static_cast<size_t>(type.num_elements()));
  for (double& v : x) v = static_cast<double>(random() % 9) - 4;  // sums are exact in float
  return HostTensor(type, x);
}

TEST(MatmulTest, MultipliesBatchesAsAPlainLoopDoes) {
  struct Case {
    Shape a, b, batch;  // batch dims
  };
  const std::vector<Case> cases = {{{}, {}, {}},
                                   {{5}, {5}, {5}},
                                   {{5}, {}, {5}},
                                   {{}, {5}, {5}},
                                   {{1}, {5}, {5}},
                                   {{5}, {1}, {5}},
                                   {{2, 3}, {}, {2, 3}},
                                   {{2, 3}, {3}, {2, 3}},
                                   {{2, 3}, {2, 1}, {2, 3}},
                                   {{2, 1}, {3}, {2, 3}},
                                   {{2, 1}, {2, 3}, {2, 3}},
                                   {{1, 3}, {2, 1}, {2, 3}},
                                   {{2, 1, 2}, {3, 1}, {2, 3, 2}},
                                   {{0}, {}, {0}},
                                   {{0}, {1}, {0}},
                                   {{1}, {1}, {1}}};
  std::mt19937 random(1);
  for (const Case& c : cases) {
    for (int bits = 0; bits < 8; ++bits) {
      Product p{c.a, c.b, c.batch, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      if (p.sum_batch && c.a != c.b) continue;
      if (p.sum_batch) p.result.clear();
      const int64_t m = 3, n = 4, k = 5;
      p.a.insert(p.a.end(), {p.transpose_a ? k : m, p.transpose_a ? m : k});
      p.b.insert(p.b.end(), {p.transpose_b ? n : k, p.transpose_b ? k : n});
      p.result.insert(p.result.end(), {m, n});
      for (DType dtype : {F32, F64, BF16}) {
        const HostTensor a = Draw(random, {dtype, p.a}), b = Draw(random, {dtype, p.b});
        SCOPED_TRACE(fmt::format("{} by {}, {}", a.type().ToString(), b.type().ToString(), bits));
        const HostTensor expected({dtype, p.result}, PlainProduct(p, a, b, c.batch));
        ASSERT_EQ(Apply(p, a, b), expected);
        ASSERT_EQ(Apply(p, a, b, {1, 2, 4}), expected);
      }
    }
  }
}

// ---- bf16.

TEST(MatmulTest, ProductsOfBf16AreTiledInEveryDirection) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (const Shape& mnk : {Shape{129, 3, 5}, Shape{3, 257, 5}, Shape{3, 5, 600}, Shape{130, 260, 270}}) {
    for (int bits = 0; bits < 4; ++bits) {
      const bool ta = (bits & 1) != 0, tb = (bits & 2) != 0;
      const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
      HostTensor a({BF16, ta ? Shape{k, m} : Shape{m, k}}), b({BF16, tb ? Shape{n, k} : Shape{k, n}});
      for (HostTensor* x : {&a, &b})
        for (int64_t i = 0; i < x->type().num_elements(); ++i)
          x->data<BFloat16>()[i] = BFloat16(static_cast<float>(draw(random)));
      const Numbers av = a.Numbers(), bv = b.Numbers();
      const HostTensor c = Apply({a.type().shape, b.type().shape, {m, n}, ta, tb}, a, b);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double exact = 0, scale = 0;
          for (int64_t l = 0; l < k; ++l) {
            const double term = (ta ? av[l * m + i] : av[i * k + l]) * (tb ? bv[j * k + l] : bv[l * n + j]);
            exact += term;
            scale += std::abs(term);
          }
          // Half a step for the rounding at the end, plus the rounding errors of float sums.
          const double tolerance = std::abs(exact) * 0x1p-8 + scale * 1e-5;
          ASSERT_NEAR(static_cast<double>(c.data<BFloat16>()[i * n + j]), exact, tolerance) << i << "," << j;
        }
      }
    }
  }
}

TEST(MatmulTest, ProductsOfBf16RoundOnceAtTheEnd) {
  // The sum in float is 1 + 2000 · 2^-9; if each term were rounded to bf16, it would stay 1.
  Numbers ones(2001, 1), small(2001, 0x1p-9);
  small[0] = 1;
  const HostTensor a({BF16, {1, 2001}}, ones), b({BF16, {2001, 1}}, small);
  EXPECT_EQ(Apply({{1, 2001}, {2001, 1}, {1, 1}}, a, b).Number(),
            HostTensor({BF16, {1}}, {1 + 2000 * 0x1p-9}).Numbers()[0]);
}

TEST(GemmTest, OfNoTermsIsZero) {
  const std::vector<float> a(6, 1), b(6, 1);
  std::vector<float> c(4, 7);
  Gemm({.m = 2, .n = 2, .k = 3, .lda = 3, .ldb = 2, .ldc = 2}, {}, a.data(), b.data(), c.data());
  EXPECT_THAT(c, testing::Each(0));
  std::vector<BFloat16> x(6, BFloat16(1)), y(4, BFloat16(7));
  Gemm({.m = 2, .n = 2, .k = 0, .lda = 0, .ldb = 2, .ldc = 2}, std::vector<GemmTerm>(1), x.data(), x.data(),
       y.data());
  for (BFloat16 v : y) EXPECT_EQ(static_cast<float>(v), 0);
}

// ---- What the compiler sees.

std::string RuleText(const std::string& node) {
  const Graph graph =
      ParseGraph("mesh []\nfunc f(%a: f32[8,1,4,6], %b: f32[3,6,5], %c: f32[8,2,4,5]) {\n  %0 = " + node +
                 "\n}\n")
          .value();
  return RuleOf(graph, graph.nodes()[0]).ToString();
}

TEST(MatmulTest, EveryBatchDimHasALetterWhereItDoesNotBroadcast) {
  EXPECT_EQ(RuleText("matmul %a, %b"), "a1mk,bkn->abmn");
  EXPECT_EQ(RuleText("matmul %c, %a transpose_a=true"), "abkm,a1kn->abmn");
  EXPECT_EQ(RuleText("matmul %c, %c transpose_a=true sum_batch=true"), "abkm,abkn->mn");
}

TEST(MatmulTest, TheGradientOfASharedMatrixSumsOverTheBatchInOneProduct) {
  Graph g{Mesh()};
  const Value x = g.Input("x", F32, {8, 4, 6}, {UNSHARDED, UNSHARDED, UNSHARDED});
  const Value w = g.Input("w", F32, {6, 5}, {UNSHARDED, UNSHARDED});
  g.Output("grad", Gradients(ReduceSum(MatMul(x, w), {0, 1, 2}), {w})[0]);
  EXPECT_THAT(PrintGraph(g), testing::HasSubstr("sum_batch=true : f32[6,5]"));
}

}  // namespace
}  // namespace meshwork::matmul_test
