// The Fourier transform in terms of rows: products with small matrices of roots of unity, so that
// partitioning and gradients follow from those.
//
// A transform of n = n1 n2 is n2 transforms of n1, twiddle factors, and n1 transforms of n2 (Cooley and
// Tukey, 1965), where x's index is i1 n2 + i2 and the result's k1 + n1 k2. It is split until no factor is
// above 64, or none is left: that is n times the sum of the factors in operations, and n² for a prime. Roots
// are of whole turns counted exactly, so that errors do not grow with n.
#include <cmath>
#include <numbers>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

constexpr int64_t kDirect = 64;

// exp(∓2πi jk / n) for j of [rows], k of [columns].
Complex Roots(Graph& graph, DType dtype, int64_t rows, int64_t columns, int64_t n, bool inverse) {
  const Type type{I64, {rows, columns}};
  const auto places = [&](int64_t dim) { return OfGivenSizes(Iota(graph, type, dim), "fft"); };
  const Value turns = Remainder(Mul(places(0), places(1)), static_cast<double>(n));
  const Value angle = Cast(turns, F64) * (2 * std::numbers::pi / static_cast<double>(n));
  const Value re = Cast(Cos(angle), dtype), im = Cast(Sin(angle), dtype);
  return {re, inverse ? im : Neg(im)};
}

Complex Times(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// x: [batch,n] times the matrix.
Complex ComplexProduct(const Complex& x, const Complex& m) {
  return {MatMul(x.re, m.re) - MatMul(x.im, m.im), MatMul(x.re, m.im) + MatMul(x.im, m.re)};
}

Complex Reshaped(const Complex& x, const Shape& shape) {
  return {Reshape(x.re, shape), Reshape(x.im, shape)};
}
Complex Swapped(const Complex& x) { return {Transpose(x.re, {0, 2, 1}), Transpose(x.im, {0, 2, 1})}; }

// The factor of n nearest to its root from below; 1 of a prime.
int64_t FactorOf(int64_t n) {
  auto factor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % factor != 0) --factor;
  return factor;
}

// x: [batch,n].
Complex Transform(const Complex& x, bool inverse) {
  Graph& graph = *x.re.graph();
  const DType dtype = x.re.dtype();
  const int64_t batch = x.re.shape()[0], n = x.re.shape()[1];
  const int64_t n1 = n <= kDirect ? 1 : FactorOf(n), n2 = n / n1;
  if (n1 == 1) return ComplexProduct(x, Roots(graph, dtype, n, n, n, inverse));
  // [batch,i1,i2] -> [batch,i2,k1]
  const Complex columns = Swapped(Reshaped(x, {batch, n1, n2}));
  Complex inner = Transform(Reshaped(columns, {batch * n2, n1}), inverse);
  inner = Times(Reshaped(inner, {batch, n2, n1}), Roots(graph, dtype, n2, n1, n, inverse));
  // -> [batch,k1,k2] -> [batch,k2,k1]
  const Complex outer = Transform(Reshaped(Swapped(inner), {batch * n1, n2}), inverse);
  return Reshaped(Swapped(Reshaped(outer, {batch, n1, n2})), {batch, n});
}

}  // namespace

Complex Fft(const Operand& re, const Operand& im, int64_t dim, bool inverse) {
  const ResolvedOperands at = Resolve({re, im});
  if (at.graph == nullptr) return {};
  const Type type = at.values[0].type();
  if ((type.dtype != F32 && type.dtype != F64) || type != at.values[1].type() || type.num_elements() == 0) {
    RecordMistake(at, "fft", "re is {}, im {}; they must be f32 or f64 of one type that is not empty.",
                  type.ToString(), at.values[1].type().ToString());
    return {};
  }
  const std::optional<int64_t> d = CountDim(at, "fft", dim);
  if (!d.has_value()) return {};
  const LocationScope scope(*at.graph, at.location);
  const int64_t n = type.shape[static_cast<size_t>(*d)];
  // The dim to the end, the others before it.
  std::vector<int64_t> there, back(type.shape.size());
  for (int64_t i = 0; i < type.rank(); ++i)
    if (i != *d) there.push_back(i);
  there.push_back(*d);
  for (size_t i = 0; i < there.size(); ++i) back[static_cast<size_t>(there[i])] = static_cast<int64_t>(i);
  Shape moved;
  for (int64_t i : there) moved.push_back(type.shape[static_cast<size_t>(i)]);
  const auto rows = [&](const Value& x) {
    return Reshape(Transpose(x, there), {type.num_elements() / n, n});
  };
  const Complex y = Transform({rows(at.values[0]), rows(at.values[1])}, inverse);
  const auto result = [&](const Value& x) {
    const Value placed = Transpose(Reshape(x, moved), back);
    return inverse ? placed * (1 / static_cast<double>(n)) : placed;
  };
  return {result(y.re), result(y.im)};
}

}  // namespace meshwork
