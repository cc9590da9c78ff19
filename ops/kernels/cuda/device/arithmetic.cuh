// ---- Whole numbers wrap around; a number over 0 is 0.
#define WRAPPING(Name, op)                                                               \
  __device__ inline float Name(float a, float b) { return a op b; }                      \
  __device__ inline double Name(double a, double b) { return a op b; }                   \
  __device__ inline int Name(int a, int b) { return (int)((unsigned)a op(unsigned) b); } \
  __device__ inline long long Name(long long a, long long b) {                           \
    return (long long)((unsigned long long)a op(unsigned long long) b);                  \
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
