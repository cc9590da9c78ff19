#include "meshwork/ops/kernels/cuda/prelude.h"

namespace meshwork::cuda {

std::string_view ConversionText() {
  return R"(// Elements that are read and written at once.
template <typename T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack {
  T at[n];
};

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
template <typename To, typename From>
__device__ inline To Clamped(From x) {
  if (x != x) return 0;
  if (x <= (From)Limits<To>::Least()) return Limits<To>::Least();
  if (x >= (From)Limits<To>::Most()) return Limits<To>::Most();
  return (To)x;
}
)";
}

std::string_view ArithmeticText() {
  return R"(// ---- Whole numbers wrap around; a number over 0 is 0.
#define WRAPPING(Name, op)                                                                              \
  __device__ inline float Name(float a, float b) { return a op b; }                                     \
  __device__ inline double Name(double a, double b) { return a op b; }                                  \
  __device__ inline int Name(int a, int b) { return (int)((unsigned)a op(unsigned) b); }                \
  __device__ inline long long Name(long long a, long long b) {                                          \
    return (long long)((unsigned long long)a op(unsigned long long) b);                                 \
  }
WRAPPING(Sum, +)
WRAPPING(Difference, -)
WRAPPING(Product, *)
template <typename T> __device__ inline T Negated(T a) { return Difference((T)0, a); }
template <> __device__ inline float Negated(float a) { return -a; }
template <> __device__ inline double Negated(double a) { return -a; }
__device__ inline float Quotient(float a, float b) { return a / b; }
__device__ inline double Quotient(double a, double b) { return a / b; }
template <typename T> __device__ inline T Quotient(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? Negated(a) : a / b;
}
__device__ inline float Remainder(float a, float b) { return fmodf(a, b); }
__device__ inline double Remainder(double a, double b) { return fmod(a, b); }
template <typename T> __device__ inline T Remainder(T a, T b) {
  if (b == 0) return a;
  return b == -1 ? 0 : a % b;
}
__device__ inline float Power(float a, float b) { return powf(a, b); }
__device__ inline double Power(double a, double b) { return pow(a, b); }
template <typename T> __device__ inline T Power(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : b % 2 == 0 ? 1 : -1;
  T result = 1;
  for (; b > 0; b /= 2, a = Product(a, a))
    if (b % 2 == 1) result = Product(result, a);
  return result;
}
__device__ inline float Absolute(float a) { return fabsf(a); }
__device__ inline double Absolute(double a) { return fabs(a); }
template <typename T> __device__ inline T Absolute(T a) { return a < 0 ? Negated(a) : a; }
__device__ inline bool HasSign(float x) { return __float_as_int(x) < 0; }
__device__ inline bool HasSign(double x) { return __double_as_longlong(x) < 0; }
__device__ inline bool HasSign(int x) { return x < 0; }
__device__ inline bool HasSign(long long x) { return x < 0; }
// NaN if either is; 0 is above -0.
template <typename T> __device__ inline T LargerByTests(T a, T b) {
  return a > b || a != a || (a == b && !HasSign(a)) ? a : b;
}
template <typename T> __device__ inline T SmallerByTests(T a, T b) {
  return a < b || a != a || (a == b && HasSign(a)) ? a : b;
}
template <typename T> __device__ inline T Larger(T a, T b) { return LargerByTests(a, b); }
template <typename T> __device__ inline T Smaller(T a, T b) { return SmallerByTests(a, b); }
// Between low and high, low <= high.
template <typename T> __device__ inline T ClippedByTests(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}
template <typename T> __device__ inline T Clipped(T x, T low, T high) { return ClippedByTests(x, low, high); }
#ifdef HAS_INSTRUCTIONS
template <> __device__ inline float Larger(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
template <> __device__ inline float Smaller(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// A zero keeps its sign where a bound is zero.
template <> __device__ inline float Clipped(float x, float low, float high) {
  return low == 0 || high == 0 ? ClippedByTests(x, low, high) : Smaller(Larger(x, low), high);
}
#endif
__device__ inline float MultiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double MultiplyAdd(double a, double b, double c) { return fma(a, b, c); }
// An element and its index; no element: index -1.
template <typename T> struct Indexed {
  T top;
  int at;
};
// The larger (smaller); of equal ones that of the lower index. NaN comes before all.
template <bool largest, typename T> __device__ inline bool IsBefore(const Indexed<T>& a, const Indexed<T>& b) {
  return (largest ? a.top > b.top : a.top < b.top) || (a.top != a.top && b.top == b.top);
}
template <bool largest, typename T> __device__ inline Indexed<T> Foremost(const Indexed<T>& a, const Indexed<T>& b) {
  if (b.at < 0) return a;
  if (a.at < 0) return b;
  if (IsBefore<largest>(a, b)) return a;
  if (IsBefore<largest>(b, a)) return b;
  return a.at < b.at ? a : b;
}
// In a sort NaN is the largest.
template <typename T> __device__ inline bool SortsBelow(T a, T b) { return a < b || (b != b && a == a); }
// An index as the nearest of 0 to last, and 0 if last is below.
__device__ inline long long Within(long long x, long long last) {
  x = x > last ? last : x;
  return x < 0 ? 0 : x;
}
template <typename T> __device__ inline T Bound(double x) { return Clamped<T>(x); }
template <> __device__ inline float Bound(double x) { return (float)x; }
template <> __device__ inline double Bound(double x) { return x; }
template <typename T> __device__ inline bool ShiftsOut(T by) {
  return (typename Limits<T>::Unsigned)by >= 8 * sizeof(T);
}
template <typename T> __device__ inline T ShiftedLeft(T x, T by) {
  return ShiftsOut(by) ? 0 : (T)((typename Limits<T>::Unsigned)x << by);
}
template <typename T> __device__ inline T ShiftedRight(T x, T by) {
  return ShiftsOut(by) ? (T)(x < 0 ? -1 : 0) : (T)(x >> by);
}
template <typename T> __device__ inline T ShiftedRightUnsigned(T x, T by) {
  return ShiftsOut(by) ? 0 : (T)((typename Limits<T>::Unsigned)x >> by);
}
)";
}

}  // namespace meshwork::cuda
