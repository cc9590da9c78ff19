#include "meshwork/storage/stored_type.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct StoredRow {
  std::string_view name;
  int64_t size;
  DType read;
};

// In the order of StoredType.
constexpr StoredRow kStoredRows[] = {
    {"F64", 8, F64}, {"F32", 4, F32}, {"F16", 2, F16}, {"BF16", 2, BF16}, {"I64", 8, I64}, {"I32", 4, I32},
    {"I16", 2, I32}, {"I8", 1, I8},   {"U32", 4, I64}, {"U16", 2, I32},   {"U8", 1, U8},   {"BOOL", 1, BOOL},
};

const StoredRow& RowOf(StoredType type) { return kStoredRows[static_cast<size_t>(type)]; }

// Calls f with a value of the C++ type of `type`'s elements.
template <typename F>
void DispatchStored(StoredType type, F&& f) {
  switch (type) {
    case StoredType::kF64: return f(double{});
    case StoredType::kF32: return f(float{});
    case StoredType::kF16: return f(Float16{});
    case StoredType::kBF16: return f(BFloat16{});
    case StoredType::kI64: return f(int64_t{});
    case StoredType::kI32: return f(int32_t{});
    case StoredType::kI16: return f(int16_t{});
    case StoredType::kI8: return f(int8_t{});
    case StoredType::kU32: return f(uint32_t{});
    case StoredType::kU16: return f(uint16_t{});
    case StoredType::kU8: return f(uint8_t{});
    case StoredType::kBool: return f(bool{});
  }
}

template <typename From, typename To>
void ConvertElements(const std::byte* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const auto result = static_cast<To>(static_cast<Compute<From>>(element));  // NOLINT: I8 is a number
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &result, sizeof(To));
  }
}

// Whether elements of type From can be read as another type, To.
template <typename From, typename To>
constexpr bool Widens() {
  if constexpr (std::is_same_v<From, Float16>) return kIsReal<To>;
  else if constexpr (std::is_same_v<From, bool> || std::is_same_v<To, bool>) return false;
  else return kIsReal<From> == kIsReal<To> && sizeof(From) < sizeof(To);
}

}  // namespace

std::string_view StoredTypeName(StoredType type) { return RowOf(type).name; }

std::optional<StoredType> StoredTypeFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kStoredRows); ++i)
    if (kStoredRows[i].name == name) return static_cast<StoredType>(i);
  return std::nullopt;
}

std::string StoredTypeNames() {
  std::string names;
  for (size_t i = 0; i < std::size(kStoredRows); ++i) {
    if (i > 0) names += i + 1 < std::size(kStoredRows) ? ", " : " and ";
    names += kStoredRows[i].name;
  }
  return names;
}

int64_t StoredTypeSize(StoredType type) { return RowOf(type).size; }

StoredType WrittenType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return StoredType::kF32;
    case DType::kF64: return StoredType::kF64;
    case DType::kBF16: return StoredType::kBF16;
    case DType::kI32: return StoredType::kI32;
    case DType::kI64: return StoredType::kI64;
    case DType::kF16: return StoredType::kF16;
    case DType::kU8: return StoredType::kU8;
    case DType::kI8: return StoredType::kI8;
    case DType::kBool: break;
  }
  return StoredType::kBool;
}

DType ReadType(StoredType type) { return RowOf(type).read; }

bool CanReadAs(StoredType type, DType dtype) {
  if (WrittenType(dtype) == type) return true;
  bool can = false;
  DispatchStored(type, [&](auto from) {
    DispatchAny(dtype, [&](auto to) { can = Widens<decltype(from), decltype(to)>(); });
  });
  return can;
}

std::string DTypesToReadAs(StoredType type) {
  std::vector<std::string_view> can;
  for (DType dtype : kAllDTypes)
    if (CanReadAs(type, dtype)) can.push_back(DTypeName(dtype));
  return fmt::format("{}", fmt::join(can, " or "));
}

void Convert(StoredType type, const std::byte* from, DType dtype, std::byte* to, int64_t count) {
  MESHWORK_CHECK(CanReadAs(type, dtype), "{} as {}", StoredTypeName(type), DTypeName(dtype));
  if (WrittenType(dtype) == type) {
    std::memcpy(to, from, static_cast<size_t>(count * DTypeSize(dtype)));
    return;
  }
  DispatchStored(type, [&](auto element) {
    DispatchAny(dtype, [&](auto result) {
      using From = decltype(element);
      using To = decltype(result);
      if constexpr (Widens<From, To>()) ConvertElements<From, To>(from, to, count);
    });
  });
}

}  // namespace meshwork
