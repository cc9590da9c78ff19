// Conversions between the tensors of the interpreter and those of the runtime.
#pragma once

#include <cstring>
#include <vector>

#include "meshwork/runtime/tensor/tensor.h"
#include "support/interpreter.h"

namespace meshwork {

inline Tensor ToTensor(const HostTensor& host) {
  Tensor tensor(host.type());
  std::memcpy(tensor.raw(), host.data<char>(), static_cast<size_t>(tensor.bytes()));
  return tensor;
}

inline std::vector<double> NumbersOf(const Tensor& tensor) {
  HostTensor host(tensor.type());
  std::memcpy(host.data<char>(), tensor.raw(), static_cast<size_t>(tensor.bytes()));
  return host.Numbers();
}

}  // namespace meshwork
