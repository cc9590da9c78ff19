// ---- Functions of reals, by one name for both types.
#define OF_REALS(Name, function)                                   \
  __device__ inline float Name(float x) { return function##f(x); } \
  __device__ inline double Name(double x) { return function(x); }
OF_REALS(Exp, exp)
OF_REALS(Exp2, exp2)
OF_REALS(Expm1, expm1)
OF_REALS(Log, log)
OF_REALS(Log2, log2)
OF_REALS(Log10, log10)
OF_REALS(Log1p, log1p)
OF_REALS(Sqrt, sqrt)
OF_REALS(Cbrt, cbrt)
OF_REALS(Erf, erf)
OF_REALS(Erfc, erfc)
OF_REALS(LogGamma, lgamma)
OF_REALS(Sin, sin)
OF_REALS(Cos, cos)
OF_REALS(Tan, tan)
OF_REALS(Asin, asin)
OF_REALS(Acos, acos)
OF_REALS(Atan, atan)
OF_REALS(Sinh, sinh)
OF_REALS(Cosh, cosh)
OF_REALS(Tanh, tanh)
OF_REALS(Asinh, asinh)
OF_REALS(Acosh, acosh)
OF_REALS(Atanh, atanh)
OF_REALS(Floor, floor)
OF_REALS(Ceil, ceil)
OF_REALS(Nearest, nearbyint)
OF_REALS(Trunc, trunc)
#define OF_PAIRS(Name, function)                                               \
  __device__ inline float Name(float a, float b) { return function##f(a, b); } \
  __device__ inline double Name(double a, double b) { return function(a, b); }
OF_PAIRS(Atan2, atan2)
OF_PAIRS(Hypot, hypot)
OF_PAIRS(CopySign, copysign)
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
template <typename T> __device__ inline T Sigmoid(T x) {
  const T e = Exp(-Absolute(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
#ifdef HAS_INSTRUCTIONS
template <> __device__ inline float Sigmoid(float x) {
  const float e = Exp(-Absolute(x));
  return (x < 0.0f ? e : 1.0f) * OverByUnit(1.0f + e);
}
#endif
template <typename T> __device__ inline T Softplus(T x) { return (x > T(0) ? x : T(0)) + Log1p(Exp(-Absolute(x))); }
template <typename T> __device__ inline T Gated(T x, T gate) { return gate == T(0) ? T(-0.0) : x * gate; }
template <typename T> __device__ inline T Elu(T x, T alpha) { return x > T(0) ? x : alpha * Expm1(x); }
template <typename T> __device__ inline T Gelu(T x) {
  return Gated(x, T(0.5) * Erfc(x * T(-1.41421356237309504880 / 2)));
}
template <typename T> __device__ inline T TanhGelu(T x) {
  return Gated(x, Sigmoid(T(2 * 0.7978845608028654) * (x + T(0.044715) * x * x * x)));
}
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
template <typename T> __device__ inline T HardSigmoid(T x) {
  return x < T(-3) ? T(0) : x > T(3) ? T(1) : (x + T(3)) / T(6);
}
template <typename T> __device__ inline T LogAddExp(T a, T b) {
  if (a == b) return a + T(0.69314718055994530942);
  const T difference = a - b;
  return (difference > T(0) ? a : b) + Log1p(Exp(-Absolute(difference)));
}
__device__ inline int SetBits(int x) {
  unsigned rest = (unsigned)x;
  int count = 0;
  for (; rest != 0; rest &= rest - 1) ++count;
  return count;
}
__device__ inline long long SetBits(long long x) { return SetBits((int)x) + SetBits((int)(x >> 32)); }
__device__ inline int LeadingZeros(int x) { return __clz(x); }
__device__ inline long long LeadingZeros(long long x) {
  const int high = (int)(x >> 32);
  return high != 0 ? __clz(high) : 32 + __clz((int)x);
}
