// The generator of random numbers and what is drawn from a block of it (ops/kernels/philox.h). Everything is made of
// integer operations and the + - * / sqrt of IEEE 754, so that all CPUs and GPUs draw the same bits. A portable source.
#pragma once

#include "meshwork/ops/kernels/portable/reals.h"

namespace meshwork::portable {

struct Philox {
  unsigned word[4];  // the counter; least significant word first
};

// The multipliers and the steps of the key's Weyl sequence (the golden ratio and sqrt(3) - 1) are those of the paper,
// table 2 and section 3.3.
MESHWORK_PORTABLE Philox PhiloxRounds(Philox counter, unsigned k0, unsigned k1) {
  unsigned c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xD2511F53ULL * c0, product1 = 0xCD9E8D57ULL * c2;
    c0 = static_cast<unsigned>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned>(product1);
    c2 = static_cast<unsigned>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned>(product0);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

MESHWORK_PORTABLE Philox PhiloxAt(unsigned long long seed, unsigned long long stream,
                                  unsigned long long index) {
  const Philox counter = {{static_cast<unsigned>(index), static_cast<unsigned>(index >> 32),
                           static_cast<unsigned>(stream), static_cast<unsigned>(stream >> 32)}};
  return PhiloxRounds(counter, static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
}

// A seed for each value of a counter: the first two words of the block at (seed, stream 2^64 - 1, step). The
// streams of one step do not overlap; those of two steps are as good as unrelated, because their keys differ.
MESHWORK_PORTABLE unsigned long long SeedOfStep(unsigned long long seed, unsigned long long step) {
  const Philox block = PhiloxAt(seed, ~0ULL, step);
  return static_cast<unsigned long long>(block.word[0]) << 32 | block.word[1];
}

// The first 53 bits of two words.
MESHWORK_PORTABLE unsigned long long Bits53(unsigned high, unsigned low) {
  return (static_cast<unsigned long long>(high) << 32 | low) >> 11;
}

// Of the type of the second argument. 24 and 53 bits convert and scale exactly.
MESHWORK_PORTABLE float UniformOf(const Philox& block, float) {
  return static_cast<float>(block.word[0] >> 8) * 0x1p-24f;
}
MESHWORK_PORTABLE double UniformOf(const Philox& block, double) {
  return static_cast<double>(Bits53(block.word[0], block.word[1])) * 0x1p-53;
}
// From low on; `last` is the number before the end, which rounding would give.
template <typename T>
MESHWORK_PORTABLE T UniformWithin(const Philox& block, T low, T range, T last) {
  const T x = low + UniformOf(block, T()) * range;
  return last < x ? last : x;
}

// The natural logarithm, within 1.5 ulp of the true value. REQUIRES: x is positive, normal and finite.
//
// log x = k log 2 + log m, x = 2^k m, m in [sqrt(1/2), sqrt(2)). With f = m - 1 and s = f / (2 + f),
// |s| < 0.1716: log m = 2 artanh s = 2s + s (2/3 s^2 + 2/5 s^4 + …) = f - s (f - (2/3 s^2 + …)),
// since 2s = f - s f. The series stops where a term is below 2^-60 of the sum.
MESHWORK_PORTABLE double PortableLog(double x) {
  const unsigned long long kSqrtHalf = 0x3FE6A09E667F3BCC;  // the bits of sqrt(1/2), rounded down
  const unsigned long long kMantissa = (1ULL << 52) - 1;
  // log 2 in two parts, the first with 32 bits, so that k times it is exact.
  const double kLog2High = 0x1.62e42feep-1, kLog2Low = 0x1.a39ef35793c76p-33;

  const unsigned long long bits = BitsOf(x) - kSqrtHalf;
  const double k = static_cast<double>(static_cast<long long>(bits) >> 52);
  const double m = DoubleOfBits((bits & kMantissa) + kSqrtHalf);
  const double f = m - 1, s = f / (2 + f), z = s * s;
  double series = 2.0 / 25;
  for (int n = 23; n >= 3; n -= 2) series = series * z + 2.0 / n;
  return k * kLog2High + (f - (s * (f - series * z) - k * kLog2Low));
}

// cos(2 pi turns), within 2 ulp of the true value, exact at multiples of 1/4. REQUIRES: 0 <= turns < 1.
//
// 4 turns = q + r with q whole and r in [-1/2, 1/2], both exact; then cos or sin of r pi/2 by their
// series, |r pi/2| <= pi/4, up to the term below 2^-60 of the sum.
MESHWORK_PORTABLE double PortableCosTurns(double turns) {
  const double kHalfPi = 0x1.921fb54442d18p+0;

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

MESHWORK_PORTABLE double NormalOf(const Philox& block) {
  const double u =
      static_cast<double>(Bits53(block.word[0], block.word[1]) + 1) * 0x1p-53;  // (0, 1]: log is finite
  const double v = static_cast<double>(Bits53(block.word[2], block.word[3])) * 0x1p-53;
  return Sqrt(-2 * PortableLog(u)) * PortableCosTurns(v);
}

template <int n>
MESHWORK_PORTABLE double PortablePolynomial(const double (&coefficients)[n], double x) {  // the constant last
  double sum = 0;
  for (int i = 0; i < n; ++i) sum = sum * x + coefficients[i];
  return sum;
}

// The z with P(normal < z) = 1/2 + q, within 1e-15. REQUIRES: |q| < 0.4999997 (|z| < 5).
// Wichura, AS 241 (1988), PPND16, without the branch of the far tails.
MESHWORK_PORTABLE double PortableNormalQuantile(double q) {
  const double kA[] = {2.50908'09287'30122'6727e+3, 3.34305'75583'58812'8105e+4, 6.72657'70927'00870'0853e+4,
                       4.59219'53931'54987'1457e+4, 1.37316'93765'50946'1125e+4, 1.97159'09503'06551'4427e+3,
                       1.33141'66789'17843'7745e+2, 3.38713'28727'96366'6080e+0};
  const double kB[] = {5.22649'52788'52854'5610e+3, 2.87290'85735'72194'2674e+4,
                       3.93078'95800'09271'0610e+4, 2.12137'94301'58659'5867e+4,
                       5.39419'60214'24751'1077e+3, 6.87187'00749'20579'0830e+2,
                       4.23133'30701'60091'1252e+1, 1.0};
  const double kC[] = {7.74545'01427'83414'07640e-4, 2.27238'44989'26918'45833e-2,
                       2.41780'72517'74506'11770e-1, 1.27045'82524'52368'38258e+0,
                       3.64784'83247'63204'60504e+0, 5.76949'72214'60691'40550e+0,
                       4.63033'78461'56545'29590e+0, 1.42343'71107'49683'57734e+0};
  const double kD[] = {1.05075'00716'44416'84324e-9, 5.47593'80849'95344'94600e-4,
                       1.51986'66563'61645'71966e-2, 1.48103'97642'74800'74590e-1,
                       6.89767'33498'51000'04550e-1, 1.67638'48301'83803'84940e+0,
                       2.05319'16266'37758'82187e+0, 1.0};
  const double size = q < 0 ? -q : q;
  if (size <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * PortablePolynomial(kA, r) / PortablePolynomial(kB, r);
  }
  const double r = Sqrt(-PortableLog(0.5 - size)) - 1.6;
  const double z = PortablePolynomial(kC, r) / PortablePolynomial(kD, r);
  return q < 0 ? -z : z;
}

// The middles of 2^53 equal shares of the probability that lies within 2, symmetric around 0.
MESHWORK_PORTABLE double TruncatedNormalOf(const Philox& block) {
  const double kWithinTwo = 0x1.e8b4307d3627ap-1;  // erf(sqrt(2))
  const long long odd = 2 * static_cast<long long>(Bits53(block.word[0], block.word[1])) + 1 - (1LL << 53);
  const double z = PortableNormalQuantile(static_cast<double>(odd) * 0x1p-54 * kWithinTwo);
  const double above = z < -2.0 ? -2.0 : z;
  return above > 2.0 ? 2.0 : above;
}

// low plus the high 64 bits of range times the first 64 bits, from products of 32 bits; no sum overflows.
MESHWORK_PORTABLE long long WholeOf(const Philox& block, long long low, unsigned long long range) {
  const unsigned long long range_high = range >> 32, range_low = range & 0xffffffff;
  const unsigned long long carry = (range_low * block.word[1]) >> 32;
  const unsigned long long first = range_high * block.word[1] + carry;
  const unsigned long long second = range_low * block.word[0] + (first & 0xffffffff);
  const unsigned long long share = range_high * block.word[0] + (first >> 32) + (second >> 32);
  return static_cast<long long>(static_cast<unsigned long long>(low) + share);
}

}  // namespace meshwork::portable
