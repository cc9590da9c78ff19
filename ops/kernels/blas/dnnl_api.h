// The differences between the C interfaces of oneDNN 2 and 3, and nothing else: how memory descriptors are
// owned, and that in oneDNN 2 a convolution is described before its primitive. Everything else is called by
// oneDNN's own names.
#pragma once

#include <dnnl.h>

#include <cstdint>
#include <span>
#include <utility>

namespace meshwork {

// The parameter type of memory descriptors in each version.
#if DNNL_VERSION_MAJOR >= 3
using DnnlMemoryDescPtr = const_dnnl_memory_desc_t;
#else
using DnnlMemoryDescPtr = const dnnl_memory_desc_t*;
#endif

// A memory descriptor that is owned. Empty until it is assigned to.
class DnnlMemoryDesc {
 public:
  DnnlMemoryDesc() = default;
  // REQUIRES: f32; sizes.size() == strides.size(). Strides are in elements.
  static DnnlMemoryDesc Strided(std::span<const dnnl_dim_t> sizes, std::span<const dnnl_dim_t> strides);
  static DnnlMemoryDesc Tagged(std::span<const dnnl_dim_t> sizes, dnnl_format_tag_t tag);
  static DnnlMemoryDesc CopyOf(DnnlMemoryDescPtr desc);

  DnnlMemoryDesc(DnnlMemoryDesc&& other) noexcept : desc_(std::exchange(other.desc_, {})) {}
  DnnlMemoryDesc& operator=(DnnlMemoryDesc&& other) noexcept {
    std::swap(desc_, other.desc_);
    return *this;
  }
  ~DnnlMemoryDesc();

  DnnlMemoryDescPtr get() const;

 private:
  dnnl_memory_desc_t desc_{};
};

// x, w and y describe the images, the filter and the results, or their gradients. The others hold one number
// per spatial dim; dilations count from 0.
struct DnnlConvolutionDesc {
  DnnlMemoryDescPtr x, w, y;
  const dnnl_dim_t *strides, *dilations, *low, *high;
};

// Makes the description of a primitive. `kind`: dnnl_forward_training, dnnl_backward_data or
// dnnl_backward_weights. `hint`: the description of the forward convolution; only gradients need it. Gives
// oneDNN's error where oneDNN has no such convolution.
dnnl_status_t CreateConvolution(dnnl_prop_kind_t kind, const DnnlConvolutionDesc& desc,
                                const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr,
                                dnnl_engine_t engine, dnnl_primitive_desc_t* created);

// Makes the primitive add to the f32 values that the result already holds.
dnnl_status_t AppendSum(dnnl_post_ops_t post_ops);

// CHECKs that oneDNN's status is a success; `what` names the call.
void CheckDnnl(dnnl_status_t status, const char* what);

}  // namespace meshwork
