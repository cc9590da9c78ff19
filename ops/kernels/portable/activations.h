// Activations. Each is computed such that nothing overflows unless its value does, and takes its limit at ±∞. A
// portable source.
#pragma once

#include "meshwork/ops/kernels/portable/reals.h"

namespace meshwork::portable {

// 1 / (1 + exp(-x)), from the exponential that does not overflow.
template <typename T>
MESHWORK_PORTABLE T Sigmoid(T x) {
  const T e = Exp(-Fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
// log(1 + exp(x))
template <typename T>
MESHWORK_PORTABLE T Softplus(T x) {
  return (x > T(0) ? x : T(0)) + Log1pOfUnit(Exp(-Fabs(x)));
}
// x times a gate that vanishes faster than x grows: -0 at -∞.
template <typename T>
MESHWORK_PORTABLE T Gated(T x, T gate) {
  return gate == T(0) ? T(-0.0) : x * gate;
}
template <typename T>
MESHWORK_PORTABLE T LeakyRelu(T x, double alpha) {
  return !(x < T(0)) ? x : alpha == 0 ? T(0) : T(alpha) * x;  // 0 also of -inf
}
template <typename T>
MESHWORK_PORTABLE T Elu(T x, T alpha) {
  return x > T(0) ? x : alpha * Expm1(x);
}
// Klambauer et al., "Self-Normalizing Neural Networks" (arXiv 1706.02515), equation 14.
inline constexpr double kSeluAlpha = 1.6732632423543772848, kSeluScale = 1.0507009873554804934;
template <typename T>
MESHWORK_PORTABLE T Selu(T x) {
  return T(kSeluScale) * Elu(x, T(kSeluAlpha));
}
// Hendrycks and Gimpel, "Gaussian Error Linear Units" (arXiv 1606.08415), section 2.
inline constexpr double kSqrtHalf = 1.41421356237309504880 / 2;
inline constexpr double kTanhScale = 0.7978845608028654;  // sqrt(2/π)
inline constexpr double kTanhCube = 0.044715;
template <typename T>
MESHWORK_PORTABLE T Gelu(T x) {
  return Gated(x, T(0.5) * Erfc(x * T(-kSqrtHalf)));
}
template <typename T>
MESHWORK_PORTABLE T TanhGelu(T x) {  // (1 + tanh(u)) / 2 = sigmoid(2u)
  return Gated(x, Sigmoid(T(2 * kTanhScale) * (x + T(kTanhCube) * x * x * x)));
}
template <typename T>
MESHWORK_PORTABLE T HardSigmoid(T x) {
  return x < T(-3) ? T(0) : x > T(3) ? T(1) : (x + T(3)) / T(6);
}

}  // namespace meshwork::portable
