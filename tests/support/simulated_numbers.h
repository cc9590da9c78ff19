// Numbers in memory, as the simulated libraries read and write them.
#pragma once

#include <library_types.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "meshwork/base/bfloat16.h"

namespace meshwork {

inline double ReadNumber(cudaDataType_t type, const std::byte* from) {
  const auto read = [from](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  if (type == CUDA_R_64F) return read(double{});
  if (type == CUDA_R_16BF) return static_cast<double>(static_cast<float>(read(BFloat16())));
  return static_cast<double>(read(float{}));
}

// Rounded once.
inline void WriteNumber(cudaDataType_t type, double value, std::byte* to) {
  const auto narrow = static_cast<float>(value);
  const BFloat16 narrower(narrow);
  if (type == CUDA_R_64F) std::memcpy(to, &value, sizeof(value));
  else if (type == CUDA_R_16BF) std::memcpy(to, &narrower, sizeof(narrower));
  else std::memcpy(to, &narrow, sizeof(narrow));
}

// To 10 bits of mantissa.
inline double RoundToTf32(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
}

}  // namespace meshwork
