// What the portable sources call, for the host. Kernels for GPUs have the same names from
// ops/kernels/cuda/device/base.cuh.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "meshwork/base/portable.h"
#include "meshwork/ops/kernels/portable/vector_math.h"

// Defines Name(x), Name(a, b) of floats and doubles by a function of the C library.
#define MESHWORK_REAL(Name, function)                     \
  inline float Name(float x) { return std::function(x); } \
  inline double Name(double x) { return std::function(x); }
#define MESHWORK_REALS(Name, function)                                \
  inline float Name(float a, float b) { return std::function(a, b); } \
  inline double Name(double a, double b) { return std::function(a, b); }

namespace meshwork::portable {

inline double Infinity() { return std::numeric_limits<double>::infinity(); }
inline double NotANumber() { return std::numeric_limits<double>::quiet_NaN(); }

inline unsigned BitsOf(float x) { return std::bit_cast<unsigned>(x); }
inline unsigned long long BitsOf(double x) { return std::bit_cast<unsigned long long>(x); }
inline float FloatOfBits(unsigned x) { return std::bit_cast<float>(x); }
inline double DoubleOfBits(unsigned long long x) { return std::bit_cast<double>(x); }
// Whether the sign bit is set, as for -0.
inline bool HasSign(float x) { return std::bit_cast<int>(x) < 0; }
inline bool HasSign(double x) { return std::bit_cast<long long>(x) < 0; }
template <typename T>
T SetBits(T x) {
  return static_cast<T>(std::popcount(static_cast<std::make_unsigned_t<T>>(x)));
}
template <typename T>
T LeadingZeros(T x) {
  return static_cast<T>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(x)));
}

// log |Γ(x)|; std::lgamma writes a global.
inline float LogGamma(float x) {
  int sign = 0;
  return lgammaf_r(x, &sign);
}
inline double LogGamma(double x) {
  int sign = 0;
  return lgamma_r(x, &sign);
}

}  // namespace meshwork::portable
