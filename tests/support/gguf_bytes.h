// Bytes of GGUF files, right and wrong ones.
//
//   EncodeGguf({GgufKey("general.name", "tiny"), GgufKey("llama.block_count", uint32_t{2})},
//              {{.name = "w", .shape = {2, 32}, .type = GgmlType::kQ8_0, .data = std::string(2 * 34, '\0')}});
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "meshwork/storage/ggml_type.h"
#include "support/half.h"

namespace meshwork {

// The bytes of a number, little-endian as those of this machine.
template <typename T>
std::string NumberBytes(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}
inline std::string GgufString(std::string_view text) {
  return NumberBytes<uint64_t>(text.size()).append(text);
}

// The format's number for the type of a value.
template <typename T>
constexpr uint32_t GgufTypeOf() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  else if constexpr (std::is_same_v<T, int8_t>) return 1;
  else if constexpr (std::is_same_v<T, uint16_t>) return 2;
  else if constexpr (std::is_same_v<T, int16_t>) return 3;
  else if constexpr (std::is_same_v<T, uint32_t>) return 4;
  else if constexpr (std::is_same_v<T, int32_t>) return 5;
  else if constexpr (std::is_same_v<T, float>) return 6;
  else if constexpr (std::is_same_v<T, bool>) return 7;
  else if constexpr (std::is_same_v<T, uint64_t>) return 10;
  else if constexpr (std::is_same_v<T, int64_t>) return 11;
  else if constexpr (std::is_same_v<T, double>) return 12;
  else return 8;
}

// A key, the number of a type, and bytes that are its value or not.
inline std::string GgufRawKey(std::string_view key, uint32_t type, std::string_view value) {
  return GgufString(key) + NumberBytes(type).append(value);
}
template <typename T>
std::string GgufKey(std::string_view key, T value) {
  if constexpr (std::is_arithmetic_v<T>) return GgufRawKey(key, GgufTypeOf<T>(), NumberBytes(value));
  else return GgufRawKey(key, 8, GgufString(value));
}
// Of an array: the type and number of its items, and they.
template <typename T>
std::string GgufArrayBytes(const std::vector<T>& items) {
  std::string bytes = NumberBytes(GgufTypeOf<T>()) + NumberBytes<uint64_t>(items.size());
  for (const T& item : items) {
    if constexpr (std::is_arithmetic_v<T>) bytes += NumberBytes(item);
    else bytes += GgufString(item);
  }
  return bytes;
}
template <typename T>
std::string GgufKey(std::string_view key, const std::vector<T>& items) {
  return GgufRawKey(key, 9, GgufArrayBytes(items));
}

struct GgufTensorBytes {
  std::string name;
  std::vector<uint64_t> shape;  // row-major
  GgmlType type = GgmlType::kF32;
  std::string data = {};
  std::optional<uint64_t> begin = {};  // instead of where the data is put
};

struct GgufBeginning {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensors = {}, keys = {};  // instead of the numbers of those that follow
  uint64_t alignment = 32;
};

inline std::string EncodeGguf(const std::vector<std::string>& keys,
                              const std::vector<GgufTensorBytes>& tensors = {},
                              const GgufBeginning& beginning = {}) {
  std::string header = beginning.magic + NumberBytes(beginning.version) +
                       NumberBytes<uint64_t>(beginning.tensors.value_or(tensors.size())) +
                       NumberBytes<uint64_t>(beginning.keys.value_or(keys.size()));
  for (const std::string& key : keys) header += key;
  const auto align = [&](std::string& bytes) {
    bytes.resize((bytes.size() + beginning.alignment - 1) / beginning.alignment * beginning.alignment);
  };
  std::string data;
  for (const GgufTensorBytes& tensor : tensors) {
    align(data);
    header += GgufString(tensor.name) + NumberBytes(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) header += NumberBytes(tensor.shape[d]);
    header += NumberBytes(static_cast<uint32_t>(tensor.type)) +
              NumberBytes<uint64_t>(tensor.begin.value_or(data.size()));
    data += tensor.data;
  }
  align(header);
  return header + data;
}

// What elements these bytes are, by the formulas of the format, in double.
inline std::vector<double> GgmlNumbers(GgmlType type, std::string_view bytes) {
  std::vector<double> numbers;
  const auto byte = [&](size_t at) { return static_cast<int>(static_cast<unsigned char>(bytes[at])); };
  const auto half = [&](size_t at) { return ValueOfHalf(byte(at) | byte(at + 1) << 8); };
  const auto number = [&](size_t at, auto like) {
    std::memcpy(&like, bytes.data() + at, sizeof(like));
    return static_cast<double>(like);
  };
  switch (type) {
    case GgmlType::kF32:
      for (size_t at = 0; at < bytes.size(); at += 4) numbers.push_back(number(at, float{}));
      break;
    case GgmlType::kF16:
      for (size_t at = 0; at < bytes.size(); at += 2) numbers.push_back(half(at));
      break;
    case GgmlType::kBF16:
      for (size_t at = 0; at < bytes.size(); at += 2) {
        const std::string wide = std::string(2, '\0').append(bytes.substr(at, 2));
        float value;
        std::memcpy(&value, wide.data(), 4);
        numbers.push_back(value);
      }
      break;
    case GgmlType::kQ4_0:
    case GgmlType::kQ4_1: {
      const bool has_minimum = type == GgmlType::kQ4_1;
      const size_t scales = has_minimum ? 4 : 2;
      for (size_t at = 0; at < bytes.size(); at += scales + 16) {
        for (size_t i = 0; i < 32; ++i) {
          const int both = byte(at + scales + i % 16), q = i < 16 ? both % 16 : both / 16;
          numbers.push_back(has_minimum ? half(at) * q + half(at + 2) : half(at) * (q - 8));
        }
      }
      break;
    }
    case GgmlType::kQ8_0:
      for (size_t at = 0; at < bytes.size(); at += 34)
        for (size_t i = 0; i < 32; ++i) numbers.push_back(half(at) * number(at + 2 + i, int8_t{}));
      break;
  }
  return numbers;
}

}  // namespace meshwork
