// Exponentials, logarithms, tanh and the error function of float as straight lines of sums, products and
// selections, which compilers vectorise; a double is left to the C library.
//
// A function gives the same bits for the same number in a vector of any width and in the remainder of a loop,
// and on every machine, because each of its operations is rounded as IEEE 754 says and none are fused
// (base/cpu_dispatch.h). It is within 2.5 ulp of the exact value (erfc: 7) everywhere, also if the value is
// subnormal; NaN stays NaN, and infinities, zeros and their signs are those of the C standard, annex F.
//
// Arguments are reduced as by Cody and Waite, "Software Manual for the Elementary Functions" (1980); see
// Muller et al., "Handbook of Floating-Point Arithmetic", 2nd ed. (2018), chapter 10, for this and for the
// polynomials, which are the best ones by Remez' algorithm for the relative error, found for this file.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace meshwork::portable {

inline double Exp(double x) { return std::exp(x); }
inline double Expm1(double x) { return std::expm1(x); }
inline double Log(double x) { return std::log(x); }
inline double Log1p(double x) { return std::log1p(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Erf(double x) { return std::erf(x); }
inline double Erfc(double x) { return std::erfc(x); }

namespace vector_math {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLog2E = 1.44269504f;
// log 2 = kLog2High + kLog2Low; the first has 9 bits, so that a whole number of up to 15 bits times it is
// exact.
inline constexpr float kLog2High = 355.0f / 512, kLog2Low = -2.12194440e-4f;

// c0 + c1 x + c2 x² + …
template <typename... Rest>
float Polynomial(float x, float c0, Rest... rest) {
  if constexpr (sizeof...(rest) == 0) return c0;
  else return c0 + x * Polynomial(x, rest...);
}

// x = n log 2 + r, |r| <= log(2) / 2.
struct Reduced {
  float n, r;
  uint32_t biased;  // n + 254 in its lower 22 bits
};
// REQUIRES: |x| is at most 2^15 or x is NaN.
inline Reduced ReduceByLog2(float x) {
  constexpr float kRound = 0x1.8p23f + 254;  // numbers of this size are whole
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  return {n, (x - n * kLog2High) - n * kLog2Low, std::bit_cast<uint32_t>(shifted)};
}

// exp(x + low), low being tiny.
inline float ExpOfSum(float x, float low) {
  x = x < -104.0f ? -104.0f : x;  // 0
  x = x > 89.0f ? 89.0f : x;      // infinity
  const Reduced reduced = ReduceByLog2(x);
  const float r = reduced.r + low;
  const float q = Polynomial(r, 0.499999934f, 0.166665201f, 0.0416683942f, 0.00836878041f, 0.0013814467f);
  const float p = 1.0f + (r + r * r * q);
  // 2^n as a product, because it may not be a normal number. The halves of n + 254 are biased exponents.
  const uint32_t half = reduced.biased >> 1, rest = reduced.biased - half;
  return p * std::bit_cast<float>(half << 23) * std::bit_cast<float>(rest << 23);
}

// exp(r) - 1 for |r| <= log(2) / 2, exact near 0.
inline float Expm1OfReduced(float r) {
  const float q = Polynomial(r, 0.500000005f, 0.166666668f, 0.0416663535f, 0.00833327283f, 0.00139411023f,
                             0.000199143019f);
  return r + r * r * q;
}

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), where x is positive, normal and finite.
struct Split {
  float f;
  int32_t k;
};
inline Split SplitExponent(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3;  // the bits of sqrt(1/2)
  const auto bits = std::bit_cast<uint32_t>(x);
  const int32_t k = static_cast<int32_t>(bits - kSqrtHalf) >> 23;
  return {std::bit_cast<float>(bits - (static_cast<uint32_t>(k) << 23)) - 1.0f, k};
}

// k log 2 + log(1 + f), for f as of SplitExponent.
inline float LogOfSplit(float f, float k) {
  const float p = Polynomial(f, 0.333333104f, -0.249999866f, 0.200022263f, -0.166692519f, 0.142186638f,
                             -0.123843347f, 0.118729261f, -0.11789866f, 0.0691554024f);
  const float square = f * f;
  return k * kLog2High + (f + ((square * f * p + k * kLog2Low) - 0.5f * square));
}

// exp(x²) erfc(x) for x >= 0.
inline float ScaledErfc(float x) {
  const float t = 1.0f / (1.0f + 0.375f * x);
  return t * Polynomial(t - 0.5f, 0.398145264f, 0.625756682f, 0.755127678f, 0.655576392f, 0.333849124f,
                        -0.00995310128f, -0.142475763f, -0.0410174356f, 0.0613173526f);
}
// erfc(x) for x >= 0.
inline float ErfcOfSize(float x) {
  x = x > 10.1f ? 10.1f : x;  // 0 from there on, as exp(-x²) is
  // x² = square + rest exactly enough: the error of a square of this size would be the exponential's.
  const float high = std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xfffff000u);
  const float square = high * high, rest = (x - high) * (x + high);
  return ScaledErfc(x) * ExpOfSum(-square, -rest);
}
// erf(x) for |x| <= 1.
inline float ErfOfSmall(float x) {
  const float y = x * x;
  return x + x * Polynomial(y, 0.128379166f, -0.376126258f, 0.112835851f, -0.0268538119f, 0.00518832766f,
                            -0.000801019345f, 7.85386078e-05f);
}

}  // namespace vector_math

// -0, because x + -0 is x for every x, and so costs nothing.
inline float Exp(float x) { return vector_math::ExpOfSum(x, -0.0f); }

// exp(x) - 1, exact near 0.
inline float Expm1(float x) {
  float within = x < -20.0f ? -20.0f : x;    // -1
  within = within > 89.0f ? 89.0f : within;  // infinity
  const vector_math::Reduced reduced = vector_math::ReduceByLog2(within);
  // 2^(n-1), which is a number also where 2^n is too large.
  const auto half = std::bit_cast<float>((reduced.biased - 128u) << 23);
  const float result = 2.0f * (half * vector_math::Expm1OfReduced(reduced.r) + (half - 0.5f));
  return std::fabs(x) < 0x1p-25f ? x : result;  // also of subnormal numbers and of -0
}

inline float Log(float x) {
  using vector_math::kInf, vector_math::kNaN;
  const bool subnormal = x < std::numeric_limits<float>::min();
  const vector_math::Split split = vector_math::SplitExponent(subnormal ? x * 0x1p23f : x);
  const float result =
      vector_math::LogOfSplit(split.f, static_cast<float>(split.k) - (subnormal ? 23.0f : 0.0f));
  const float special = x == 0.0f ? -kInf : (x < 0.0f ? kNaN : x);
  return x > 0.0f && x < kInf ? result : special;
}

inline float Log1p(float x) {
  using vector_math::kInf, vector_math::kNaN;
  // u + rest = 1 + x (Knuth's sum of two).
  const float u = 1.0f + x, back = u - 1.0f;
  const float rest = (1.0f - (u - back)) + (x - back);
  const vector_math::Split split = vector_math::SplitExponent(u);
  const float scale = std::bit_cast<float>(0x3f800000u - (static_cast<uint32_t>(split.k) << 23));  // 2^-k
  const float f = split.f + (split.k < 64 ? rest * scale : 0.0f);  // beyond, 1 is nothing
  const float result = vector_math::LogOfSplit(f, static_cast<float>(split.k));
  const float special = x == -1.0f ? -kInf : (x < -1.0f ? kNaN : x);
  const float limited = x > -1.0f && x < kInf ? result : special;
  return std::fabs(x) < 0x1p-25f ? x : limited;  // also of -0
}

// log(1 + x) for x in [0, 1].
inline float Log1pOfUnit(float x) {
  const bool halves = x > 0.414213562f;
  return vector_math::LogOfSplit(halves ? (x - 1.0f) * 0.5f : x, halves ? 1.0f : 0.0f);
}
inline double Log1pOfUnit(double x) { return std::log1p(x); }

// exp(2|x|) - 1 over itself plus 2.
inline float Tanh(float x) {
  float size = std::fabs(x);
  size = size > 10.0f ? 10.0f : size;  // 1
  const vector_math::Reduced reduced = vector_math::ReduceByLog2(size + size);
  const float scale = std::bit_cast<float>((reduced.biased - 127u) << 23);  // 2^n
  const float e = scale * vector_math::Expm1OfReduced(reduced.r) + (scale - 1.0f);
  return std::copysign(e / (e + 2.0f), x);
}

inline float Erf(float x) {
  const float size = std::fabs(x);
  const float large = 1.0f - vector_math::ErfcOfSize(size);
  return size < 1.0f ? vector_math::ErfOfSmall(x) : std::copysign(large, x);
}

inline float Erfc(float x) {
  const float tail = vector_math::ErfcOfSize(std::fabs(x));
  return x < 0.0f ? 2.0f - tail : tail;
}

}  // namespace meshwork::portable
