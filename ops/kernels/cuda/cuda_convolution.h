// A row `conv`, `conv_input_grad` or `conv_filter_grad` as one call of a convolution library such as cuDNN.
//
//   conv f32[8,32,32,64] f32[3,3,64,128]    images [n,h,w,c]; the library takes the filter as [o,h,w,c], and so it is
//                                           transposed before: [3*3*64, 128] -> [128, 3*3*64]
//   conv_filter_grad                        the library's result is [o,h,w,c], and is transposed behind
//
// A convolution whose filter has one position, with stride 1 and no padding, is a product of matrices, which
// cuda_product.h makes.
//
// Nothing here needs CUDA. Plain data; pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// x: [n, in.., c], y: [n, out.., o], dense, channels last; the filter w: [o, filter.., c / groups], dense. Image element r of y
// sees the elements r * stride - low + k * dilation of x, k < filter.
struct CudaConvolution {
  enum class Kind { kForward, kInputGrad, kFilterGrad };
  struct Dim {
    int64_t in = 1, out = 1, filter = 1, stride = 1, dilation = 1, low = 0, high = 0;
    bool operator==(const Dim&) const = default;
  };

  Kind kind = Kind::kForward;
  DType dtype = F32;  // of all three; bf16 is summed in f32
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::vector<Dim> dims = {};  // two or three; the op's single dim is the second of two

  int64_t taps() const;  // positions of the filter
  int64_t filter_elements() const { return taps() * (in_channels / groups) * out_channels; }
  int64_t in_positions() const;  // of all images
  // Whether each position of y is the product of the same position of x and the filter, so that all positions are one
  // product.
  bool is_product() const;
  bool operator==(const CudaConvolution&) const = default;
};

// nullopt if the row is another one, or needs its own kernel: for convolutions with an empty tensor, with a tensor of
// more than 2^31-1 elements, with negative padding, or with padding that depends on the place of the device's block.
std::optional<CudaConvolution> MakeCudaConvolution(const OpRow& row, const KernelSpec& spec);

// The spec of the row `transpose` that brings the filter from [filter.., c / groups, o] to [o, filter.., c / groups], or back.
KernelSpec FilterTranspose(const CudaConvolution& convolution);

}  // namespace meshwork
