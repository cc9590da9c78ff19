// Random numbers that depend on nothing but (seed, stream, index): element i of a random tensor is a
// pure function of its global index, so every layout, mesh and CPU draws bitwise the same tensor.
//
//   FillNormal(/*seed=*/7, /*stream=*/2, first_index, 0.0f, 0.05f, std::span(row))      a run of consecutive indices
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
// -ffast-math (philox.cc refuses it) and libm, whose log and cos differ between versions and CPUs. The formulas stand
// in ops/kernels/portable/philox.h; kernels for GPUs draw by them, too.
//
// T is float or double.
//
// Thread safety: all functions are pure.
#pragma once

#include <cstdint>
#include <span>

namespace meshwork {

// out[j] = low + u (high - low), u the uniform value of element first_index + j (indices wrap at 2^64);
// where rounding would give high, the number before it, so out[j] lies in [low, high).
// REQUIRES: low <= high (equal: every value is low), high - low finite.
template <typename T>
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, T low, T high, std::span<T> out);

// out[j] = mean + stddev z, z the normal value of element first_index + j.
template <typename T>
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev, std::span<T> out);

// out[j] = mean + stddev z, z of [-2, 2] the truncated normal value of element first_index + j.
template <typename T>
void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev,
                         std::span<T> out);

// out[j] = 1 with probability p (rounded up to a multiple of 2^-53), else 0. REQUIRES: 0 <= p <= 1.
void FillBernoulli(uint64_t seed, uint64_t stream, uint64_t first_index, double p, std::span<uint8_t> out);

// out[j] = the whole number of [low, high) of element first_index + j. REQUIRES: low < high.
void FillInt(uint64_t seed, uint64_t stream, uint64_t first_index, int64_t low, int64_t high,
             std::span<int64_t> out);

}  // namespace meshwork
