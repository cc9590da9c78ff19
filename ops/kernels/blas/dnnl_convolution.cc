#include "meshwork/ops/kernels/blas/dnnl_convolution.h"

#include <algorithm>
#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "meshwork/ops/kernels/blas/dnnl_api.h"
#include "meshwork/ops/kernels/blas/held_signals.h"
#include "meshwork/ops/kernels/blas/library_threads.h"

namespace meshwork {
namespace {

// A handle that is destroyed with its owner.
template <typename T, dnnl_status_t (*kDestroy)(T)>
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  T get() const { return handle_; }
  T* out() { return &handle_; }

 private:
  T handle_ = nullptr;
};
using Description = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Handle<dnnl_primitive_t, dnnl_primitive_destroy>;
using Memory = Handle<dnnl_memory_t, dnnl_memory_destroy>;
using Stream = Handle<dnnl_stream_t, dnnl_stream_destroy>;
using PrimitiveAttrs = Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using PostOps = Handle<dnnl_post_ops_t, dnnl_post_ops_destroy>;

dnnl_engine_t Engine() {
  ReserveForOneDnn();
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t made = nullptr;
    CheckDnnl(dnnl_engine_create(&made, dnnl_cpu, 0), "dnnl_engine_create");
    return made;
  }();
  return engine;
}

dnnl_stream_t ThisThreadsStream() {
  thread_local Stream stream;
  if (stream.get() == nullptr)
    CheckDnnl(dnnl_stream_create(stream.out(), Engine(), dnnl_stream_default_flags), "dnnl_stream_create");
  return stream.get();
}

// A primitive and what its arguments are. The scratchpad is the caller's.
class Prepared {
 public:
  // False: oneDNN has no such convolution.
  bool PrepareConvolution(dnnl_prop_kind_t kind, const DnnlConvolutionDesc& desc,
                          const_dnnl_primitive_desc_t hint) {
    PrimitiveAttrs attrs;
    MakeAttrs(attrs);
    if (CreateConvolution(kind, desc, hint, attrs.get(), Engine(), description_.out()) != dnnl_success)
      return false;
    return dnnl_primitive_create(primitive_.out(), description_.get()) == dnnl_success;
  }
  // From one layout to another; `add`: added to what is there.
  bool PrepareReorder(DnnlMemoryDescPtr from, DnnlMemoryDescPtr to, bool add) {
    PrimitiveAttrs attrs;
    MakeAttrs(attrs);
    PostOps sum;
    if (add) {
      CheckDnnl(dnnl_post_ops_create(sum.out()), "dnnl_post_ops_create");
      CheckDnnl(AppendSum(sum.get()), "dnnl_post_ops_append_sum");
      CheckDnnl(dnnl_primitive_attr_set_post_ops(attrs.get(), sum.get()), "dnnl_primitive_attr_set_post_ops");
    }
    if (dnnl_reorder_primitive_desc_create(description_.out(), from, Engine(), to, Engine(), attrs.get()) !=
        dnnl_success)
      return false;
    return dnnl_primitive_create(primitive_.out(), description_.get()) == dnnl_success;
  }

  const_dnnl_primitive_desc_t description() const { return description_.get(); }
  DnnlMemoryDescPtr Of(dnnl_query_t query) const {
    return dnnl_primitive_desc_query_md(description_.get(), query, 0);
  }
  int64_t scratch_bytes() const {
    return static_cast<int64_t>(dnnl_memory_desc_get_size(Of(dnnl_query_scratchpad_md)));
  }

  struct Argument {
    int name;
    DnnlMemoryDescPtr description;
    const void* data;
  };
  void Run(std::initializer_list<Argument> arguments, void* scratch) const {
    constexpr size_t kMost = 4;
    Memory memories[kMost];
    dnnl_exec_arg_t all[kMost];
    int count = 0;
    const auto add = [&](int name, DnnlMemoryDescPtr description, const void* data) {
      Memory& memory = memories[count];
      CheckDnnl(dnnl_memory_create(memory.out(), description, Engine(), const_cast<void*>(data)),
                "dnnl_memory_create");
      all[count++] = {name, memory.get()};
    };
    for (const Argument& argument : arguments) add(argument.name, argument.description, argument.data);
    add(DNNL_ARG_SCRATCHPAD, Of(dnnl_query_scratchpad_md), scratch);
    const HeldSignals held;
    CheckDnnl(dnnl_primitive_execute(primitive_.get(), ThisThreadsStream(), count, all),
              "dnnl_primitive_execute");
  }

 private:
  static void MakeAttrs(PrimitiveAttrs& attrs) {
    CheckDnnl(dnnl_primitive_attr_create(attrs.out()), "dnnl_primitive_attr_create");
    CheckDnnl(dnnl_primitive_attr_set_scratchpad_mode(attrs.get(), dnnl_scratchpad_mode_user),
              "dnnl_primitive_attr_set_scratchpad_mode");
  }

  Description description_;
  Primitive primitive_;
};

// ---- Descriptions of tensors.

using Dims = absl::InlinedVector<dnnl_dim_t, 6>;

bool IsPossible(const ConvShape& s) {
  bool possible = s.batch > 0 && s.in_channels > 0 && s.out_channels > 0;
  for (const ConvShape::Dim& d : s.dims) possible &= d.in > 0 && d.out > 0 && d.sliding.low >= 0;
  return possible;
}

DnnlMemoryDesc ImagesOf(const ConvShape& s, bool is_x) {
  Dims sizes = {s.batch, is_x ? s.in_channels : s.out_channels};
  for (const ConvShape::Dim& d : s.dims) sizes.push_back(is_x ? d.in : d.out);
  const dnnl_format_tag_t tags[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
  return DnnlMemoryDesc::Tagged(sizes, tags[s.dims.size() - 1]);
}

// The filter as it lies outside: [filter…, ci / groups, row], of which co are ours; oneDNN counts its dims
// [(groups,) co, ci, filter…].
struct Filter {
  Dims sizes, strides;
};

Filter FilterOf(const ConvShape& s, int64_t row) {
  const int64_t in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  Filter filter{.sizes = {out, in}, .strides = {1, row}};
  int64_t stride = row * in;
  Dims spatial_strides(s.dims.size());
  for (size_t d = s.dims.size(); d-- > 0; stride *= s.dims[d].sliding.filter) spatial_strides[d] = stride;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    filter.sizes.push_back(s.dims[d].sliding.filter);
    filter.strides.push_back(spatial_strides[d]);
  }
  if (s.groups > 1) {
    filter.sizes.insert(filter.sizes.begin(), s.groups);
    filter.strides.insert(filter.strides.begin(), out);
  }
  return filter;
}

struct Steps {
  Dims strides, dilations, low, high;
};

Steps StepsOf(const ConvShape& s) {
  Steps steps;
  for (const ConvShape::Dim& d : s.dims) {
    steps.strides.push_back(d.sliding.stride);
    steps.dilations.push_back(d.sliding.dilation - 1);
    steps.low.push_back(d.sliding.low);
    steps.high.push_back((d.out - 1) * d.sliding.stride + d.sliding.extent() - d.in - d.sliding.low);
  }
  return steps;
}

dnnl_prop_kind_t PropKindOf(DnnlConvolution::Kind kind) {
  switch (kind) {
    case DnnlConvolution::Kind::kForward: return dnnl_forward_training;
    case DnnlConvolution::Kind::kInputGrad: return dnnl_backward_data;
    case DnnlConvolution::Kind::kFilterGrad: break;
  }
  return dnnl_backward_weights;
}

class Convolution : public DnnlConvolution {
 public:
  explicit Convolution(Kind kind) : kind_(kind) {}

  bool Prepare(const ConvShape& s, int64_t filter_row) {
    x_ = ImagesOf(s, /*is_x=*/true);
    y_ = ImagesOf(s, /*is_x=*/false);
    const Filter filter = FilterOf(s, filter_row);
    w_ = DnnlMemoryDesc::Strided(filter.sizes, filter.strides);
    const DnnlMemoryDesc any = DnnlMemoryDesc::Tagged(filter.sizes, dnnl_format_tag_any);
    const Steps at = StepsOf(s);
    const DnnlConvolutionDesc desc{
        x_.get(), any.get(), y_.get(), at.strides.data(), at.dilations.data(), at.low.data(), at.high.data()};
    Prepared forward;  // gradients ask how it runs
    if (kind_ != Kind::kForward && !forward.PrepareConvolution(dnnl_forward_training, desc, nullptr))
      return false;
    if (!convolution_.PrepareConvolution(PropKindOf(kind_), desc, forward.description())) return false;
    packed_ = DnnlMemoryDesc::CopyOf(
        convolution_.Of(kind_ == Kind::kFilterGrad ? dnnl_query_diff_weights_md : dnnl_query_weights_md));
    if (kind_ != Kind::kFilterGrad) return reorder_.PrepareReorder(w_.get(), packed_.get(), /*add=*/false);
    return reorder_.PrepareReorder(packed_.get(), w_.get(), /*add=*/false) &&
           adding_reorder_.PrepareReorder(packed_.get(), w_.get(), /*add=*/true);
  }

  int64_t packed_bytes() const override {
    return static_cast<int64_t>(dnnl_memory_desc_get_size(packed_.get()));
  }
  int64_t scratch_bytes() const override {
    const int64_t adding = kind_ == Kind::kFilterGrad ? adding_reorder_.scratch_bytes() : 0;
    return std::max({convolution_.scratch_bytes(), reorder_.scratch_bytes(), adding});
  }

  void Pack(const float* w, void* packed, void* scratch) const override {
    reorder_.Run({{DNNL_ARG_FROM, w_.get(), w}, {DNNL_ARG_TO, packed_.get(), packed}}, scratch);
  }
  void Unpack(const void* packed, bool add, float* w, void* scratch) const override {
    (add ? adding_reorder_ : reorder_)
        .Run({{DNNL_ARG_FROM, packed_.get(), packed}, {DNNL_ARG_TO, w_.get(), w}}, scratch);
  }

  void Run(const void* a, const void* b, void* result, void* scratch) const override {
    switch (kind_) {
      case Kind::kForward:
        return convolution_.Run({{DNNL_ARG_SRC, x_.get(), a},
                                 {DNNL_ARG_WEIGHTS, packed_.get(), b},
                                 {DNNL_ARG_DST, y_.get(), result}},
                                scratch);
      case Kind::kInputGrad:
        return convolution_.Run({{DNNL_ARG_DIFF_DST, y_.get(), a},
                                 {DNNL_ARG_WEIGHTS, packed_.get(), b},
                                 {DNNL_ARG_DIFF_SRC, x_.get(), result}},
                                scratch);
      case Kind::kFilterGrad:
        return convolution_.Run({{DNNL_ARG_SRC, x_.get(), a},
                                 {DNNL_ARG_DIFF_DST, y_.get(), b},
                                 {DNNL_ARG_DIFF_WEIGHTS, packed_.get(), result}},
                                scratch);
    }
  }

 private:
  const Kind kind_;
  DnnlMemoryDesc x_, y_, w_, packed_;
  Prepared convolution_, reorder_, adding_reorder_;
};

}  // namespace

std::shared_ptr<const DnnlConvolution> DnnlConvolution::Make(Kind kind, const ConvShape& shape,
                                                             int64_t filter_row) {
  if (!IsPossible(shape)) return nullptr;
  const SingleThreadedLibraries single;
  auto made = std::make_shared<Convolution>(kind);
  return made->Prepare(shape, filter_row) ? made : nullptr;
}

}  // namespace meshwork
