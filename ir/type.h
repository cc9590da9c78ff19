// Element types and tensor types: f32[128,784].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "meshwork/base/bfloat16.h"
#include "meshwork/base/float16.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// Six dtypes to compute with, and three that only store and feed numbers: f16, u8 and i8. Ops that move elements (slices,
// joins, …) and Cast take all nine, MatMulQ reads the three; every other op refuses them (OpRow::takes_storage).
enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kI64, kBool, kF16, kU8, kI8 };
inline constexpr DType F32 = DType::kF32;
inline constexpr DType F64 = DType::kF64;
inline constexpr DType BF16 = DType::kBF16;
inline constexpr DType I32 = DType::kI32;
inline constexpr DType I64 = DType::kI64;
inline constexpr DType BOOL = DType::kBool;
inline constexpr DType F16 = DType::kF16;
inline constexpr DType U8 = DType::kU8;
inline constexpr DType I8 = DType::kI8;
inline constexpr DType kComputeDTypes[] = {F32, F64, BF16, I32, I64, BOOL};
inline constexpr DType kAllDTypes[] = {F32, F64, BF16, I32, I64, BOOL, F16, U8, I8};

std::string_view DTypeName(DType dtype);                     // "f32"
absl::StatusOr<DType> DTypeFromName(std::string_view name);  // error: unknown, with the nearest
int64_t DTypeSize(DType dtype);                              // bytes per element; bool is 1
inline bool IsStorage(DType dtype) { return dtype == F16 || dtype == U8 || dtype == I8; }
// Among the dtypes to compute with: real numbers; whole numbers.
inline bool IsFloat(DType dtype) { return dtype == F32 || dtype == F64 || dtype == BF16; }
inline bool IsInteger(DType dtype) { return dtype == I32 || dtype == I64; }
// The dtype in which numbers of `dtype` are added up: f32 for bf16, which would lose most of a sum.
inline DType WideDType(DType dtype) { return dtype == BF16 ? F32 : dtype; }
// Among all dtypes: real numbers; the others are whole numbers or bools.
inline bool IsReal(DType dtype) { return IsFloat(dtype) || dtype == F16; }

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) return F32;
  else if constexpr (std::is_same_v<T, double>) return F64;
  else if constexpr (std::is_same_v<T, BFloat16>) return BF16;
  else if constexpr (std::is_same_v<T, int32_t>) return I32;
  else if constexpr (std::is_same_v<T, int64_t>) return I64;
  else if constexpr (std::is_same_v<T, Float16>) return F16;
  else if constexpr (std::is_same_v<T, uint8_t>) return U8;
  else if constexpr (std::is_same_v<T, int8_t>) return I8;
  else {
    static_assert(std::is_same_v<T, bool>, "not an element type");
    return BOOL;
  }
}

// kIsNarrowReal: whether T is a real type of 16 bits, which is computed in float. kIsReal: whether T is a type of
// real numbers. Compute<T>: the type to compute with: float for those of 16 bits, T itself for every other T.
template <typename T>
inline constexpr bool kIsNarrowReal = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
template <typename T>
inline constexpr bool kIsReal = std::is_floating_point_v<T> || kIsNarrowReal<T>;
template <typename T>
using Compute = std::conditional_t<kIsNarrowReal<T>, float, T>;

namespace internal {
[[noreturn]] void FailDispatch(DType dtype);
}

// Calls f with a value of the C++ type of `dtype`: Dispatch(dtype, [&](auto zero) { using T = decltype(zero);
// … }). REQUIRES: !IsStorage(dtype).
template <typename F>
decltype(auto) Dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: return f(float{});
    case DType::kF64: return f(double{});
    case DType::kBF16: return f(BFloat16{});
    case DType::kI32: return f(int32_t{});
    case DType::kI64: return f(int64_t{});
    case DType::kBool: return f(bool{});
    default: break;
  }
  internal::FailDispatch(dtype);
}
// The same for all dtypes.
template <typename F>
decltype(auto) DispatchAny(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(Float16{});
    case DType::kU8: return f(uint8_t{});
    case DType::kI8: return f(int8_t{});
    default: break;
  }
  return Dispatch(dtype, std::forward<F>(f));
}

// A dtype and a shape: "f32[4,6]".
struct Type {
  DType dtype = F32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t num_elements() const { return NumElements(shape); }
  int64_t bytes() const { return num_elements() * DTypeSize(dtype); }
  std::string ToString() const;  // "f32[128,784]"
  bool operator==(const Type&) const = default;
};

inline constexpr int kMaxRank = 26;  // rules have a letter for each dim

// Errors: a negative size, more than 2^40 elements (a size of 0 counting as 1), more than kMaxRank dims.
absl::Status CheckSize(const Type& type);

}  // namespace meshwork
