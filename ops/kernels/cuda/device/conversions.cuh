// Elements that are read and written at once.
template <typename T, int n> struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack { T at[n]; };

// A GPU of today has instructions for much of what follows. They give the same bits, but for those of a NaN.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HAS_INSTRUCTIONS
#endif

__device__ inline unsigned short ToBf16ByBits(float x) { return Bf16OfBits(BitsOf(x)); }
__device__ inline unsigned short ToF16ByBits(float x) { return F16OfBits(BitsOf(x)); }
__device__ inline float FromF16ByBits(unsigned short x) { return FloatOfBits(BitsOfF16(x)); }
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
