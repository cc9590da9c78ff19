// The weights with which trainings of these tests begin.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/dtensor.h"

namespace meshwork {

// Element `i` of each f32 variable, in [0, 1].
inline float StartWeight(size_t i) {
  return 0.5F + 0.5F * static_cast<float>(std::sin(7.0 * static_cast<double>(i)));
}

inline absl::Status PackStartWeights(std::map<std::string, DTensor>& state) {
  for (auto& [name, variable] : state) {
    const Type& type = variable.type();
    if (type.dtype != F32) continue;
    std::vector<float> numbers(static_cast<size_t>(type.num_elements()));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = StartWeight(i);
    MESHWORK_RETURN_IF_ERROR(Pack(Tensor::From<float>(type.shape, numbers), variable));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
