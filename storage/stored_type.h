// The element types of safetensors files, and what they are read as (the table in storage/safetensors.h).
//
//   StoredTypeFromName("F16")                     // kF16
//   ReadType(StoredType::kF16)                    // F16
//   Convert(StoredType::kF16, from, F32, to, n);  // n elements
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "meshwork/ir/type.h"

namespace meshwork {

enum class StoredType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU32, kU16, kU8, kBool };

std::string_view StoredTypeName(StoredType type);  // "F16"
// Nothing: the format has no such type, or it is not read here.
std::optional<StoredType> StoredTypeFromName(std::string_view name);
std::string StoredTypeNames();            // all of them, for messages: "F64, F32, … and BOOL"
int64_t StoredTypeSize(StoredType type);  // bytes of an element

StoredType WrittenType(DType dtype);  // the type that elements of `dtype` are written as, unchanged
DType ReadType(StoredType type);      // the dtype that elements become unless asked otherwise
bool CanReadAs(StoredType type, DType dtype);
std::string DTypesToReadAs(StoredType type);  // for messages: "f16 or f32 or f64"

// Reads `count` elements at `from` as `dtype`, to `to`. Neither needs to be aligned; they do not overlap.
// REQUIRES: CanReadAs(type, dtype).
void Convert(StoredType type, const std::byte* from, DType dtype, std::byte* to, int64_t count);

}  // namespace meshwork
