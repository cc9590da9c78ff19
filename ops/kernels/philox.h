// Random numbers that depend on nothing but (seed, stream, index): element i of a random tensor is a
// pure function of its global index, so every layout, mesh and CPU draws bitwise the same tensor.
//
//   UniformF32(/*seed=*/7, /*stream=*/2, /*index=*/41)              one value of [0, 1)
//   FillNormal(7, 2, first_index, 0.0f, 0.05f, std::span(row))      a run of consecutive indices
//
// The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011), section 3.3. The key is the seed; the lower 64 bits of the counter are the index,
// the upper 64 the stream, so streams of one seed never overlap. Each element takes a block of its own
// (128 bits), whose first word is the most significant:
//
//   uniform f32: the first 24 bits / 2^24       uniform f64: the first 53 bits / 2^53
//   normal: Box and Muller (1958), sqrt(-2 log u) cos(2 pi v), with u of (0, 1] from words 0 and 1 and v
//   of [0, 1) from words 2 and 3, 53 bits each; f32 is the f64 value, rounded. The tail ends at 8.57.
//   truncated normal: the quantile of the middle of the first 53 bits' share of what lies within 2, by
//   Wichura's AS 241 (1988), PPND16; f32 is the f64 value, rounded.
//   bernoulli: the f64 uniform value is less than p.
//   whole: low plus the high 64 bits of (high - low) times the first 64 bits (Lemire, "Fast Random Integer
//   Generation in an Interval", 2019, without its rejection): each number within 2^-64 of its share.
//
// Bitwise the same: everything is made of integer operations and the + - * / sqrt of IEEE 754, which are
// correctly rounded on every CPU. That needs -ffp-contract=off (the build sets it) and forbids
// -ffast-math (philox.cc refuses it) and libm, whose log and cos differ between versions and CPUs.
//
// Thread safety: all functions are pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace meshwork {

// The block function: 10 rounds. The paper's and Random123's test vectors hold.
using PhiloxCounter = std::array<uint32_t, 4>;  // least significant word first
using PhiloxKey = std::array<uint32_t, 2>;
PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

// A seed for each value of a counter: the first two words of the block at (seed, stream 2^64 - 1, step). The
// streams of one step do not overlap; those of two steps are as good as unrelated, because their keys differ.
uint64_t SeedOfStep(uint64_t seed, uint64_t step);

// The block of element `index`.
PhiloxCounter PhiloxAt(uint64_t seed, uint64_t stream, uint64_t index);

// Uniform in [0, 1). Law: 0 <= UniformF64(s, t, i) - UniformF32(s, t, i) < 2^-24.
float UniformF32(uint64_t seed, uint64_t stream, uint64_t index);
double UniformF64(uint64_t seed, uint64_t stream, uint64_t index);

// Normal with mean 0 and standard deviation 1. Law: NormalF32 == float(NormalF64).
float NormalF32(uint64_t seed, uint64_t stream, uint64_t index);
double NormalF64(uint64_t seed, uint64_t stream, uint64_t index);

// out[j] = low + u (high - low), u the uniform value of element first_index + j (indices wrap at 2^64);
// where rounding would give high, the number before it, so out[j] lies in [low, high).
// REQUIRES: low <= high (equal: every value is low), high - low finite.
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, float low, float high,
                 std::span<float> out);
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, double low, double high,
                 std::span<double> out);

// out[j] = mean + stddev z, z the normal value of element first_index + j.
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float stddev,
                std::span<float> out);
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, double mean, double stddev,
                std::span<double> out);

// out[j] = mean + stddev z, z of [-2, 2] the truncated normal value of element first_index + j.
void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float stddev,
                         std::span<float> out);
void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, double mean, double stddev,
                         std::span<double> out);

// out[j] = 1 with probability p (rounded up to a multiple of 2^-53), else 0. REQUIRES: 0 <= p <= 1.
void FillBernoulli(uint64_t seed, uint64_t stream, uint64_t first_index, double p, std::span<uint8_t> out);

// out[j] = the whole number of [low, high) of element first_index + j. REQUIRES: low < high.
void FillInt(uint64_t seed, uint64_t stream, uint64_t first_index, int64_t low, int64_t high,
             std::span<int64_t> out);

// The z with P(normal < z) = 1/2 + q, within 1e-15. REQUIRES: |q| < 0.4999997 (|z| < 5).
double PortableNormalQuantile(double q);

// The natural logarithm, within 1.5 ulp of the true value. REQUIRES: x is positive, normal and finite.
double PortableLog(double x);

// cos(2 pi turns), within 2 ulp of the true value, exact at multiples of 1/4.
// REQUIRES: 0 <= turns < 1.
double PortableCosTurns(double turns);

}  // namespace meshwork
