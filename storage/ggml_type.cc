#include "meshwork/storage/ggml_type.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "fmt/format.h"
#include "meshwork/base/float16.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kBlock = 32;

struct FormRow {
  GgmlType type;
  GgmlForm form;
};

constexpr FormRow kForms[] = {
    {GgmlType::kF32, {StoredType::kF32, 1, 4}},        {GgmlType::kF16, {StoredType::kF16, 1, 2}},
    {GgmlType::kBF16, {StoredType::kBF16, 1, 2}},      {GgmlType::kQ4_0, {StoredType::kF32, kBlock, 18}},
    {GgmlType::kQ4_1, {StoredType::kF32, kBlock, 20}}, {GgmlType::kQ8_0, {StoredType::kF32, kBlock, 34}},
};

// By the numbers of the format; "" where it has none, or has none any more.
constexpr std::string_view kGgmlNames[] = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4",
};

Float16 ReadHalf(const std::byte* from) {
  Float16 half;
  std::memcpy(&half, from, sizeof(half));
  return half;
}

// Calls element(i, q) for the elements of a block of 4 bits each.
template <typename Element>
void ForNibbles(const std::byte* from, Element&& element) {
  for (int64_t i = 0; i < kBlock / 2; ++i) {
    const auto both = std::to_integer<int>(from[i]);
    element(i, static_cast<float>(both & 15));
    element(i + kBlock / 2, static_cast<float>(both >> 4));
  }
}

}  // namespace

std::string GgmlTypeName(GgmlType type) {
  const auto number = static_cast<uint32_t>(type);
  if (number < std::size(kGgmlNames) && !kGgmlNames[number].empty()) return std::string(kGgmlNames[number]);
  return fmt::format("type {}", number);
}

std::string ReadGgmlTypeNames() {
  std::string names;
  for (size_t i = 0; i < std::size(kForms); ++i) {
    if (i > 0) names += i + 1 < std::size(kForms) ? ", " : " and ";
    names += GgmlTypeName(kForms[i].type);
  }
  return names;
}

std::optional<GgmlForm> FormOf(GgmlType type) {
  for (const FormRow& row : kForms)
    if (row.type == type) return row.form;
  return std::nullopt;
}

void Dequantize(GgmlType type, const std::byte* from, int64_t blocks, float* to) {
  const std::optional<GgmlForm> form = FormOf(type);
  MESHWORK_CHECK(form.has_value() && form->block == kBlock, "{} is not quantised", GgmlTypeName(type));
  for (int64_t b = 0; b < blocks; ++b, from += form->bytes, to += kBlock) {
    const float d = ReadHalf(from);
    if (type == GgmlType::kQ4_0) {
      ForNibbles(from + 2, [&](int64_t i, float q) { to[i] = d * (q - 8); });
    } else if (type == GgmlType::kQ4_1) {
      const float m = ReadHalf(from + 2);
      ForNibbles(from + 4, [&](int64_t i, float q) { to[i] = d * q + m; });
    } else {
      for (int64_t i = 0; i < kBlock; ++i)
        to[i] = d * static_cast<float>(std::to_integer<int8_t>(from[2 + i]));
    }
  }
}

int BitsOf(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_0:
    case GgmlType::kQ4_1: return 4;
    case GgmlType::kQ8_0: return 8;
    default: return 0;
  }
}

bool SplitBlocks(GgmlType type, const std::byte* from, int64_t blocks, std::byte* q, Float16* scales,
                 Float16* zeros) {
  constexpr int64_t kHalf = sizeof(Float16);
  const int64_t header = type == GgmlType::kQ4_1 ? 2 * kHalf : kHalf, numbers = kBlock * BitsOf(type) / 8;
  for (int64_t b = 0; b < blocks; ++b, from += header + numbers, q += numbers) {
    scales[b] = ReadHalf(from);
    if (type == GgmlType::kQ4_1) zeros[b] = ReadHalf(from + kHalf);
    if (type == GgmlType::kQ4_0) {
      zeros[b] = Float16(-8 * scales[b]);
      if (std::isinf(static_cast<float>(zeros[b])) && !std::isinf(static_cast<float>(scales[b])))
        return false;
    }
    std::memcpy(q, from + header, static_cast<size_t>(numbers));
  }
  return true;
}

}  // namespace meshwork
