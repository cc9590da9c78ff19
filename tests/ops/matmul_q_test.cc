// matmul_q against sums in double of numbers that this file takes from the blocks by itself.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ops/ops.h"
#include "ops/apply.h"
#include "support/interpreter.h"

namespace meshwork::matmul_q_test {
namespace {

using Numbers = std::vector<double>;

struct Matrix {
  int64_t n, blocks;
  HostTensor q, scale, zero;
  bool has_zero;
  Numbers numbers;  // [n, 32 blocks]
  Numbers sizes;    // |d q| + |z| of each

  std::vector<HostTensor> Parts() const {
    return has_zero ? std::vector<HostTensor>{q, scale, zero} : std::vector<HostTensor>{q, scale};
  }
};

Matrix DrawMatrix(std::mt19937& random, int64_t n, int64_t blocks, int bits, bool has_zero) {
  const int64_t bytes = bits == 8 ? 32 : 16;
  Numbers q, scale, zero, numbers, sizes;
  for (int64_t i = 0; i < n * blocks * bytes; ++i)
    q.push_back(static_cast<double>(random() % 256) - (bits == 8 ? 128 : 0));
  for (int64_t i = 0; i < n * blocks; ++i) {
    scale.push_back(std::ldexp(static_cast<double>(random() % 2048) - 1024, -16));
    zero.push_back(std::ldexp(static_cast<double>(random() % 2048) - 1024, -11));
  }
  for (int64_t b = 0; b < n * blocks; ++b) {
    for (int64_t i = 0; i < 32; ++i) {
      const double byte = q[static_cast<size_t>(b * bytes + i % bytes)];
      const double high = std::floor(byte / 16), whole = bits == 8 ? byte : i < 16 ? byte - 16 * high : high;
      numbers.push_back(static_cast<float>(whole * scale[b] + (has_zero ? zero[b] : 0)));
      sizes.push_back(std::abs(whole * scale[b]) + (has_zero ? std::abs(zero[b]) : 0));
    }
  }
  return {n,
          blocks,
          HostTensor({bits == 8 ? I8 : U8, {n, blocks, bytes}}, q),
          HostTensor({F16, {n, blocks}}, scale),
          HostTensor({F16, {n, blocks}}, zero),
          has_zero,
          numbers,
          sizes};
}

// The products of the rows of x, each with the sum of the absolute values of its terms, x d q and x z.
struct Sums {
  Numbers sums, sizes;
};
Sums SumsOf(const Numbers& x, const Matrix& w) {
  const int64_t k = 32 * w.blocks, rows = k == 0 ? 0 : std::ssize(x) / k;
  Sums result;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < w.n; ++c) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double factor = x[static_cast<size_t>(r * k + i)];
        sum += factor * w.numbers[static_cast<size_t>(c * k + i)];
        size += std::abs(factor) * w.sizes[static_cast<size_t>(c * k + i)];
      }
      result.sums.push_back(sum);
      result.sizes.push_back(size);
    }
  }
  return result;
}

HostTensor Multiply(const HostTensor& x, const Matrix& w, const std::vector<int64_t>& cuts = {}) {
  Shape result(x.type().shape.begin(), x.type().shape.end() - 2);
  result.push_back(w.n);
  std::vector<HostTensor> operands = {x};
  for (const HostTensor& part : w.Parts()) operands.push_back(part);
  return Apply("matmul_q", operands, {}, {x.type().dtype, result}, cuts);
}

// The bits of a dtype's numbers, and so the error of a sum of products in terms of the sizes of these.
double ErrorOf(DType dtype) { return dtype == F64 ? 1e-15 : dtype == F32 ? 5e-7 : 4e-3; }

void ExpectProduct(std::mt19937& random, DType dtype, const Shape& batch, const Matrix& w) {
  Shape shape = batch;
  shape.insert(shape.end(), {w.blocks, 32});
  const HostTensor x({dtype, shape}, Draw(random, NumElements(shape), -1, 1, false));
  const Sums expected = SumsOf(x.Numbers(), w);
  const HostTensor found = Multiply(x, w);
  const Numbers numbers = found.Numbers();
  ASSERT_EQ(numbers.size(), expected.sums.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    ASSERT_LE(std::abs(numbers[i] - expected.sums[i]), ErrorOf(dtype) * expected.sizes[i])
        << x.type().ToString() << " " << w.q.type().ToString() << " at " << i;
  EXPECT_EQ(Multiply(x, w, DrawCuts(random, w.n * NumElements(batch))), found);
}

TEST(MatmulQTest, MultipliesByTheNumbersOfTheBlocks) {
  std::mt19937 random(1);
  for (const int bits : {8, 4}) {
    for (const bool has_zero : {false, true}) {
      // Few rows, as many as tiles have, and one more and less; then rows that are worth a panel.
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 24, 25, 70})
        ExpectProduct(random, F32, {rows}, DrawMatrix(random, 7, 3, bits, has_zero));
      // Columns of several tiles and panels; more blocks than a part of a sum.
      for (const int64_t rows : {1, 2, 8, 30}) {
        ExpectProduct(random, F32, {rows}, DrawMatrix(random, 131, 2, bits, has_zero));
        ExpectProduct(random, F32, {rows}, DrawMatrix(random, 3, 300, bits, has_zero));
      }
      for (const DType dtype : {BF16, F64})
        for (const int64_t rows : {1, 8, 30})
          ExpectProduct(random, dtype, {rows}, DrawMatrix(random, 9, 2, bits, has_zero));
      ExpectProduct(random, F32, {2, 3, 2}, DrawMatrix(random, 5, 2, bits, has_zero));
      ExpectProduct(random, BF16, {300}, DrawMatrix(random, 5, 2, bits, has_zero));
    }
  }
}

// One row, which becomes whole numbers: blocks of numbers of all magnitudes, and numbers of all magnitudes in a block.
TEST(MatmulQTest, OneRowMayHaveNumbersOfAnyMagnitude) {
  std::mt19937 random(4);
  for (const int bits : {8, 4}) {
    for (int trial = 0; trial < 50; ++trial) {
      const Matrix w = DrawMatrix(random, 5, 1 + trial % 40, bits, trial % 2 == 0);
      Numbers x = Draw(random, 32 * w.blocks, -1, 1, false);
      std::vector<double> largest(static_cast<size_t>(w.blocks), 0);
      for (size_t i = 0; i < x.size(); ++i) {
        if (i % 32 == 0 || trial % 3 == 0) largest[i / 32] = static_cast<int>(random() % 200) - 120;
        x[i] = static_cast<float>(std::ldexp(x[i], static_cast<int>(largest[i / 32])));
      }
      const Sums expected = SumsOf(x, w);
      const Numbers found = Multiply(HostTensor({F32, {1, w.blocks, 32}}, x), w).Numbers();
      for (size_t c = 0; c < found.size(); ++c)
        ASSERT_LE(std::abs(found[c] - expected.sums[c]), 5e-7 * expected.sizes[c] + 1e-30) << trial;
    }
  }
}

TEST(MatmulQTest, OneRowMayHaveInfinitiesAndNans) {
  std::mt19937 random(5);
  for (const double special : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    const Matrix w = DrawMatrix(random, 6, 3, 8, true);
    Numbers x = Draw(random, 96, -1, 1, false);
    x[50] = special;
    const Numbers found = Multiply(HostTensor({F32, {1, 3, 32}}, x), w).Numbers();
    for (size_t c = 0; c < 6; ++c) {
      const double expected = special * w.numbers[c * 96 + 50];
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(found[c]) : found[c] == expected) << c;
    }
  }
}

TEST(MatmulQTest, NoRowsGiveNothing) {
  std::mt19937 random(1);
  EXPECT_EQ(Multiply(HostTensor({F32, {0, 2, 32}}), DrawMatrix(random, 3, 2, 8, false)),
            HostTensor({F32, {0, 3}}));
}

TEST(MatmulQTest, GivesZerosForNoBlocks) {
  std::mt19937 random(1);
  for (const DType dtype : {F32, F64, BF16})
    for (const int64_t rows : {1, 40})
      EXPECT_EQ(Multiply(HostTensor({dtype, {rows, 0, 32}}), DrawMatrix(random, 3, 0, 4, true)),
                HostTensor({dtype, {rows, 3}}, Numbers(static_cast<size_t>(3 * rows), 0)));
}

// A sum of four million equal terms, which float loses one by one.
TEST(MatmulQTest, AddsLongSumsInParts) {
  constexpr int64_t kBlocks = 1 << 17;
  Matrix w = {1,
              kBlocks,
              HostTensor({I8, {1, kBlocks, 32}}, Numbers(32 * kBlocks, 1)),
              HostTensor({F16, {1, kBlocks}}, Numbers(kBlocks, 1)),
              HostTensor({F16, {1, kBlocks}}),
              false,
              {},
              {}};
  constexpr float kTerm = 0.1f;
  const HostTensor x({F32, {1, kBlocks, 32}}, Numbers(32 * kBlocks, kTerm));
  EXPECT_NEAR(Multiply(x, w).Numbers()[0], 32.0 * kBlocks * double{kTerm}, 5e-6 * 32 * kBlocks * kTerm);
}

// Operands of a graph of one device, by their names.
struct Built {
  Graph g{Mesh()};
  Value q, scale, zero;
  NumbersByName feeds;

  explicit Built(const Matrix& w) {
    q = Feed("q", w.q);
    scale = Feed("scale", w.scale);
    if (w.has_zero) zero = Feed("zero", w.zero);
  }
  Value Feed(const std::string& name, const HostTensor& tensor) {
    feeds[name] = tensor.Numbers();
    return g.Input(name, tensor.type().dtype, tensor.type().shape);
  }
  Numbers Run(const Value& value) {
    g.Output("value", value);
    EXPECT_EQ(g.status(), absl::OkStatus());
    return Interpret(g, feeds).outputs.at("value").Numbers();
  }
};

TEST(MatmulQTest, DequantizesTheNumbersOfTheBlocks) {
  std::mt19937 random(2);
  for (const int bits : {8, 4}) {
    for (const bool has_zero : {false, true}) {
      const Matrix w = DrawMatrix(random, 5, 3, bits, has_zero);
      Built built(w);
      EXPECT_EQ(built.Run(DequantizeMatrix(built.q, built.scale, built.zero)), w.numbers);
    }
  }
}

TEST(MatmulQTest, HasTheGradientByX) {
  std::mt19937 random(3);
  for (const bool has_zero : {false, true}) {
    const Matrix w = DrawMatrix(random, 5, 2, 4, has_zero);
    Built built(w);
    const Value x = built.Feed("x", HostTensor({F64, {2, 3, 64}}, Draw(random, 384, -1, 1, false)));
    const HostTensor weights({F64, {2, 3, 5}}, Draw(random, 30, -1, 1, false));
    const Value y = MatMulQ(x, built.q, built.scale, built.zero);
    EXPECT_EQ(y.type().ToString(), "f64[2,3,5]");
    const Value loss = ReduceSum(y * built.Feed("weights", weights), {0, 1, 2});
    const Numbers found = built.Run(Gradients(loss, {x})[0]), given = weights.Numbers();
    ASSERT_EQ(found.size(), 384u);
    for (size_t row = 0; row < 6; ++row) {
      for (size_t i = 0; i < 64; ++i) {
        double slope = 0;
        for (size_t c = 0; c < 5; ++c) slope += given[row * 5 + c] * w.numbers[c * 64 + i];
        EXPECT_NEAR(found[row * 64 + i], slope, 1e-13);
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::matmul_q_test
