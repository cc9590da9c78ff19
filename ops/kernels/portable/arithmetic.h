// Arithmetic of whole numbers and reals, defined for all numbers: whole numbers wrap around, and a number over 0 is 0.
// A portable source.
#pragma once

#include "meshwork/ops/kernels/portable/reals.h"

namespace meshwork::portable {

// bool is not.
template <typename T>
inline constexpr bool kIsWhole = T(0.5) == T(0);

template <int bytes>
struct UnsignedOfBytes {
  typedef unsigned char Type;
};
template <>
struct UnsignedOfBytes<4> {
  typedef unsigned Type;
};
template <>
struct UnsignedOfBytes<8> {
  typedef unsigned long long Type;
};
template <typename T>
using AsUnsigned = typename UnsignedOfBytes<sizeof(T)>::Type;

// The least and the largest T; of reals, the infinities.
template <typename T>
struct Limits {
  MESHWORK_PORTABLE static T Least() {
    if constexpr (kIsWhole<T>) return T(-1) < T(0) ? static_cast<T>(-Most() - 1) : T(0);
    else return static_cast<T>(-Infinity());
  }
  MESHWORK_PORTABLE static T Most() {
    if constexpr (kIsWhole<T>) return static_cast<T>(AsUnsigned<T>(-1) >> (T(-1) < T(0) ? 1 : 0));
    else return static_cast<T>(Infinity());
  }
};

// ---- Conversions.

// A real that is not NaN; as a whole number towards zero, clamped to the range.
template <typename To, typename From>
MESHWORK_PORTABLE To Bound(From x) {
  if constexpr (kIsWhole<To>) {
    if (x <= static_cast<From>(Limits<To>::Least())) return Limits<To>::Least();
    if (x >= static_cast<From>(Limits<To>::Most())) return Limits<To>::Most();
  }
  return static_cast<To>(x);
}
// A real as a whole number: as Bound; NaN is 0.
template <typename To, typename From>
MESHWORK_PORTABLE To Clamped(From x) {
  if (x != x) return 0;
  return Bound<To>(x);
}

// Rounds to a float that is to be rounded again, so that the second rounding sees on which side of a tie x lies: of two
// neighbours the one whose last bit is set (Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved
// Algorithms Using Rounding to Odd", 2008, section 3).
MESHWORK_PORTABLE float ToOdd(double x) {
  const float nearest = static_cast<float>(x);
  if (nearest == x || x != x) return nearest;
  const bool beyond = Fabs(static_cast<double>(nearest)) > Fabs(x);
  return FloatOfBits((BitsOf(nearest) - (beyond ? 1 : 0)) | 1);
}
template <typename T>
MESHWORK_PORTABLE float ToOdd(T x) {
  if constexpr (!kIsWhole<T> || sizeof(T) == 1) {
    return static_cast<float>(x);  // exact: a float, a bool, a byte
  } else {
    if constexpr (sizeof(T) == 8) {
      const T exact = T(1) << 53, lost = (T(1) << 11) - 1;
      if (x <= -exact || x >= exact) x = (x & ~lost) | ((x & lost) != 0 ? lost + 1 : 0);
    }
    return ToOdd(static_cast<double>(x));
  }
}

// ---- Arithmetic.

template <typename T>
MESHWORK_PORTABLE T Sum(T a, T b) {
  if constexpr (kIsWhole<T>) return static_cast<T>(AsUnsigned<T>(a) + AsUnsigned<T>(b));
  else return a + b;
}
template <typename T>
MESHWORK_PORTABLE T Difference(T a, T b) {
  if constexpr (kIsWhole<T>) return static_cast<T>(AsUnsigned<T>(a) - AsUnsigned<T>(b));
  else return a - b;
}
template <typename T>
MESHWORK_PORTABLE T Product(T a, T b) {
  if constexpr (kIsWhole<T>) return static_cast<T>(AsUnsigned<T>(a) * AsUnsigned<T>(b));
  else return a * b;
}
template <typename T>
MESHWORK_PORTABLE T Negated(T a) {
  if constexpr (kIsWhole<T>) return Difference(T(0), a);
  else return -a;
}
template <typename T>
MESHWORK_PORTABLE T Quotient(T a, T b) {
  if constexpr (kIsWhole<T>) {
    if (b == 0) return 0;
    if (b == -1) return Negated(a);  // also of the least number
  }
  return a / b;
}
// a - (a/b) b, so that the remainder by 0 is a.
template <typename T>
MESHWORK_PORTABLE T Remainder(T a, T b) {
  if constexpr (kIsWhole<T>) {
    if (b == 0) return a;
    return b == -1 ? 0 : a % b;
  } else {
    return Fmod(a, b);
  }
}
// By squaring; a^-n is 1/a^n rounded towards zero, and 0 for a = 0, as division has it.
template <typename T>
MESHWORK_PORTABLE T Power(T a, T b) {
  if constexpr (kIsWhole<T>) {
    if (b < 0) return a == 1 ? 1 : a != -1 ? 0 : b % 2 == 0 ? 1 : -1;
    T result = 1;
    for (; b > 0; b /= 2, a = Product(a, a))
      if (b % 2 == 1) result = Product(result, a);
    return result;
  } else {
    return Pow(a, b);
  }
}
template <typename T>
MESHWORK_PORTABLE T Absolute(T a) {
  if constexpr (kIsWhole<T>) return a < 0 ? Negated(a) : a;
  else return Fabs(a);
}

// ---- Order.

// NaN if either is; 0 is above -0, so that the order of the elements does not change an extremum.
template <typename T>
MESHWORK_PORTABLE T LargerByTests(T a, T b) {
  if constexpr (kIsWhole<T>) return a > b ? a : b;
  else return a > b || a != a || (a == b && !HasSign(a)) ? a : b;
}
template <typename T>
MESHWORK_PORTABLE T SmallerByTests(T a, T b) {
  if constexpr (kIsWhole<T>) return a < b ? a : b;
  else return a < b || a != a || (a == b && HasSign(a)) ? a : b;
}
// Between low and high, low <= high; NaN stays.
template <typename T>
MESHWORK_PORTABLE T ClippedByTests(T x, T low, T high) {
  return x < low ? low : x > high ? high : x;
}
// A GPU has instructions for those of floats.
template <typename T>
MESHWORK_PORTABLE T Larger(T a, T b) {
  return LargerByTests(a, b);
}
template <typename T>
MESHWORK_PORTABLE T Smaller(T a, T b) {
  return SmallerByTests(a, b);
}
template <typename T>
MESHWORK_PORTABLE T Clipped(T x, T low, T high) {
  return ClippedByTests(x, low, high);
}
// In a sort NaN is the largest.
template <typename T>
MESHWORK_PORTABLE bool SortsBelow(T a, T b) {
  return a < b || (b != b && a == a);
}

// ---- Bits.

template <typename T>
MESHWORK_PORTABLE T Flipped(T x) {
  if constexpr (T(2) == T(1)) return !x;  // a bool
  else return static_cast<T>(~x);
}
// An amount that is negative or not below the width shifts every bit out.
template <typename T>
MESHWORK_PORTABLE bool ShiftsOut(T amount) {
  return AsUnsigned<T>(amount) >= 8 * sizeof(T);
}
template <typename T>
MESHWORK_PORTABLE T ShiftedLeft(T x, T amount) {
  return ShiftsOut(amount) ? 0 : static_cast<T>(AsUnsigned<T>(x) << amount);
}
template <typename T>
MESHWORK_PORTABLE T ShiftedRight(T x, T amount) {
  return ShiftsOut(amount) ? static_cast<T>(x < 0 ? -1 : 0) : static_cast<T>(x >> amount);
}
template <typename T>
MESHWORK_PORTABLE T ShiftedRightUnsigned(T x, T amount) {
  return ShiftsOut(amount) ? 0 : static_cast<T>(AsUnsigned<T>(x) >> amount);
}

}  // namespace meshwork::portable
