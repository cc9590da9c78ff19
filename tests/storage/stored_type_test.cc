#include "meshwork/storage/stored_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/bfloat16.h"
#include "support/half.h"

namespace meshwork::stored_type_test {
namespace {

constexpr StoredType kStoredTypes[] = {StoredType::kF64,  StoredType::kF32, StoredType::kF16,
                                       StoredType::kBF16, StoredType::kI64, StoredType::kI32,
                                       StoredType::kI16,  StoredType::kI8,  StoredType::kU32,
                                       StoredType::kU16,  StoredType::kU8,  StoredType::kBool};

// Reads elements of the C++ type From, that lie at an odd address, as To.
template <typename To, typename From>
std::vector<To> Converted(StoredType type, const std::vector<From>& from) {
  std::vector<std::byte> bytes(1 + from.size() * sizeof(From));
  std::memcpy(bytes.data() + 1, from.data(), bytes.size() - 1);
  std::vector<To> to(from.size());
  Convert(type, bytes.data() + 1, DTypeOf<To>(), reinterpret_cast<std::byte*>(to.data()),
          static_cast<int64_t>(from.size()));
  return to;
}

TEST(StoredTypeTest, ReadsEveryHalfExactly) {
  std::vector<uint16_t> halves;
  for (int bits = 0; bits < 65536; ++bits) halves.push_back(static_cast<uint16_t>(bits));
  const auto floats = Converted<float>(StoredType::kF16, halves);
  const auto doubles = Converted<double>(StoredType::kF16, halves);
  const auto bfloats = Converted<BFloat16>(StoredType::kF16, halves);
  for (size_t i = 0; i < halves.size(); ++i) {
    const double value = ValueOfHalf(halves[i]);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(floats[i]) && std::isnan(doubles[i]) && std::isnan(bfloats[i])) << i;
      continue;
    }
    EXPECT_EQ(floats[i], value) << i;
    EXPECT_EQ(doubles[i], value) << i;
    EXPECT_EQ(std::signbit(floats[i]), std::signbit(value)) << i;
    EXPECT_EQ(bfloats[i].bits, BFloat16(static_cast<float>(value)).bits) << i;
  }
}

TEST(StoredTypeTest, ReadsEveryBfloatAsFloatsExactly) {
  std::vector<uint16_t> all;
  for (int bits = 0; bits < 65536; ++bits) all.push_back(static_cast<uint16_t>(bits));
  const auto floats = Converted<float>(StoredType::kBF16, all);
  const auto doubles = Converted<double>(StoredType::kBF16, all);
  for (size_t i = 0; i < all.size(); ++i) {
    // bf16 is the upper half of an f32.
    const uint32_t bits = static_cast<uint32_t>(all[i]) << 16;
    float expected;
    std::memcpy(&expected, &bits, sizeof(expected));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(floats[i]) && std::isnan(doubles[i])) << i;
    } else {
      EXPECT_EQ(floats[i], expected) << i;
      EXPECT_EQ(doubles[i], static_cast<double>(expected)) << i;
    }
  }
}

TEST(StoredTypeTest, ReadsFloatsAsDoublesExactly) {
  const std::vector<float> floats = {0.1f, -1e-45f, 3e38f, INFINITY, -0.0f};
  const auto doubles = Converted<double>(StoredType::kF32, floats);
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(doubles[i], static_cast<double>(floats[i]));
  EXPECT_TRUE(std::signbit(doubles[4]));
}

template <typename To, typename From>
void ExpectReadsIntegers(StoredType type) {
  using Limits = std::numeric_limits<From>;
  const std::vector<From> from = {Limits::min(), static_cast<From>(-1), 0, 1, 100, Limits::max()};
  const std::vector<To> to = Converted<To>(type, from);
  for (size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(static_cast<long double>(to[i]), static_cast<long double>(from[i])) << StoredTypeName(type);
}

TEST(StoredTypeTest, ReadsIntegersExactly) {
  ExpectReadsIntegers<int32_t, int8_t>(StoredType::kI8);
  ExpectReadsIntegers<int64_t, int8_t>(StoredType::kI8);
  ExpectReadsIntegers<int32_t, uint8_t>(StoredType::kU8);
  ExpectReadsIntegers<int64_t, uint8_t>(StoredType::kU8);
  ExpectReadsIntegers<int32_t, int16_t>(StoredType::kI16);
  ExpectReadsIntegers<int64_t, int16_t>(StoredType::kI16);
  ExpectReadsIntegers<int32_t, uint16_t>(StoredType::kU16);
  ExpectReadsIntegers<int64_t, uint16_t>(StoredType::kU16);
  ExpectReadsIntegers<int64_t, uint32_t>(StoredType::kU32);
  ExpectReadsIntegers<int64_t, int32_t>(StoredType::kI32);
}

// The table of storage/safetensors.h.
TEST(StoredTypeTest, ReadsAsTheTableSaysAndNotOtherwise) {
  const std::set<std::pair<StoredType, DType>> table = {
      {StoredType::kF64, F64}, {StoredType::kI64, I64},   {StoredType::kBool, BOOL}, {StoredType::kF32, F32},
      {StoredType::kF32, F64}, {StoredType::kBF16, BF16}, {StoredType::kBF16, F32},  {StoredType::kBF16, F64},
      {StoredType::kF16, F32}, {StoredType::kF16, F64},   {StoredType::kF16, BF16},  {StoredType::kI32, I32},
      {StoredType::kI32, I64}, {StoredType::kI8, I32},    {StoredType::kI8, I64},    {StoredType::kU8, I32},
      {StoredType::kU8, I64},  {StoredType::kI16, I32},   {StoredType::kI16, I64},   {StoredType::kU16, I32},
      {StoredType::kU16, I64}, {StoredType::kU32, I64},   {StoredType::kF16, F16},   {StoredType::kI8, I8},
      {StoredType::kU8, U8}};
  for (StoredType type : kStoredTypes)
    for (DType dtype : kAllDTypes)
      EXPECT_EQ(CanReadAs(type, dtype), table.contains({type, dtype}))
          << StoredTypeName(type) << " as " << DTypeName(dtype);
}

TEST(StoredTypeTest, NamesAndSizesAgree) {
  for (StoredType type : kStoredTypes) {
    EXPECT_EQ(StoredTypeFromName(StoredTypeName(type)), type);
    EXPECT_TRUE(CanReadAs(type, ReadType(type)));
    // All names but BOOL end with the bits of an element.
    const std::string name(StoredTypeName(type));
    const size_t digits = name.find_first_of("0123456789");
    const int64_t bits = digits == std::string::npos ? 8 : std::stoi(name.substr(digits));
    EXPECT_EQ(8 * StoredTypeSize(type), bits) << name;
  }
  for (DType dtype : kAllDTypes) {
    EXPECT_EQ(ReadType(WrittenType(dtype)), dtype);
    EXPECT_EQ(StoredTypeSize(WrittenType(dtype)), DTypeSize(dtype));
  }
  for (const char* name : {"", "f32", "U64", "F8_E4M3"}) EXPECT_FALSE(StoredTypeFromName(name).has_value());
}

}  // namespace
}  // namespace meshwork::stored_type_test
