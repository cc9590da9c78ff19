__device__ inline double PolygammaOfPositive(int order, double factorial, double x) {
  const double n = order, sign = order % 2 == 0 ? -1 : 1;
  double shifts = 0;
  for (; x < 10 + n; x += 1) shifts += factorial / pow(x, n + 1);
  if (x == Infinity()) return order == 0 ? x : 0;
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
  double term = factorial * (n + 1) / pow(x, n + 2), series = 0;
  for (int k = 0; k < 10; ++k) {
    series += kBernoulli[k] * term;
    const double m = n + 2 * (double)k + 2;
    term *= m * (m + 1) / (x * x);
  }
  if (order == 0) return log(x) - 0.5 / x - series - shifts;
  return sign * (factorial / n / pow(x, n) + 0.5 * factorial / pow(x, n + 1) + series + shifts);
}
template <int order> __device__ inline double Polygamma(double x) {
  const double pi = 3.14159265358979323846;
  double factorial = 1;
  for (int k = 2; k <= order; ++k) factorial *= k;
  if (x != x || x == -Infinity()) return NotANumber();
  if (x > 0) return PolygammaOfPositive(order, factorial, x);
  if (x == floor(x)) return order % 2 != 0 ? Infinity() : NotANumber();
  // The derivative of the cotangent as a polynomial of it.
  double cot[order + 2] = {0, 1};
  for (int k = 0; k < order; ++k) {
    double next[order + 2] = {};
    for (int i = 1; i < k + 2; ++i) {
      const double slope = -(double)i * cot[i];
      next[i - 1] += slope;
      next[i + 1] += slope;
    }
    for (int i = 0; i < k + 3; ++i) cot[i] = next[i];
  }
  const double c = 1 / tan(pi * (x - round(x)));
  double polynomial = 0;
  for (int i = order + 1; i >= 0; --i) polynomial = polynomial * c + cot[i];
  const double mirrored = PolygammaOfPositive(order, factorial, 1 - x);
  return (order % 2 != 0 ? -mirrored : mirrored) - pow(pi, (double)(order + 1)) * polynomial;
}
__device__ inline double ErfInverse(double x) {
  if (fabs(x) == 1) return copysign(Infinity(), x);
  if (!(fabs(x) < 1)) return NotANumber();
  const double kCentral[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                             -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  const double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                          -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  const double w = -log((1 - x) * (1 + x));
  const double at = w < 5 ? w - 2.5 : sqrt(w) - 3;
  double p = 0;
  for (int i = 0; i < 9; ++i) p = p * at + (w < 5 ? kCentral[i] : kTail[i]);
  double y = p * x;
  const int steps = fabs(x) > 1 - 1e-9 ? 8 : 2;
  for (int step = 0; step < steps; ++step) {
    const double off = fabs(x) < 0.5 ? erf(y) - x : x > 0 ? (1 - x) - erfc(y) : erfc(-y) - (1 + x);
    const double u = off * exp(y * y) / (2 * 0.56418958354775628695);
    y -= u / (1 + y * u);
  }
  return y;
}
