#include "ops/kernels/philox.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>

#ifdef __FAST_MATH__
#error "philox.cc: random values must be bitwise the same everywhere; compile without -ffast-math."
#endif
static_assert(FLT_EVAL_METHOD == 0,
              "random values need float and double arithmetic without excess precision");

namespace meshwork {
namespace {

// Constants of the paper, table 2 and section 3.3: the multipliers, and the steps of the key's Weyl
// sequence (the golden ratio and sqrt(3) - 1).
constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kStep0 = 0x9E3779B9, kStep1 = 0xBB67AE85;
constexpr int kRounds = 10;

constexpr uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

inline PhiloxCounter Rounds(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * c[0], product1 = kMultiplier1 * c[2];
    c = {High(product1) ^ c[1] ^ k[0], Low(product1), High(product0) ^ c[3] ^ k[1], Low(product0)};
    k = {k[0] + kStep0, k[1] + kStep1};
  }
  return c;
}

inline PhiloxCounter BlockAt(uint64_t seed, uint64_t stream, uint64_t index) {
  return Rounds({Low(index), High(index), Low(stream), High(stream)}, {Low(seed), High(seed)});
}

// The first 53 bits of two words.
inline uint64_t Bits53(uint32_t high, uint32_t low) { return (uint64_t{high} << 32 | low) >> 11; }

// 24 and 53 bits convert and scale exactly.
inline float UniformOf(const PhiloxCounter& block, float) {
  return static_cast<float>(block[0] >> 8) * 0x1p-24f;
}
inline double UniformOf(const PhiloxCounter& block, double) {
  return static_cast<double>(Bits53(block[0], block[1])) * 0x1p-53;
}

// log x = k log 2 + log m, x = 2^k m, m in [sqrt(1/2), sqrt(2)). With f = m - 1 and s = f / (2 + f),
// |s| < 0.1716: log m = 2 artanh s = 2s + s (2/3 s^2 + 2/5 s^4 + …) = f - s (f - (2/3 s^2 + …)),
// since 2s = f - s f. The series stops where a term is below 2^-60 of the sum.
inline double Log(double x) {
  constexpr uint64_t kSqrtHalf = 0x3FE6A09E667F3BCC;  // the bits of sqrt(1/2), rounded down
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
  // log 2 in two parts, the first with 32 bits, so that k times it is exact.
  constexpr double kLog2High = 0x1.62e42feep-1, kLog2Low = 0x1.a39ef35793c76p-33;

  const uint64_t bits = std::bit_cast<uint64_t>(x) - kSqrtHalf;
  const double k = static_cast<double>(static_cast<int64_t>(bits) >> 52);
  const double m = std::bit_cast<double>((bits & kMantissa) + kSqrtHalf);
  const double f = m - 1, s = f / (2 + f), z = s * s;
  double series = 2.0 / 25;
  for (int n = 23; n >= 3; n -= 2) series = series * z + 2.0 / n;
  return k * kLog2High + (f - (s * (f - series * z) - k * kLog2Low));
}

// 4 turns = q + r with q whole and r in [-1/2, 1/2], both exact; then cos or sin of r pi/2 by their
// series, |r pi/2| <= pi/4, up to the term below 2^-60 of the sum.
inline double CosTurns(double turns) {
  constexpr double kHalfPi = 0x1.921fb54442d18p+0;

  const double quarters = 4 * turns;
  const int q = static_cast<int>(quarters + 0.5);
  const double angle = (quarters - q) * kHalfPi;
  const double z = angle * angle;

  // 1 - z/2 (1 - z/(3·4) (1 - z/(5·6) (…)))
  double cosine = 1;
  for (int n = 18; n >= 4; n -= 2) cosine = 1 - z * cosine * (1.0 / (n * (n - 1)));
  cosine = 1 - 0.5 * z * cosine;
  // angle - angle z/(2·3) (1 - z/(4·5) (1 - …))
  double sine = 1;
  for (int n = 19; n >= 5; n -= 2) sine = 1 - z * sine * (1.0 / (n * (n - 1)));
  sine = angle - angle * (z * sine * (1.0 / 6));

  const double magnitude = q & 1 ? sine : cosine;
  return q == 1 || q == 2 ? -magnitude : magnitude;  // cos(x + q pi/2) for q = 0 … 4
}

inline double NormalOf(const PhiloxCounter& block, double) {
  const double u = static_cast<double>(Bits53(block[0], block[1]) + 1) * 0x1p-53;  // (0, 1]: log is finite
  const double v = static_cast<double>(Bits53(block[2], block[3])) * 0x1p-53;
  return std::sqrt(-2 * Log(u)) * CosTurns(v);
}
inline float NormalOf(const PhiloxCounter& block, float) {
  return static_cast<float>(NormalOf(block, double{}));
}

template <typename T>
void FillUniformRun(uint64_t seed, uint64_t stream, uint64_t first_index, T low, T high, std::span<T> out) {
  const T range = high - low, last = std::nextafter(high, low);
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = std::min(low + UniformOf(BlockAt(seed, stream, first_index + j), T{}) * range, last);
}

template <typename T>
void FillNormalRun(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev, std::span<T> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = mean + stddev * NormalOf(BlockAt(seed, stream, first_index + j), T{});
}

}  // namespace

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) { return Rounds(counter, key); }

PhiloxCounter PhiloxAt(uint64_t seed, uint64_t stream, uint64_t index) {
  return BlockAt(seed, stream, index);
}

float UniformF32(uint64_t seed, uint64_t stream, uint64_t index) {
  return UniformOf(BlockAt(seed, stream, index), float{});
}
double UniformF64(uint64_t seed, uint64_t stream, uint64_t index) {
  return UniformOf(BlockAt(seed, stream, index), double{});
}
float NormalF32(uint64_t seed, uint64_t stream, uint64_t index) {
  return NormalOf(BlockAt(seed, stream, index), float{});
}
double NormalF64(uint64_t seed, uint64_t stream, uint64_t index) {
  return NormalOf(BlockAt(seed, stream, index), double{});
}

void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, float low, float high,
                 std::span<float> out) {
  FillUniformRun(seed, stream, first_index, low, high, out);
}
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, double low, double high,
                 std::span<double> out) {
  FillUniformRun(seed, stream, first_index, low, high, out);
}
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float stddev,
                std::span<float> out) {
  FillNormalRun(seed, stream, first_index, mean, stddev, out);
}
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, double mean, double stddev,
                std::span<double> out) {
  FillNormalRun(seed, stream, first_index, mean, stddev, out);
}

double PortableLog(double x) { return Log(x); }
double PortableCosTurns(double turns) { return CosTurns(turns); }

}  // namespace meshwork
