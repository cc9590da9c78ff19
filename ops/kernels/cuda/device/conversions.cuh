// Elements that are read and written at once.
template <typename T, int n> struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack { T at[n]; };

__device__ inline double Infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ inline double NotANumber() { return __longlong_as_double(0x7ff8000000000000LL); }

// A GPU of today has instructions for much of what follows. They give the same bits, but for those of a NaN.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HAS_INSTRUCTIONS
#endif

__device__ inline unsigned short ToBf16ByBits(float number) {
  const unsigned x = __float_as_uint(number);
  if ((x & 0x7fffffff) > 0x7f800000) return (unsigned short)(x >> 16 | 0x40);
  return (unsigned short)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
__device__ inline float FromF16ByBits(unsigned short half) {
  const unsigned sign = (unsigned)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0x1f) return __uint_as_float(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return __uint_as_float(sign);
  const unsigned shift = (unsigned)__clz((int)mantissa) - 21;
  return __uint_as_float(sign | (113 - shift) << 23 | (mantissa << shift & 0x3ff) << 13);
}
__device__ inline unsigned ShiftedToEven(unsigned x, unsigned shift) {
  return (x + (1u << (shift - 1)) - 1 + (x >> shift & 1)) >> shift;
}
__device__ inline unsigned short ToF16ByBits(float number) {
  const unsigned x = __float_as_uint(number), sign = x >> 16 & 0x8000, size = x & 0x7fffffff;
  if (size > 0x7f800000) return (unsigned short)(sign | 0x7e00 | (size >> 13 & 0x3ff));
  if (size >= 0x47800000) return (unsigned short)(sign | 0x7c00);
  if (size >= 0x38800000) return (unsigned short)(sign | (ShiftedToEven(size, 13) - (112 << 10)));
  if (size < 0x33000000) return (unsigned short)sign;
  return (unsigned short)(sign | ShiftedToEven((size & 0x7fffff) | 0x800000, 126 - (size >> 23)));
}
#ifdef HAS_INSTRUCTIONS
// By a mov, of which ptxas makes one instruction also if x is half of a word.
__device__ inline float FromBf16(unsigned short x) {
  float y;
  asm("{\n.reg .b16 low;\nmov.b16 low, 0;\nmov.b32 %0, {low, %1};\n}" : "=f"(y) : "h"(x));
  return y;
}
__device__ inline unsigned short ToBf16(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
// The first operand becomes the high half of the word: with 0 below it is the float.
__device__ inline float RoundedToBf16(float x) {
  float y;
  asm("{\n.reg .b32 pair;\ncvt.rn.bf16x2.f32 pair, %1, %2;\nmov.b32 %0, pair;\n}" : "=f"(y) : "f"(x), "f"(0.0f));
  return y;
}
__device__ inline unsigned short ToF16(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
__device__ inline float FromF16(unsigned short x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
#else
__device__ inline float FromBf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
__device__ inline unsigned short ToBf16(float x) { return ToBf16ByBits(x); }
__device__ inline float RoundedToBf16(float x) { return FromBf16(ToBf16ByBits(x)); }
__device__ inline unsigned short ToF16(float x) { return ToF16ByBits(x); }
__device__ inline float FromF16(unsigned short x) { return FromF16ByBits(x); }
#endif
// Of floats that are bf16, rounded to one. Such a float is a pair of bf16, 0 and the number: products of pairs give 0 and the product.
__device__ inline float RoundedMultiplyAdd(float a, float b, float c) {
#ifdef HAS_INSTRUCTIONS
  unsigned pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(pair)
      : "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)));
  return __uint_as_float(pair);
#else
  return RoundedToBf16(a * b + __uint_as_float(__float_as_uint(c) & 0xffff0000u));
#endif
}
__device__ inline float RoundedSum(float a, float b) { return RoundedMultiplyAdd(a, 1.0f, b); }
__device__ inline float RoundedDifference(float a, float b) { return RoundedMultiplyAdd(b, -1.0f, a); }
// Minus 0 in both halves, which ptxas knows: -0.0f costs instructions.
__device__ inline float RoundedProduct(float a, float b) {
  return RoundedMultiplyAdd(a, b, __uint_as_float(0x80008000u));
}
__device__ inline float RoundedToF16(float x) { return FromF16(ToF16(x)); }

// To a float that is to be rounded again.
__device__ inline float ToOdd(float x) { return x; }
__device__ inline float ToOdd(bool x) { return (float)x; }
__device__ inline float ToOdd(double x) {
  const float nearest = (float)x;
  if (nearest == x || x != x) return nearest;
  const bool beyond = fabs((double)nearest) > fabs(x);
  return __uint_as_float((__float_as_uint(nearest) - (beyond ? 1 : 0)) | 1);
}
__device__ inline float ToOdd(int x) { return ToOdd((double)x); }
__device__ inline float ToOdd(unsigned char x) { return (float)x; }
__device__ inline float ToOdd(signed char x) { return (float)x; }
__device__ inline float ToOdd(long long x) {
  const long long exact = 1LL << 53, lost = (1LL << 11) - 1;
  if (x <= -exact || x >= exact) x = (x & ~lost) | ((x & lost) != 0 ? lost + 1 : 0);
  return ToOdd((double)x);
}

template <typename T> struct Limits;
template <> struct Limits<int> {
  typedef unsigned Unsigned;
  __device__ static int Least() { return -2147483647 - 1; }
  __device__ static int Most() { return 2147483647; }
};
template <> struct Limits<long long> {
  typedef unsigned long long Unsigned;
  __device__ static long long Least() { return -9223372036854775807LL - 1; }
  __device__ static long long Most() { return 9223372036854775807LL; }
};
template <> struct Limits<unsigned char> {
  __device__ static unsigned char Least() { return 0; }
  __device__ static unsigned char Most() { return 255; }
};
template <> struct Limits<signed char> {
  __device__ static signed char Least() { return -128; }
  __device__ static signed char Most() { return 127; }
};
template <> struct Limits<float> {
  __device__ static float Least() { return (float)-Infinity(); }
  __device__ static float Most() { return (float)Infinity(); }
};
template <> struct Limits<double> {
  __device__ static double Least() { return -Infinity(); }
  __device__ static double Most() { return Infinity(); }
};
// A real as a whole number: towards zero, clamped, NaN is 0.
template <typename To, typename From> __device__ inline To Clamped(From x) {
  if (x != x) return 0;
  if (x <= (From)Limits<To>::Least()) return Limits<To>::Least();
  if (x >= (From)Limits<To>::Most()) return Limits<To>::Most();
  return (To)x;
}
