#include "meshwork/ops/kernels/blas/dnnl_api.h"

#include <new>

#include "meshwork/base/status.h"

namespace meshwork {

void CheckDnnl(dnnl_status_t status, const char* what) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();  // the executor makes a status of it
  MESHWORK_CHECK(status == dnnl_success, "oneDNN: {} gives {}", what, static_cast<int>(status));
}

#if DNNL_VERSION_MAJOR >= 3

DnnlMemoryDesc DnnlMemoryDesc::Strided(std::span<const dnnl_dim_t> sizes,
                                       std::span<const dnnl_dim_t> strides) {
  DnnlMemoryDesc made;
  CheckDnnl(dnnl_memory_desc_create_with_strides(&made.desc_, static_cast<int>(sizes.size()), sizes.data(),
                                                 dnnl_f32, strides.data()),
            "dnnl_memory_desc_create_with_strides");
  return made;
}

DnnlMemoryDesc DnnlMemoryDesc::Tagged(std::span<const dnnl_dim_t> sizes, dnnl_format_tag_t tag) {
  DnnlMemoryDesc made;
  CheckDnnl(dnnl_memory_desc_create_with_tag(&made.desc_, static_cast<int>(sizes.size()), sizes.data(),
                                             dnnl_f32, tag),
            "dnnl_memory_desc_create_with_tag");
  return made;
}

DnnlMemoryDesc DnnlMemoryDesc::CopyOf(DnnlMemoryDescPtr desc) {
  DnnlMemoryDesc made;
  CheckDnnl(dnnl_memory_desc_clone(&made.desc_, desc), "dnnl_memory_desc_clone");
  return made;
}

DnnlMemoryDesc::~DnnlMemoryDesc() {
  if (desc_ != nullptr) dnnl_memory_desc_destroy(desc_);
}

DnnlMemoryDescPtr DnnlMemoryDesc::get() const { return desc_; }

dnnl_status_t CreateConvolution(dnnl_prop_kind_t kind, const DnnlConvolutionDesc& d,
                                const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr,
                                dnnl_engine_t engine, dnnl_primitive_desc_t* created) {
  switch (kind) {
    case dnnl_forward_training:
      return dnnl_convolution_forward_primitive_desc_create(created, engine, dnnl_forward_training,
                                                            dnnl_convolution_direct, d.x, d.w, nullptr, d.y,
                                                            d.strides, d.dilations, d.low, d.high, attr);
    case dnnl_backward_data:
      return dnnl_convolution_backward_data_primitive_desc_create(created, engine, dnnl_convolution_direct,
                                                                  d.x, d.w, d.y, d.strides, d.dilations,
                                                                  d.low, d.high, hint, attr);
    case dnnl_backward_weights:
      return dnnl_convolution_backward_weights_primitive_desc_create(created, engine, dnnl_convolution_direct,
                                                                     d.x, d.w, nullptr, d.y, d.strides,
                                                                     d.dilations, d.low, d.high, hint, attr);
    default: return dnnl_invalid_arguments;
  }
}

dnnl_status_t AppendSum(dnnl_post_ops_t post_ops) {
  return dnnl_post_ops_append_sum(post_ops, 1.0f, 0, dnnl_f32);
}

#else

DnnlMemoryDesc DnnlMemoryDesc::Strided(std::span<const dnnl_dim_t> sizes,
                                       std::span<const dnnl_dim_t> strides) {
  DnnlMemoryDesc made;
  CheckDnnl(dnnl_memory_desc_init_by_strides(&made.desc_, static_cast<int>(sizes.size()), sizes.data(),
                                             dnnl_f32, strides.data()),
            "dnnl_memory_desc_init_by_strides");
  return made;
}

DnnlMemoryDesc DnnlMemoryDesc::Tagged(std::span<const dnnl_dim_t> sizes, dnnl_format_tag_t tag) {
  DnnlMemoryDesc made;
  CheckDnnl(
      dnnl_memory_desc_init_by_tag(&made.desc_, static_cast<int>(sizes.size()), sizes.data(), dnnl_f32, tag),
      "dnnl_memory_desc_init_by_tag");
  return made;
}

DnnlMemoryDesc DnnlMemoryDesc::CopyOf(DnnlMemoryDescPtr desc) {
  DnnlMemoryDesc made;
  made.desc_ = *desc;
  return made;
}

DnnlMemoryDesc::~DnnlMemoryDesc() = default;

DnnlMemoryDescPtr DnnlMemoryDesc::get() const { return &desc_; }

dnnl_status_t CreateConvolution(dnnl_prop_kind_t kind, const DnnlConvolutionDesc& d,
                                const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr,
                                dnnl_engine_t engine, dnnl_primitive_desc_t* created) {
  dnnl_convolution_desc_t described;
  dnnl_status_t status;
  switch (kind) {
    case dnnl_forward_training:
      status = dnnl_dilated_convolution_forward_desc_init(&described, dnnl_forward_training,
                                                          dnnl_convolution_direct, d.x, d.w, nullptr, d.y,
                                                          d.strides, d.dilations, d.low, d.high);
      break;
    case dnnl_backward_data:
      status = dnnl_dilated_convolution_backward_data_desc_init(&described, dnnl_convolution_direct, d.x, d.w,
                                                                d.y, d.strides, d.dilations, d.low, d.high);
      break;
    case dnnl_backward_weights:
      status = dnnl_dilated_convolution_backward_weights_desc_init(
          &described, dnnl_convolution_direct, d.x, d.w, nullptr, d.y, d.strides, d.dilations, d.low, d.high);
      break;
    default: return dnnl_invalid_arguments;
  }
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(created, &described, attr, engine, hint);
}

dnnl_status_t AppendSum(dnnl_post_ops_t post_ops) { return dnnl_post_ops_append_sum(post_ops, 1.0f); }

#endif

}  // namespace meshwork
