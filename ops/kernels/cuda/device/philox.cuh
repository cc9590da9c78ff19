struct Philox {
  unsigned word[4];
};
__device__ inline Philox PhiloxAt(unsigned long long seed, unsigned long long stream, unsigned long long index) {
  unsigned c0 = (unsigned)index, c1 = (unsigned)(index >> 32), c2 = (unsigned)stream, c3 = (unsigned)(stream >> 32);
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xD2511F53ULL * c0, product1 = 0xCD9E8D57ULL * c2;
    c0 = (unsigned)(product1 >> 32) ^ c1 ^ k0;
    c1 = (unsigned)product1;
    c2 = (unsigned)(product0 >> 32) ^ c3 ^ k1;
    c3 = (unsigned)product0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}
__device__ inline unsigned long long SeedOfStep(unsigned long long seed, unsigned long long step) {
  const Philox block = PhiloxAt(seed, ~0ULL, step);
  return (unsigned long long)block.word[0] << 32 | block.word[1];
}
__device__ inline unsigned long long Bits53(unsigned high, unsigned low) {
  return ((unsigned long long)high << 32 | low) >> 11;
}
__device__ inline float UniformOf(const Philox& block, float) { return (float)(block.word[0] >> 8) * 0x1p-24f; }
__device__ inline double UniformOf(const Philox& block, double) {
  return (double)Bits53(block.word[0], block.word[1]) * 0x1p-53;
}
template <typename T> __device__ inline T UniformWithin(const Philox& block, T low, T range, T last) {
  const T x = low + UniformOf(block, T()) * range;
  return last < x ? last : x;
}
__device__ inline double PortableLog(double x) {
  const unsigned long long kSqrtHalf = 0x3FE6A09E667F3BCCULL, kMantissa = (1ULL << 52) - 1;
  const unsigned long long bits = (unsigned long long)__double_as_longlong(x) - kSqrtHalf;
  const double k = (double)((long long)bits >> 52);
  const double m = __longlong_as_double((long long)((bits & kMantissa) + kSqrtHalf));
  const double f = m - 1, s = f / (2 + f), z = s * s;
  double series = 2.0 / 25;
  for (int n = 23; n >= 3; n -= 2) series = series * z + 2.0 / n;
  return k * 0x1.62e42feep-1 + (f - (s * (f - series * z) - k * 0x1.a39ef35793c76p-33));
}
__device__ inline double PortableCosTurns(double turns) {
  const double quarters = 4 * turns;
  const int q = (int)(quarters + 0.5);
  const double angle = (quarters - q) * 0x1.921fb54442d18p+0;
  const double z = angle * angle;
  double cosine = 1;
  for (int n = 18; n >= 4; n -= 2) cosine = 1 - z * cosine * (1.0 / (n * (n - 1)));
  cosine = 1 - 0.5 * z * cosine;
  double sine = 1;
  for (int n = 19; n >= 5; n -= 2) sine = 1 - z * sine * (1.0 / (n * (n - 1)));
  sine = angle - angle * (z * sine * (1.0 / 6));
  const double magnitude = q & 1 ? sine : cosine;
  return q == 1 || q == 2 ? -magnitude : magnitude;
}
__device__ inline double NormalOf(const Philox& block) {
  const double u = (double)(Bits53(block.word[0], block.word[1]) + 1) * 0x1p-53;
  const double v = (double)Bits53(block.word[2], block.word[3]) * 0x1p-53;
  return sqrt(-2 * PortableLog(u)) * PortableCosTurns(v);
}
template <int n> __device__ inline double PortablePolynomial(const double (&coefficients)[n], double x) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum = sum * x + coefficients[i];
  return sum;
}
__device__ inline double PortableNormalQuantile(double q) {
  const double kA[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
                       4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                       1.3314166789178437745e+2, 3.3871328727963666080e+0};
  const double kB[] = {
      5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
      5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
  const double kC[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                       1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
                       4.63033784615654529590e+0, 1.42343711074968357734e+0};
  const double kD[] = {
      1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
      6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0};
  const double size = q < 0 ? -q : q;
  if (size <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * PortablePolynomial(kA, r) / PortablePolynomial(kB, r);
  }
  const double r = sqrt(-PortableLog(0.5 - size)) - 1.6;
  const double z = PortablePolynomial(kC, r) / PortablePolynomial(kD, r);
  return q < 0 ? -z : z;
}
__device__ inline double TruncatedNormalOf(const Philox& block) {
  const long long odd = 2 * (long long)Bits53(block.word[0], block.word[1]) + 1 - (1LL << 53);
  const double z = PortableNormalQuantile((double)odd * 0x1p-54 * 0x1.e8b4307d3627ap-1);
  return z < -2.0 ? -2.0 : z > 2.0 ? 2.0 : z;
}
__device__ inline long long WholeOf(const Philox& block, long long low, unsigned long long range) {
  const unsigned long long range_high = range >> 32, range_low = range & 0xffffffff;
  const unsigned long long carry = (range_low * block.word[1]) >> 32;
  const unsigned long long first = range_high * block.word[1] + carry;
  const unsigned long long second = range_low * block.word[0] + (first & 0xffffffff);
  const unsigned long long share = range_high * block.word[0] + (first >> 32) + (second >> 32);
  return (long long)((unsigned long long)low + share);
}
