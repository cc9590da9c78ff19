// ---- What the portable sources call, as ops/kernels/portable/host.h has it for the host. Their text follows this file.
#define MESHWORK_PORTABLE __device__ inline
#define MESHWORK_PORTABLE_CONSTEXPR __device__ inline
#define MESHWORK_REAL(Name, function)                              \
  __device__ inline float Name(float x) { return function##f(x); } \
  __device__ inline double Name(double x) { return function(x); }
#define MESHWORK_REALS(Name, function)                                         \
  __device__ inline float Name(float a, float b) { return function##f(a, b); } \
  __device__ inline double Name(double a, double b) { return function(a, b); }

__device__ inline double Infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
__device__ inline double NotANumber() { return __longlong_as_double(0x7ff8000000000000LL); }

__device__ inline unsigned BitsOf(float x) { return __float_as_uint(x); }
__device__ inline unsigned long long BitsOf(double x) { return (unsigned long long)__double_as_longlong(x); }
__device__ inline float FloatOfBits(unsigned x) { return __uint_as_float(x); }
__device__ inline double DoubleOfBits(unsigned long long x) { return __longlong_as_double((long long)x); }
__device__ inline bool HasSign(float x) { return __float_as_int(x) < 0; }
__device__ inline bool HasSign(double x) { return __double_as_longlong(x) < 0; }
__device__ inline int SetBits(int x) {
  unsigned rest = (unsigned)x;
  int count = 0;
  for (; rest != 0; rest &= rest - 1) ++count;
  return count;
}
__device__ inline long long SetBits(long long x) { return SetBits((int)x) + SetBits((int)(x >> 32)); }
__device__ inline unsigned LeadingZeros(unsigned x) { return (unsigned)__clz((int)x); }
__device__ inline int LeadingZeros(int x) { return __clz(x); }
__device__ inline long long LeadingZeros(long long x) {
  const int high = (int)(x >> 32);
  return high != 0 ? __clz(high) : 32 + __clz((int)x);
}

MESHWORK_REAL(Exp, exp)
MESHWORK_REAL(Expm1, expm1)
MESHWORK_REAL(Log, log)
MESHWORK_REAL(Log1p, log1p)
MESHWORK_REAL(Log1pOfUnit, log1p)
MESHWORK_REAL(Tanh, tanh)
MESHWORK_REAL(Erf, erf)
MESHWORK_REAL(Erfc, erfc)
MESHWORK_REAL(LogGamma, lgamma)
