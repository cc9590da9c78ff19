// The descriptors of the simulated cuDNN (simulated_cuda.h), and the convolutions that it computes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "meshwork/runtime/cuda/cudnn_api.h"

namespace meshwork {

// Channels last; the filter is [o, filter.., c / groups].
struct SimulatedConvolution {
  CudnnDescriptorType kind = CudnnDescriptorType::kForward;
  CudnnDataType type = CudnnDataType::kFloat32;
  std::vector<int64_t> x, w, y;  // sizes: n, c, spatial..
  std::vector<int64_t> strides, dilations, pre, post;
  std::array<int64_t, 3> alignments = {1, 1, 1};  // of x, w and y, in bytes

  std::array<int64_t, 3> bytes() const;
  // Sums in double and rounds once; with `tf32` it rounds operands, too.
  void Play(bool tf32, std::byte* x_data, std::byte* w_data, std::byte* y_data) const;
};

struct SimulatedDescriptor {
  struct Attribute {
    CudnnType type = CudnnType::kInt64;
    std::vector<std::byte> bytes;
  };
  CudnnDescriptorType type = CudnnDescriptorType::kTensor;
  bool is_final = false;
  std::map<CudnnAttribute, Attribute> attributes = {};
  // Set in an operation's graph, and in the objects made from it.
  std::optional<SimulatedConvolution> convolution = {};
  int engine = -1;
};

struct SimulatedCudnnHandle {
  int device = 0;
  CUstream stream = nullptr;
};

}  // namespace meshwork
