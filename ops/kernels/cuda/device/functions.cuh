// ---- Beside ops/kernels/portable/activations.h and special.h.
// Units give these within 2 units in the last place; those of the first two take and give 0 for what is tiny.
#ifdef HAS_INSTRUCTIONS
#define BY_UNIT(Name, instruction, otherwise)       \
  __device__ inline float Name(float x) {           \
    float y;                                        \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x)); \
    return y;                                       \
  }
#else
#define BY_UNIT(Name, instruction, otherwise) \
  __device__ inline float Name(float x) { return otherwise; }
#endif
BY_UNIT(Exp2ByUnit, "ex2.approx.ftz.f32", exp2f(x))
BY_UNIT(OverByUnit, "rcp.approx.ftz.f32", 1.0f / x)
BY_UNIT(SqrtByUnit, "sqrt.approx.f32", sqrtf(x))
BY_UNIT(RsqrtByUnit, "rsqrt.approx.f32", 1.0f / sqrtf(x))
__device__ inline float QuotientByUnit(float a, float b) {
#ifdef HAS_INSTRUCTIONS
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a / b;
#endif
}
#ifdef HAS_INSTRUCTIONS
template <> __device__ inline float Sigmoid(float x) {
  const float e = Exp(-Absolute(x));
  return (x < 0.0f ? e : 1.0f) * OverByUnit(1.0f + e);
}
#endif
// By units, for results in bf16: relative errors below 2^-16, and 0 for what is tiny. log2(e) is among the factors.
__device__ inline float RoughSigmoid(float x) { return OverByUnit(1.0f + Exp2ByUnit(-1.4426950408889634f * x)); }
__device__ inline float RoughSilu(float x) { return Gated(x, RoughSigmoid(x)); }
__device__ inline float RoughTanhGelu(float x) {
  const float power = x * MultiplyAdd(-0.10294324f, x * x, -2.3022082f);
  return Gated(x, OverByUnit(1.0f + Exp2ByUnit(power)));
}
// t e^(P(t) - x²), t = 1 / (1 + |x| / 2): Numerical Recipes, 2nd edition, section 6.2, erfcc.
__device__ inline float RoughErfc(float x) {
  const float size = fabsf(x), t = OverByUnit(MultiplyAdd(0.5f, size, 1.0f));
  const float kFactors[] = {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f,
                            0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  float power = 0.17087277f;
#pragma unroll
  for (int i = 0; i < 9; ++i) power = MultiplyAdd(power, t, kFactors[i]);
  const float tail = t * Exp2ByUnit(1.4426950408889634f * MultiplyAdd(-size, size, power));
  return x < 0.0f ? 2.0f - tail : tail;
}
__device__ inline float RoughGelu(float x) { return Gated(x, 0.5f * RoughErfc(x * -0.70710678f)); }
template <typename T> __device__ inline T LogAddExp(T a, T b) {
  if (a == b) return a + T(0.69314718055994530942);
  const T difference = a - b;
  return (difference > T(0) ? a : b) + Log1p(Exp(-Absolute(difference)));
}
template <int order> __device__ inline double PolygammaOf(double x) {
  double factorial = 1;
  for (int k = 2; k <= order; ++k) factorial *= k;
  return PolygammaOf(MakePolygamma<order + 2>(order, factorial), x);
}
