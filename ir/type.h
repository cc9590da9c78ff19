// Element types and tensor types: f32[128,784].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"
#include "meshwork/base/bfloat16.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

enum class DType : uint8_t { kF32, kF64, kBF16, kI32, kI64, kBool };
inline constexpr DType F32 = DType::kF32;
inline constexpr DType F64 = DType::kF64;
inline constexpr DType BF16 = DType::kBF16;
inline constexpr DType I32 = DType::kI32;
inline constexpr DType I64 = DType::kI64;
inline constexpr DType BOOL = DType::kBool;
inline constexpr DType kAllDTypes[] = {F32, F64, BF16, I32, I64, BOOL};

std::string_view DTypeName(DType dtype);                     // "f32"
absl::StatusOr<DType> DTypeFromName(std::string_view name);  // error: unknown, with the nearest
int64_t DTypeSize(DType dtype);                              // bytes per element; bool is 1
inline bool IsFloat(DType dtype) { return dtype == F32 || dtype == F64 || dtype == BF16; }
inline bool IsInteger(DType dtype) { return dtype == I32 || dtype == I64; }

template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) return F32;
  else if constexpr (std::is_same_v<T, double>) return F64;
  else if constexpr (std::is_same_v<T, BFloat16>) return BF16;
  else if constexpr (std::is_same_v<T, int32_t>) return I32;
  else if constexpr (std::is_same_v<T, int64_t>) return I64;
  else {
    static_assert(std::is_same_v<T, bool>, "not an element type");
    return BOOL;
  }
}

// kIsReal: whether T is a type of real numbers. Compute<T>: the type to compute with: float for bf16, T
// itself for every other T.
template <typename T>
inline constexpr bool kIsReal = std::is_floating_point_v<T> || std::is_same_v<T, BFloat16>;
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

// Calls f with a value of the C++ type of `dtype`: Dispatch(dtype, [&](auto zero) { using T = decltype(zero);
// … }).
template <typename F>
decltype(auto) Dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: return f(float{});
    case DType::kF64: return f(double{});
    case DType::kBF16: return f(BFloat16{});
    case DType::kI32: return f(int32_t{});
    case DType::kI64: return f(int64_t{});
    case DType::kBool: break;
  }
  return f(bool{});
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
