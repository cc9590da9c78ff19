// Special functions of reals. A portable source.
#pragma once

#include "meshwork/ops/kernels/portable/reals.h"

namespace meshwork::portable {

// The derivative of order n + 1 of log Γ: Abramowitz and Stegun, 6.4. For positive numbers the recurrence
// (6.4.6) up to where the asymptotic series (6.3.18, 6.4.11) holds; for negative ones the reflection (6.4.7),
// with the derivatives of π cot(πx) as polynomials of c = cot(πx): P_0 = c, P_{k+1} = -(1 + c²) P_k'.
template <int size>
struct Polygamma {
  int order;  // at most size - 2
  double factorial;
  double cot[size];  // π^-(order + 1) times the derivative of π cot(πx), by powers of cot(πx)
};

template <int size>
MESHWORK_PORTABLE Polygamma<size> MakePolygamma(int order, double factorial) {
  Polygamma<size> f = {order, factorial, {0, 1}};
  for (int k = 0; k < order; ++k) {
    double next[size] = {};
    for (int i = 1; i < k + 2; ++i) {
      const double slope = -static_cast<double>(i) * f.cot[i];
      next[i - 1] += slope;
      next[i + 1] += slope;
    }
    for (int i = 0; i < k + 3; ++i) f.cot[i] = next[i];
  }
  return f;
}

MESHWORK_PORTABLE double PolygammaOfPositive(int order, double factorial, double x) {
  const double n = order, sign = order % 2 == 0 ? -1 : 1;
  double shifts = 0;
  for (; x < 10 + n; x += 1) shifts += factorial / Pow(x, n + 1);
  if (x == Infinity()) return order == 0 ? x : 0;
  // B_2k / (2k)!
  const double kBernoulli[] = {1.0 / 12,
                               -1.0 / 720,
                               1.0 / 30240,
                               -1.0 / 1209600,
                               1.0 / 47900160,
                               -691.0 / 1307674368000,
                               1.0 / 74724249600,
                               -3617.0 / 10670622842880000,
                               43867.0 / 5109094217170944000,
                               -174611.0 / 802857662698291200000.0};
  // Times (n + 2k - 1)! / x^(n + 2k), which begins with (n + 1)! / x^(n + 2).
  double term = factorial * (n + 1) / Pow(x, n + 2), series = 0;
  for (int k = 0; k < 10; ++k) {
    series += kBernoulli[k] * term;
    const double m = n + 2 * static_cast<double>(k) + 2;
    term *= m * (m + 1) / (x * x);
  }
  if (order == 0) return Log(x) - 0.5 / x - series - shifts;
  return sign * (factorial / n / Pow(x, n) + 0.5 * factorial / Pow(x, n + 1) + series + shifts);
}

template <int size>
MESHWORK_PORTABLE double PolygammaOf(const Polygamma<size>& f, double x) {
  const double pi = 3.14159265358979323846;
  const bool is_odd = f.order % 2 != 0;
  if (x != x || x == -Infinity()) return NotANumber();
  if (x > 0) return PolygammaOfPositive(f.order, f.factorial, x);
  if (x == Floor(x)) return is_odd ? Infinity() : NotANumber();
  const double c = 1 / Tan(pi * (x - NearestAway(x)));
  double polynomial = 0;
  for (int i = f.order + 1; i >= 0; --i) polynomial = polynomial * c + f.cot[i];
  const double mirrored = PolygammaOfPositive(f.order, f.factorial, 1 - x);
  return (is_odd ? -mirrored : mirrored) - Pow(pi, static_cast<double>(f.order + 1)) * polynomial;
}

// Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010), listing 5, within some 1e-7; then two of
// Halley's steps, each of which triples the digits; where erf is near ±1 by erfc, which is exact there.
MESHWORK_PORTABLE double ErfInverse(double x) {
  if (Fabs(x) == 1) return CopySign(Infinity(), x);
  if (!(Fabs(x) < 1)) return NotANumber();
  const double kCentral[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                             -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  const double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                          -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const double w = -Log((1 - x) * (1 + x));
  const double at = w < 5 ? w - 2.5 : Sqrt(w) - 3;
  double p = 0;
  for (int i = 0; i < 9; ++i) p = p * at + (w < 5 ? kCentral[i] : kTail[i]);
  double y = p * x;
  // Giles' is good as far as floats go; beyond, it takes more steps.
  const int steps = Fabs(x) > 1 - 1e-9 ? 8 : 2;
  for (int step = 0; step < steps; ++step) {
    const double off = Fabs(x) < 0.5 ? Erf(y) - x : x > 0 ? (1 - x) - Erfc(y) : Erfc(-y) - (1 + x);
    const double u = off * Exp(y * y) / (2 * 0.56418958354775628695);  // 1 / sqrt(π)
    y -= u / (1 + y * u);
  }
  return y;
}

}  // namespace meshwork::portable
