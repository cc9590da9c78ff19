// ---- Beside ops/kernels/portable/arithmetic.h.
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
// An index as the nearest of 0 to last, and 0 if last is below.
__device__ inline long long Within(long long x, long long last) {
  x = x > last ? last : x;
  return x < 0 ? 0 : x;
}
