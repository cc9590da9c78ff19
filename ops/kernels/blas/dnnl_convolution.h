// oneDNN's convolutions of channels-last f32 images.
#pragma once

#include <cstdint>
#include <memory>

#include "meshwork/ops/kernels/blas/convolution.h"

namespace meshwork {

// One convolution, or a gradient of one, that runs on any number of threads at once. Filters are packed: in
// the layout that oneDNN chooses for this convolution. The caller provides all memory; oneDNN itself
// allocates a few hundred bytes of handles per call.
class DnnlConvolution {
 public:
  enum class Kind {
    kForward,     // x, packed w -> y
    kInputGrad,   // y, packed w -> x
    kFilterGrad,  // x, y -> packed w
  };
  // Filters that are not packed lie in rows of `filter_row` elements, of which shape.out_channels belong to
  // this convolution. Null if oneDNN has no such convolution, a size is zero, or padding is negative.
  static std::shared_ptr<const DnnlConvolution> Make(Kind kind, const ConvShape& shape, int64_t filter_row);

  virtual ~DnnlConvolution() = default;
  virtual int64_t packed_bytes() const = 0;   // of a filter
  virtual int64_t scratch_bytes() const = 0;  // of what a call needs
  // All memory is 64-byte aligned, except that of `w`, x and y.
  virtual void Pack(const float* w, void* packed, void* scratch) const = 0;
  // w = packed, or w += packed.
  virtual void Unpack(const void* packed, bool add, float* w, void* scratch) const = 0;
  // In the order of Kind.
  virtual void Run(const void* a, const void* b, void* result, void* scratch) const = 0;
};

}  // namespace meshwork
