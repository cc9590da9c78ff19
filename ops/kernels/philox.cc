#include "meshwork/ops/kernels/philox.h"

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
  // quarters >= 0, and a call would keep the loop from being vectorised.
  const int q = static_cast<int>(quarters + 0.5);  // NOLINT(bugprone-incorrect-roundings)
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

template <size_t n>
double Polynomial(const double (&coefficients)[n], double x) {  // the constant last
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

// Wichura, AS 241 (1988), PPND16, without the branch of the far tails.
double NormalQuantile(double q) {
  constexpr double kA[] = {2.50908'09287'30122'6727e+3, 3.34305'75583'58812'8105e+4,
                           6.72657'70927'00870'0853e+4, 4.59219'53931'54987'1457e+4,
                           1.37316'93765'50946'1125e+4, 1.97159'09503'06551'4427e+3,
                           1.33141'66789'17843'7745e+2, 3.38713'28727'96366'6080e+0};
  constexpr double kB[] = {5.22649'52788'52854'5610e+3, 2.87290'85735'72194'2674e+4,
                           3.93078'95800'09271'0610e+4, 2.12137'94301'58659'5867e+4,
                           5.39419'60214'24751'1077e+3, 6.87187'00749'20579'0830e+2,
                           4.23133'30701'60091'1252e+1, 1.0};
  constexpr double kC[] = {7.74545'01427'83414'07640e-4, 2.27238'44989'26918'45833e-2,
                           2.41780'72517'74506'11770e-1, 1.27045'82524'52368'38258e+0,
                           3.64784'83247'63204'60504e+0, 5.76949'72214'60691'40550e+0,
                           4.63033'78461'56545'29590e+0, 1.42343'71107'49683'57734e+0};
  constexpr double kD[] = {1.05075'00716'44416'84324e-9, 5.47593'80849'95344'94600e-4,
                           1.51986'66563'61645'71966e-2, 1.48103'97642'74800'74590e-1,
                           6.89767'33498'51000'04550e-1, 1.67638'48301'83803'84940e+0,
                           2.05319'16266'37758'82187e+0, 1.0};
  const double size = q < 0 ? -q : q;
  if (size <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double r = std::sqrt(-Log(0.5 - size)) - 1.6;
  const double z = Polynomial(kC, r) / Polynomial(kD, r);
  return q < 0 ? -z : z;
}

// The middles of 2^53 equal shares of the probability that lies within 2, symmetric around 0.
inline double TruncatedNormalOf(const PhiloxCounter& block) {
  constexpr double kWithinTwo = 0x1.e8b4307d3627ap-1;  // erf(sqrt(2))
  const int64_t odd = 2 * static_cast<int64_t>(Bits53(block[0], block[1])) + 1 - (int64_t{1} << 53);
  const double z = NormalQuantile(static_cast<double>(odd) * 0x1p-54 * kWithinTwo);
  return std::min(std::max(z, -2.0), 2.0);
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

template <typename T>
void FillTruncatedNormalRun(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev,
                            std::span<T> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = mean + stddev * static_cast<T>(TruncatedNormalOf(BlockAt(seed, stream, first_index + j)));
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

void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float stddev,
                         std::span<float> out) {
  FillTruncatedNormalRun(seed, stream, first_index, mean, stddev, out);
}
void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, double mean, double stddev,
                         std::span<double> out) {
  FillTruncatedNormalRun(seed, stream, first_index, mean, stddev, out);
}

void FillBernoulli(uint64_t seed, uint64_t stream, uint64_t first_index, double p, std::span<uint8_t> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = UniformOf(BlockAt(seed, stream, first_index + j), double{}) < p ? 1 : 0;
}

void FillInt(uint64_t seed, uint64_t stream, uint64_t first_index, int64_t low, int64_t high,
             std::span<int64_t> out) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t range_high = range >> 32, range_low = range & 0xffffffff;
  for (size_t j = 0; j < out.size(); ++j) {
    const PhiloxCounter block = BlockAt(seed, stream, first_index + j);
    // The high half of the product, from those of 32 bits; no sum overflows.
    const uint64_t carry = (range_low * block[1]) >> 32;
    const uint64_t first = range_high * block[1] + carry,
                   second = range_low * block[0] + (first & 0xffffffff);
    const uint64_t share = range_high * block[0] + (first >> 32) + (second >> 32);
    out[j] = static_cast<int64_t>(static_cast<uint64_t>(low) + share);
  }
}

uint64_t SeedOfStep(uint64_t seed, uint64_t step) {
  const PhiloxCounter block = BlockAt(seed, ~uint64_t{0}, step);
  return uint64_t{block[0]} << 32 | block[1];
}

double PortableNormalQuantile(double q) { return NormalQuantile(q); }
double PortableLog(double x) { return Log(x); }
double PortableCosTurns(double turns) { return CosTurns(turns); }

}  // namespace meshwork
