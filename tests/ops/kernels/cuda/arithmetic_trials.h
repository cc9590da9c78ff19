// A kernel that computes functions of the prelude in two ways, for many floats: by the GPU's own
// instructions, and by other instructions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshwork/ops/kernels/cuda/cuda_kernel.h"

namespace meshwork {

// In the order in which the kernel numbers them.
inline constexpr std::string_view kArithmeticTrials[] = {
    "ToBf16",       "RoundedToBf16",     "ToF16",          "FromF16",    "Larger",
    "Smaller",      "Clipped",           "QuotientByUnit", "SqrtByUnit", "RsqrtByUnit",
    "RoughSigmoid", "RoughSilu",         "RoughTanhGelu",  "RoughErfc",  "RoughGelu",
    "RoundedSum",   "RoundedDifference", "RoundedProduct", "Sigmoid"};
inline constexpr int kArithmeticBlocks = 64, kArithmeticThreads = 256;
// The first floats are special ones: each bf16, extended by low bits of every kind.
inline constexpr int64_t kSpecialFloats = 10 * 65536;

// Parameters, per trial and 0 before the launch: the number of floats for which the two ways differ, and the
// bits of one of them; then the number of floats.
constexpr std::string_view kArithmeticKernel = R"(
__device__ float FloatOf(unsigned i) {
  const unsigned ends[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
  if (i < 10 * 65536) return __uint_as_float(i % 65536 << 16 | ends[i / 65536]);
  unsigned x = i * 2654435761u;
  x = (x ^ x >> 15) * 2246822519u;
  return __uint_as_float(x ^ x >> 13);
}
__device__ bool IsSame(float a, float b) {
  return (a != a && b != b) || __float_as_uint(a) == __float_as_uint(b);
}
__device__ bool IsNear(float a, float b) {
  return IsSame(a, b) || fabsf(a - b) <= 2e-5f * fabsf(b) || fabsf(a - b) < 1.2e-38f;
}
// To a bf16.
__device__ float Truncated(float x) { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }
__device__ float Rounded(float x) { return __uint_as_float((unsigned)ToBf16ByBits(x) << 16); }
extern "C" __global__ void tries(unsigned* counts, unsigned* examples, long long n) {
  for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const float x = FloatOf(i), one = Truncated(x);
    const float others[] = {x, -x, 0.0f, -0.0f, (float)NotANumber(), (float)Infinity(), FloatOf(i / 8), 1.0f};
    const float y = others[i % 8], other = Truncated(FloatOf(i / 3));
    const float lows[] = {-1, 0, (float)-Infinity(), -2}, highs[] = {1, 1, 0.5f, 0};
    const float low = lows[i % 4], high = highs[i % 4];
    const float gate = Sigmoid((float)(2 * 0.7978845608028654) * (one + 0.044715f * one * one * one));
    const float e = expf(-fabsf(x));
    const bool agrees[] = {IsSame(FromBf16(ToBf16(x)), FromBf16(ToBf16ByBits(x))),
                           IsSame(RoundedToBf16(x), Rounded(x)),
                           IsSame(FromF16ByBits(ToF16(x)), FromF16ByBits(ToF16ByBits(x))),
                           IsSame(FromF16((unsigned short)i), FromF16ByBits((unsigned short)i)),
                           IsSame(Larger(x, y), LargerByTests(x, y)),
                           IsSame(Smaller(x, y), SmallerByTests(x, y)),
                           IsSame(Clipped(x, low, high), ClippedByTests(x, low, high)),
                           IsNear(QuotientByUnit(one, other), one / other),
                           IsNear(SqrtByUnit(x), sqrtf(x)),
                           IsNear(RsqrtByUnit(x), 1.0f / sqrtf(x)),
                           IsNear(RoughSigmoid(x), (x < 0 ? e : 1.0f) / (1.0f + e)),
                           IsNear(RoughSilu(one), Gated(one, Sigmoid(one))) || one < -80.0f,
                           IsNear(RoughTanhGelu(one), Gated(one, gate)) || one < -4.0f,
                           IsNear(RoughErfc(one), erfcf(one)),
                           IsNear(RoughGelu(one), Gelu(one)) || one < -12.0f,
                           IsSame(RoundedSum(one, other), Rounded(one + other)),
                           IsSame(RoundedDifference(one, other), Rounded(one - other)),
                           IsSame(RoundedProduct(one, other), Rounded(one * other)) || fabsf(one * other) < 1.2e-38f,
                           IsNear(Sigmoid(x), (x < 0 ? e : 1.0f) / (1.0f + e))};
    for (unsigned t = 0; t < sizeof(agrees) / sizeof(bool); ++t) {
      if (agrees[t]) continue;
      atomicAdd(&counts[t], 1u);
      atomicMax(&examples[t], __float_as_uint(x));
    }
  }
}
)";
inline std::string ArithmeticSource() { return std::string(CudaPrelude()).append(kArithmeticKernel); }

}  // namespace meshwork
