// Bytes of safetensors files, right and wrong ones, and tensors to write.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// A file with this header and data.
inline std::string EncodeSafetensors(std::string_view header, std::string_view data = "") {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

inline std::string RawBytes(const Tensor& tensor) {
  return std::string(static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes()));
}

inline Tensor BoolTensor(const std::vector<uint8_t>& values) {
  Tensor tensor(Type{BOOL, {static_cast<int64_t>(values.size())}});
  std::memcpy(tensor.raw(), values.data(), values.size());
  return tensor;
}

}  // namespace meshwork
