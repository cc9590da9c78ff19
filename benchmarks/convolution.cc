// convolution/<sizes>/<what>: the rows conv, conv_input_grad and conv_filter_grad on one core, in turn with
// oneDNN on the same sizes. oneDNN uses the (blocked) layouts that it prefers, so that nothing has to be
// reordered. Counters: gflops, and of_blocked, oneDNN's time divided by ours.
#include <dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"
#include "meshwork/ops/kernels/blas/dnnl_api.h"
#include "meshwork/ops/kernels/blas/library_threads.h"

namespace meshwork::convolution_benchmark {
namespace {

struct Sizes {
  const char* name;
  int64_t images, side, in, out, filter, stride, padding;  // square images and filters
  int64_t result() const { return (side + 2 * padding - filter) / stride + 1; }
  double gflop() const {
    return 2e-9 * static_cast<double>(images * result() * result() * in * out * filter * filter);
  }
};

const Sizes kSizes[] = {
    {"28x28x1_32_3x3", 64, 28, 1, 32, 3, 1, 0},      {"224x224x3_64_7x7s2", 1, 224, 3, 64, 7, 2, 3},
    {"56x56x64_64_3x3", 4, 56, 64, 64, 3, 1, 1},     {"28x28x128_128_3x3", 4, 28, 128, 128, 3, 1, 1},
    {"14x14x256_256_3x3", 8, 14, 256, 256, 3, 1, 1}, {"56x56x64_128_3x3s2", 4, 56, 64, 128, 3, 2, 1},
    {"56x56x64_256_1x1", 4, 56, 64, 256, 1, 1, 0}};

enum class What { kForward, kInputGrad, kFilterGrad };
constexpr const char* kNames[] = {"forward", "input_grad", "filter_grad"};
constexpr const char* kRows[] = {"conv", "conv_input_grad", "conv_filter_grad"};

// ---- Ours.

class Ours {
 public:
  Ours(const Sizes& s, What what) {
    const Type x{F32, {s.images, s.side, s.side, s.in}}, w{F32, {s.filter, s.filter, s.in, s.out}};
    const Type y{F32, {s.images, s.result(), s.result(), s.out}};
    const Type& result = what == What::kForward ? y : what == What::kInputGrad ? x : w;
    const std::vector<Type> operands = what == What::kForward     ? std::vector<Type>{x, w}
                                       : what == What::kInputGrad ? std::vector<Type>{y, w}
                                                                  : std::vector<Type>{x, y};
    const OpRow& row = GetOp(kRows[static_cast<int>(what)]);
    const std::vector<int64_t> strides(2, s.stride), padding(2, s.padding);
    Attrs given{{"strides", strides}, {"low", padding}, {"high", padding}};
    if (what != What::kForward)
      given.Set("shape", std::vector<int64_t>(result.shape.begin(), result.shape.end()));
    KernelSpec spec{.attrs = Graph::CompleteAttrs(row, given).value()};
    for (const Type& type : operands) Add(type, spec.operands, in_blocks_);
    Add(result, spec.results, out_blocks_);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (i + 1 < tensors_.size()) in_.push_back(tensors_[i].raw());
      else out_.push_back(tensors_[i].raw());
    }
    kernel_ = CpuKernelOf(row)(spec);
  }

  void Run() const {
    kernel_.run({.in = in_,
                 .out = out_,
                 .in_blocks = in_blocks_,
                 .out_blocks = out_blocks_,
                 .begin = 0,
                 .end = kernel_.units});
  }

 private:
  void Add(const Type& type, std::vector<TensorSpec>& specs, std::vector<Block>& blocks) {
    specs.push_back({type, type});
    Tensor& tensor = tensors_.emplace_back(type);
    int64_t i = 0;
    for (float& x : tensor.mutable_values<float>()) x = 0.25f + static_cast<float>(i++ * 37 % 101) / 50;
    Block& block = blocks.emplace_back();
    for (const int64_t size : type.shape) block.push_back({0, size});
  }

  Kernel kernel_;
  std::vector<Tensor> tensors_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<Block> in_blocks_, out_blocks_;
};

// ---- oneDNN's.

class Blocked {
 public:
  Blocked(const Sizes& s, What what) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const DnnlMemoryDesc x = Any({s.images, s.in, s.side, s.side}),
                         w = Any({s.out, s.in, s.filter, s.filter});
    const DnnlMemoryDesc y = Any({s.images, s.out, s.result(), s.result()});
    const dnnl_dims_t strides = {s.stride, s.stride}, padding = {s.padding, s.padding}, dilations = {0, 0};
    const DnnlConvolutionDesc desc{x.get(), w.get(), y.get(), strides, dilations, padding, padding};
    const Description forward = Describe(dnnl_forward_training, desc, nullptr);
    if (what == What::kForward) {
      Prepare(forward, {{DNNL_ARG_SRC, dnnl_query_src_md},
                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                        {DNNL_ARG_DST, dnnl_query_dst_md}});
    } else if (what == What::kInputGrad) {
      Prepare(Describe(dnnl_backward_data, desc, forward.get()),
              {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
               {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
               {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md}});
    } else {
      Prepare(Describe(dnnl_backward_weights, desc, forward.get()),
              {{DNNL_ARG_SRC, dnnl_query_src_md},
               {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
               {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md}});
    }
  }

  void Run() { primitive_.execute(stream_, arguments_); }

 private:
  using Description = dnnl::handle<dnnl_primitive_desc_t>;
  struct Argument {
    int name;
    dnnl_query_t query;
  };

  // In a layout of oneDNN's choice.
  static DnnlMemoryDesc Any(const std::vector<dnnl_dim_t>& sizes) {
    return DnnlMemoryDesc::Tagged(sizes, dnnl_format_tag_any);
  }
  Description Describe(dnnl_prop_kind_t kind, const DnnlConvolutionDesc& desc,
                       const_dnnl_primitive_desc_t forward) const {
    dnnl_primitive_desc_t created = nullptr;
    CheckDnnl(CreateConvolution(kind, desc, forward, nullptr, engine_.get(), &created), "CreateConvolution");
    return Description(created);
  }

  void Prepare(const Description& description, const std::vector<Argument>& arguments) {
    primitive_ = dnnl::primitive(description.get());
    for (const Argument& argument : arguments) Give(argument, description);
  }
  void Give(const Argument& argument, const Description& description) {
    const DnnlMemoryDescPtr desc = dnnl_primitive_desc_query_md(description.get(), argument.query, 0);
    dnnl_memory_t created = nullptr;
    CheckDnnl(dnnl_memory_create(&created, desc, engine_.get(), DNNL_MEMORY_ALLOCATE), "dnnl_memory_create");
    const dnnl::memory memory(created);
    auto* values = static_cast<float*>(memory.get_data_handle());
    for (size_t i = 0; i < dnnl_memory_desc_get_size(desc) / sizeof(float); ++i)
      values[i] = 0.25f + static_cast<float>(i * 37 % 101) / 50;
    arguments_[argument.name] = memory;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

absl::Status Measure(benchmark::State& state, const Sizes& sizes, What what) {
  const SingleThreadedLibraries single;
  const Ours ours(sizes, what);
  Blocked blocked(sizes, what);
  ours.Run();
  blocked.Run();
  std::vector<double> own, theirs;
  for (auto _ : state) {
    own.push_back(Seconds([&] { ours.Run(); }));
    theirs.push_back(Seconds([&] { blocked.Run(); }));
    state.SetIterationTime(own.back());
  }
  const double seconds = Median(std::move(own));
  state.counters["gflops"] = sizes.gflop() / seconds;
  state.counters["of_blocked"] = Median(std::move(theirs)) / seconds;
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const Sizes& sizes : kSizes)
    for (const What what : {What::kForward, What::kInputGrad, What::kFilterGrad})
      RegisterMeasurement(fmt::format("convolution/{}/{}", sizes.name, kNames[static_cast<int>(what)]),
                          benchmark::kMicrosecond,
                          [&sizes, what](benchmark::State& state) { return Measure(state, sizes, what); });
  return true;
}();

}  // namespace
}  // namespace meshwork::convolution_benchmark
