// The CPU's kernels of matrices that are large enough for blocks, against products in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <new>
#include <random>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/blas/library_threads.h"
#include "meshwork/ops/kernels/blas/small_matrices.h"

namespace meshwork::linalg_kernels_test {
namespace {

class ThreadsTeam : public Team {
 public:
  // `lacks_memory`: the first call of member() throws. A qr calls it when a member allocates for its first matrix.
  ThreadsTeam(int size, int member, std::barrier<>& barrier, void** first, bool lacks_memory)
      : size_(size), member_(member), barrier_(barrier), first_(first), lacks_memory_(lacks_memory) {}
  int size() const override { return size_; }
  int member() const override {
    if (std::exchange(lacks_memory_, false)) throw std::bad_alloc();
    return member_;
  }
  void Meet() override { barrier_.arrive_and_wait(); }
  void* FromFirst(void* pointer) override {
    if (member_ == 0) *first_ = pointer;
    Meet();
    void* const first = *first_;
    Meet();
    return first;
  }

 private:
  const int size_, member_;
  std::barrier<>& barrier_;
  void** const first_;
  mutable bool lacks_memory_;
};

template <typename T>
constexpr DType kDType = std::is_same_v<T, float> ? F32 : F64;

// A batch of matrices.
template <typename T>
struct Matrices {
  int64_t count, rows, columns;
  std::vector<T> values = std::vector<T>(static_cast<size_t>(count * rows * columns));

  T* of(int64_t i) { return values.data() + i * rows * columns; }
  const T* of(int64_t i) const { return values.data() + i * rows * columns; }
  double at(int64_t i, int64_t row, int64_t column) const { return of(i)[row * columns + column]; }
  Type type() const { return {kDType<T>, {count, rows, columns}}; }
};

// `team`: the number of threads that run the kernel; 0: the caller alone, with one call per unit.
// `lacks_memory`: the member that has no memory for the first unit; -1: none. Returns the members that threw.
template <typename T>
std::vector<int> RunRow(std::string_view op, const Attrs& attrs, const std::vector<const Matrices<T>*>& in,
                        const std::vector<Matrices<T>*>& out, int team, int lacks_memory = -1) {
  KernelSpec spec{.attrs = attrs};
  std::vector<const void*> in_data;
  std::vector<void*> out_data;
  for (const Matrices<T>* m : in) {
    spec.operands.push_back({m->type(), m->type()});
    in_data.push_back(m->values.data());
  }
  for (Matrices<T>* m : out) {
    spec.results.push_back({m->type(), m->type()});
    out_data.push_back(m->values.data());
  }
  const Kernel kernel = CpuKernelOf(GetOp(op))(spec);
  if (team == 0) {
    const SingleThreadedLibraries one;
    for (int64_t u = 0; u < kernel.units; ++u)
      kernel.run({.in = in_data, .out = out_data, .begin = u, .end = u + 1});
    return {};
  }
  EXPECT_TRUE(kernel.by_team);
  std::barrier<> barrier(team);
  void* first = nullptr;
  std::vector<std::thread> threads;
  std::vector<char> threw(static_cast<size_t>(team), 0);
  for (int member = 0; member < team; ++member) {
    threads.emplace_back([&, member] {
      const SingleThreadedLibraries one;
      ThreadsTeam mine(team, member, barrier, &first, member == lacks_memory);
      try {
        kernel.run({.in = in_data, .out = out_data, .begin = 0, .end = kernel.units, .team = &mine});
      } catch (const std::bad_alloc&) {
        threw[static_cast<size_t>(member)] = 1;
      }
      barrier.arrive_and_wait();  // as the workers of a pool do behind each kernel
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> members;
  for (int member = 0; member < team; ++member)
    if (threw[static_cast<size_t>(member)] != 0) members.push_back(member);
  return members;
}

template <typename T>
Matrices<T> DrawMatrices(int64_t count, int64_t rows, int64_t columns) {
  Matrices<T> x{count, rows, columns};
  std::mt19937_64 engine(5);
  for (T& value : x.values) value = static_cast<T>(static_cast<double>(engine() % 2000003) / 1000001 - 1);
  return x;
}

template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-5 : 2e-13;

template <typename T>
struct Decomposed {
  Matrices<T> q, r;
};
template <typename T>
Decomposed<T> QrOf(const Matrices<T>& x, int team = 0) {
  const int64_t k = std::min(x.rows, x.columns);
  Decomposed<T> d{{x.count, x.rows, k}, {x.count, k, x.columns}};
  std::fill(d.q.values.begin(), d.q.values.end(), std::numeric_limits<T>::quiet_NaN());
  std::fill(d.r.values.begin(), d.r.values.end(), std::numeric_limits<T>::quiet_NaN());
  RunRow<T>("qr", {}, {&x}, {&d.q, &d.r}, team);
  return d;
}

// q r = x, qᵀ q = 1, r is upper. `scales`: of x's columns.
template <typename T>
void ExpectDecomposed(const Matrices<T>& x, const Decomposed<T>& d, const std::vector<double>& scales = {}) {
  SCOPED_TRACE(x.type().ToString());
  const int64_t k = d.q.columns;
  double product = 0, unit = 0, below = 0;
  for (int64_t b = 0; b < x.count; ++b) {
    for (int64_t c = 0; c < x.columns; ++c) {
      const double scale = scales.empty() ? 1 : scales[static_cast<size_t>(c)];
      for (int64_t i = 0; i < k; ++i)
        if (i > c) below = std::max(below, std::fabs(d.r.at(b, i, c)));
      for (int64_t i = 0; i < x.rows; ++i) {
        double sum = -x.at(b, i, c) / scale;
        for (int64_t j = 0; j <= std::min(c, k - 1); ++j) sum += d.q.at(b, i, j) * (d.r.at(b, j, c) / scale);
        product = std::isnan(sum) ? sum : std::max(product, std::fabs(sum));
      }
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = i == j ? -1 : 0;
        for (int64_t row = 0; row < x.rows; ++row) sum += d.q.at(b, row, i) * d.q.at(b, row, j);
        unit = std::isnan(sum) ? sum : std::max(unit, std::fabs(sum));
      }
    }
  }
  EXPECT_LT(product, kTolerance<T>);
  EXPECT_LT(unit, kTolerance<T>);
  EXPECT_EQ(below, 0);
}

template <typename T>
void ExpectDecomposesAllShapes() {
  // Whole panels and partial ones; one block of rows and several; tall, square and wide matrices.
  for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{64, 64},
                                                                     {65, 64},
                                                                     {128, 128},
                                                                     {129, 130},
                                                                     {300, 150},
                                                                     {1100, 70},
                                                                     {513, 200},
                                                                     {70, 300},
                                                                     {200, 260}}) {
    const Matrices<T> x = DrawMatrices<T>(1, m, n);
    ExpectDecomposed(x, QrOf(x));
  }
  const Matrices<T> batch = DrawMatrices<T>(3, 90, 70);
  ExpectDecomposed(batch, QrOf(batch));
}

TEST(LinalgKernelsTest, QrDecomposesAllShapesInF32) { ExpectDecomposesAllShapes<float>(); }
TEST(LinalgKernelsTest, QrDecomposesAllShapesInF64) { ExpectDecomposesAllShapes<double>(); }

TEST(LinalgKernelsTest, QrHasTheSignsOfTheLoops) {
  const Matrices<double> x = DrawMatrices<double>(1, 150, 140);
  const Decomposed<double> blocked = QrOf(x);
  Decomposed<double> loops = blocked;
  Decompose(x.of(0), x.rows, x.columns, loops.q.of(0), loops.r.of(0));
  for (size_t i = 0; i < loops.q.values.size(); ++i)
    ASSERT_NEAR(blocked.q.values[i], loops.q.values[i], 1e-11);
  for (size_t i = 0; i < loops.r.values.size(); ++i)
    ASSERT_NEAR(blocked.r.values[i], loops.r.values[i], 1e-11);
}

// Equal columns leave smaller and smaller remainders, whose squares underflow.
template <typename T>
Matrices<T> Dependent(int64_t rows, int64_t columns) {
  Matrices<T> x = DrawMatrices<T>(1, rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < columns; ++c)
      if (c % 3 == 0) x.of(0)[i * columns + c] = x.of(0)[i * columns];
      else if (c % 7 == 1) x.of(0)[i * columns + c] = 0;
  return x;
}

TEST(LinalgKernelsTest, QrOfDependentColumnsIsOrthonormal) {
  const Matrices<float> single = Dependent<float>(520, 200), wide = Dependent<float>(140, 400);
  ExpectDecomposed(single, QrOf(single));
  ExpectDecomposed(wide, QrOf(wide));
  const Matrices<double> exact = Dependent<double>(300, 260);
  ExpectDecomposed(exact, QrOf(exact));
  const Matrices<float> zeros{1, 130, 100};
  ExpectDecomposed(zeros, QrOf(zeros));
}

TEST(LinalgKernelsTest, QrOfHugeAndTinyColumnsDoesNotOverflow) {
  Matrices<float> x = DrawMatrices<float>(1, 140, 100);
  std::vector<double> scales;
  for (int64_t c = 0; c < x.columns; ++c) scales.push_back(std::ldexp(1.0, static_cast<int>(c % 5 - 2) * 50));
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t c = 0; c < x.columns; ++c)
      x.of(0)[i * x.columns + c] *= static_cast<float>(scales[static_cast<size_t>(c)]);
  ExpectDecomposed(x, QrOf(x), scales);
}

TEST(LinalgKernelsTest, QrOfWhatIsNotFiniteIsNaN) {
  for (const float special :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Matrices<float> x = DrawMatrices<float>(1, 140, 100);
    x.of(0)[70 * x.columns + 3] = special;
    EXPECT_TRUE(std::isnan(QrOf(x).q.values.back()));
  }
}

TEST(LinalgKernelsTest, TeamsOfAnySizeGiveTheSameBits) {
  const Matrices<float> tall = DrawMatrices<float>(2, 700, 200), wide = DrawMatrices<float>(1, 200, 700);
  for (const Matrices<float>& x : {tall, wide}) {
    const Decomposed<float> alone = QrOf(x);
    ExpectDecomposed(x, alone);
    for (const int team : {1, 3}) {
      const Decomposed<float> together = QrOf(x, team);
      EXPECT_EQ(together.q.values, alone.q.values) << team;
      EXPECT_EQ(together.r.values, alone.r.values) << team;
    }
  }
}

// A member that fails leaves no other member waiting, and takes part in the next matrices.
TEST(LinalgKernelsTest, AMemberOfATeamThatLacksMemoryForOneMatrixGoesOnToTheNext) {
  const Matrices<float> x = DrawMatrices<float>(3, 700, 200);
  const Decomposed<float> alone = QrOf(x);
  for (const int fails : {0, 1, 2}) {
    SCOPED_TRACE(fails);
    Decomposed<float> together{{3, 700, 200}, {3, 200, 200}};
    EXPECT_EQ(RunRow<float>("qr", {}, {&x}, {&together.q, &together.r}, /*team=*/3, fails),
              std::vector<int>{fails});
    EXPECT_TRUE(std::equal(together.q.of(1), together.q.of(3), alone.q.of(1)));
    EXPECT_TRUE(std::equal(together.r.of(1), together.r.of(3), alone.r.of(1)));
  }
}

// x = a aᵀ + rows.
template <typename T>
Matrices<T> Positive(int64_t n) {
  const Matrices<T> a = DrawMatrices<T>(1, n, n);
  Matrices<T> x{1, n, n};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = i == j ? static_cast<double>(n) : 0;
      for (int64_t k = 0; k < n; ++k) sum += a.at(0, i, k) * a.at(0, j, k);
      // Elements above the diagonal are not read.
      x.of(0)[i * n + j] = j <= i ? static_cast<T>(sum) : std::numeric_limits<T>::quiet_NaN();
    }
  }
  return x;
}

template <typename T>
void ExpectFactored(int64_t n) {
  SCOPED_TRACE(n);
  const Matrices<T> x = Positive<T>(n);
  Matrices<T> l{1, n, n};
  RunRow<T>("cholesky", {}, {&x}, {&l}, 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k <= j; ++k) sum += l.at(0, i, k) * l.at(0, j, k);
      ASSERT_NEAR(sum, x.at(0, i, j), static_cast<double>(n) * kTolerance<T>);
    }
    for (int64_t j = i + 1; j < n; ++j) ASSERT_EQ(l.at(0, i, j), 0);
  }
}

TEST(LinalgKernelsTest, CholeskyFactors) {
  for (const int64_t n : {40, 128, 129, 300}) {
    ExpectFactored<float>(n);
    ExpectFactored<double>(n);
  }
}

TEST(LinalgKernelsTest, CholeskyOfATeamHasTheSameBitsAndIsNaNWhereItMustBe) {
  constexpr int64_t kSize = 700;
  Matrices<float> x = Positive<float>(kSize), alone{1, kSize, kSize}, together = alone;
  for (const bool is_positive : {true, false}) {
    if (!is_positive) x.of(0)[500 * kSize + 500] = -1;
    RunRow<float>("cholesky", {}, {&x}, {&alone}, 0);
    RunRow<float>("cholesky", {}, {&x}, {&together}, 3);
    if (is_positive) {
      EXPECT_EQ(together.values, alone.values);
    }
    const auto is_nan = [](float value) { return std::isnan(value); };
    EXPECT_EQ(std::all_of(together.values.begin(), together.values.end(), is_nan), !is_positive);
    EXPECT_EQ(std::all_of(alone.values.begin(), alone.values.end(), is_nan), !is_positive);
  }
}

template <typename T>
void ExpectSolves(int64_t n, int64_t columns, bool lower, bool transposed, bool unit) {
  SCOPED_TRACE(fmt::format("{} {} lower={} transposed={} unit={}", n, columns, lower, transposed, unit));
  Matrices<T> a = DrawMatrices<T>(2, n, n), x{2, n, columns};
  const Matrices<T> b = DrawMatrices<T>(2, n, columns);
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T& element = a.of(m)[i * n + j];
        if (i == j) element = unit ? std::numeric_limits<T>::quiet_NaN() : 2 + element;
        else if ((j < i) == lower) element /= static_cast<T>(n);
        else element = std::numeric_limits<T>::quiet_NaN();  // not read
      }
    }
  }
  RunRow<T>("triangular_solve", {{"lower", lower}, {"transpose_a", transposed}, {"unit_diagonal", unit}},
            {&a, &b}, {&x}, 0);
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        double sum = unit ? x.at(m, i, c) : 0;
        for (int64_t k = 0; k < n; ++k) {
          const double factor = transposed ? a.at(m, k, i) : a.at(m, i, k);
          if (!std::isnan(factor)) sum += factor * x.at(m, k, c);
        }
        ASSERT_NEAR(sum, b.at(m, i, c), kTolerance<T>);
      }
    }
  }
}

TEST(LinalgKernelsTest, TriangularSolveSolves) {
  for (const bool lower : {false, true}) {
    for (const bool transposed : {false, true}) {
      for (const bool unit : {false, true}) {
        ExpectSolves<float>(70, 130, lower, transposed, unit);
        ExpectSolves<double>(150, 1, lower, transposed, unit);
        ExpectSolves<double>(20, 3, lower, transposed, unit);
      }
    }
  }
}

}  // namespace
}  // namespace meshwork::linalg_kernels_test
