// Pooling: max_pool and sum_pool over windows of channels-last images, their gradients, and composites of
// them.
#include "meshwork/ops/kernels/pooling.h"

#include <limits>
#include <memory>
#include <span>
#include <type_traits>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/elementwise.h"
#include "meshwork/ops/kernels/thread_scratch.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// ---- Inference.

absl::StatusOr<Slidings> CheckPool(const Attrs& attrs, const Type& x) {
  if (!IsFloat(x.dtype)) return InvalidArgument("takes f32, f64 or bf16, got {}; cast it.", x.ToString());
  const Ints& window = attrs.Get<Ints>("window");
  if (window.empty())
    return InvalidArgument("window=[] has no entry for the spatial dims of {}.", x.ToString());
  return ReadSlidings(attrs, x, "x", window);
}

Type PooledType(const Slidings& dims, const Type& x) {
  Type y{x.dtype, {x.shape[0]}};
  for (size_t d = 0; d < dims.size(); ++d) y.shape.push_back(dims[d].Count(x.shape[1 + d]));
  y.shape.push_back(x.shape.back());
  return y;
}

absl::StatusOr<std::vector<Type>> InferSumPool(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckPool(view.attrs, view.operands[0]));
  return std::vector<Type>{PooledType(dims, view.operands[0])};
}

absl::StatusOr<std::vector<Type>> InferMaxPool(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckPool(view.attrs, view.operands[0]));
  const Type y = PooledType(dims, view.operands[0]);
  return std::vector<Type>{y, {I32, y.shape}};
}

absl::Status CheckIndex(const Type& index, const Type& pooled) {
  if (index.dtype == I32 && index.shape == pooled.shape) return absl::OkStatus();
  return InvalidArgument("the index is {}, but that of {} is {}.", index.ToString(), pooled.ToString(),
                         Type{I32, pooled.shape}.ToString());
}

// y: [n,…,c] of x: `shape`.
absl::StatusOr<std::vector<Type>> InferPoolGrad(const OpView& view) {
  const Type& y = view.operands[0];
  const Type x{y.dtype, ToShape(view.attrs.Get<Ints>("shape"))};
  MESHWORK_RETURN_IF_ERROR(CheckSize(x));
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckPool(view.attrs, x));
  if (y.rank() != x.rank() || y.shape[0] != x.shape[0] || y.shape.back() != x.shape.back())
    return InvalidArgument("the gradient is {}; that of x {} has {} images of {} channels.", y.ToString(),
                           x.ToString(), x.shape[0], x.shape.back());
  MESHWORK_RETURN_IF_ERROR(CheckResults(dims, x, "x", y, "the gradient"));
  if (view.operands.size() > 1) MESHWORK_RETURN_IF_ERROR(CheckIndex(view.operands[1], y));
  return std::vector<Type>{x};
}

absl::StatusOr<std::vector<Type>> InferMaxPoolAt(const OpView& view) {
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckPool(view.attrs, view.operands[0]));
  const Type y = PooledType(dims, view.operands[0]);
  MESHWORK_RETURN_IF_ERROR(CheckIndex(view.operands[1], y));
  return std::vector<Type>{y};
}

// ---- Rules: n images, dhw spatial dims of the result, c channels.

Slidings SlidingsOf(const OpView& view) {
  return SlidingsOf(view.attrs, view.operands[0].shape.size() - 2, view.attrs.Get<Ints>("window"));
}

std::string SeenTerm(size_t rank) { return "n" + std::string(rank - 2, '1') + "c"; }
std::string OwnTerm(size_t rank) { return "n" + std::string(SpatialLetters(rank - 2)) + "c"; }

Rule SumPoolRule(const OpView& view) {
  const size_t rank = view.operands[0].shape.size();
  Rule rule =
      MakeRule(SeenTerm(rank) + "->" + OwnTerm(rank), view.operands, view.results, Linear(Which::kAll));
  AddWindowsOfResults(rule, 0, SlidingsOf(view), 0);
  return rule;
}

Rule MaxPoolRule(const OpView& view) {
  const size_t rank = view.operands[0].shape.size();
  Rule rule =
      MakeRule(SeenTerm(rank) + "->" + OwnTerm(rank) + "," + OwnTerm(rank), view.operands, view.results);
  AddWindowsOfResults(rule, 0, SlidingsOf(view), -std::numeric_limits<double>::infinity());
  return rule;
}

Rule MaxPoolAtRule(const OpView& view) {
  const size_t rank = view.operands[0].shape.size();
  Rule rule = MakeRule(SeenTerm(rank) + "," + OwnTerm(rank) + "->" + OwnTerm(rank), view.operands,
                       view.results, MovesElements(Which::kFirst));
  AddWindowsOfResults(rule, 0, SlidingsOf(view), 0);
  return rule;
}

// If windows do not overlap, an element takes the gradient of at most one window.
Passes GradPasses(const Slidings& dims, Which which) {
  for (const Sliding& s : dims)
    if (s.extent() > s.stride) return Linear(which);
  return MovesElements(which);
}

Rule PoolGradRule(const OpView& view) {
  const size_t rank = view.operands[0].shape.size();
  const Slidings dims = SlidingsOf(view);
  const bool has_index = view.operands.size() > 1;
  Rule rule =
      MakeRule(SeenTerm(rank) + (has_index ? "," + SeenTerm(rank) : "") + "->" + OwnTerm(rank), view.operands,
               view.results, GradPasses(dims, has_index ? Which::kFirst : Which::kAll));
  for (size_t o = 0; o < view.operands.size(); ++o) AddWindowsOfElements(rule, static_cast<int>(o), dims);
  return rule;
}

// ---- Gradients.

Value AddLike(std::string_view op, const GradView& view, const std::vector<Operand>& operands,
              const Shape* shape = nullptr) {
  Attrs attrs;
  for (std::string_view name : {"window", "strides", "low", "high", "dilation"})
    attrs.Set(name, view.attrs.Get<Ints>(name));
  if (shape != nullptr) attrs.Set("shape", ToInts(*shape));
  return AddOp(op, operands, attrs);
}

std::vector<Value> SumPoolGrad(const GradView& view) {
  const Shape x = view.operands[0].shape();
  return {AddLike("sum_pool_grad", view, {view.result_grads[0]}, &x)};
}
std::vector<Value> SumPoolGradGrad(const GradView& view) {
  return {AddLike("sum_pool", view, {view.result_grads[0]})};
}
std::vector<Value> MaxPoolGrad(const GradView& view) {
  const Shape x = view.operands[0].shape();
  if (!view.result_grads[0].valid()) return {Value()};
  return {AddLike("max_pool_grad", view, {view.result_grads[0], view.results[1]}, &x)};
}
std::vector<Value> MaxPoolGradGrad(const GradView& view) {
  return {AddLike("max_pool_at", view, {view.result_grads[0], view.operands[1]}), Value()};
}
std::vector<Value> MaxPoolAtGrad(const GradView& view) {
  const Shape x = view.operands[0].shape();
  return {AddLike("max_pool_grad", view, {view.result_grads[0], view.operands[1]}, &x), Value()};
}

// ---- Kernels. A unit is a row of channels of the result, which is made a tile of channels at a time, in
// registers.

constexpr int64_t kChannelTile = 32;

struct Pool {
  std::shared_ptr<const PoolWalk> walk;
  int64_t images, channels;
};

// `x`, `y`: blocks of the pooled and of the results.
Pool PoolOf(const Attrs& attrs, const Shape& x, const Shape& y, PoolWalk::Sees sees) {
  const Slidings slidings = meshwork::SlidingsOf(attrs, x.size() - 2, attrs.Get<Ints>("window"));
  std::vector<PoolWalk::Dim> dims;
  for (size_t d = 0; d < slidings.size(); ++d) dims.push_back({x[1 + d], y[1 + d], slidings[d]});
  return {std::make_shared<const PoolWalk>(dims, sees), x[0], x.back()};
}
Pool ForwardPool(const KernelSpec& spec) {
  return PoolOf(spec.attrs, spec.operands[0].local.shape, spec.results[0].local.shape,
                PoolWalk::Sees::kElements);
}
Pool GradPool(const KernelSpec& spec) {
  return PoolOf(spec.attrs, spec.results[0].local.shape, spec.operands[0].local.shape,
                PoolWalk::Sees::kResults);
}

Kernel RowsKernel(const Pool& pool, size_t operands, std::function<void(const KernelArgs&)> run) {
  return {.run = std::move(run),
          .units = pool.images * pool.walk->rows(),
          .by_rows = true,
          .parts = std::vector<int64_t>(operands, pool.images)};
}

// Calls f(row, what it sees, first channel, channels of the tile) for all rows and tiles. The number of channels of a
// full tile is a compile-time constant.
template <typename F>
void ForEachTile(const Pool& pool, const KernelArgs& args, F&& f) {
  auto* seen = static_cast<PoolWalk::Seen*>(
      static_cast<void*>(ThreadScratch(pool.walk->taps() * static_cast<int64_t>(sizeof(PoolWalk::Seen)))));
  const int64_t channels = pool.channels;
  pool.walk->ForEach(args.begin, args.end, pool.walk->PhasesOf(args.out_blocks[0]), seen,
                     [&](int64_t row, std::span<const PoolWalk::Seen> sees) {
                       int64_t c = 0;
                       for (; c + kChannelTile <= channels; c += kChannelTile)
                         f(row, sees, c, std::integral_constant<int64_t, kChannelTile>());
                       if (c < channels) f(row, sees, c, channels - c);
                     });
}

// out = sum of what the row sees.
template <typename T>
Kernel SumKernel(const Pool& pool) {
  return RowsKernel(pool, 1, OnThisCpu<kMostLevel<T>>([pool](const KernelArgs& args) {
                      const int64_t channels = pool.channels;
                      const T* from = args.In<T>(0);
                      T* out = args.Out<T>(0);
                      ForEachTile(pool, args, [=](int64_t row, auto sees, int64_t c, auto n) {
                        Compute<T> sums[kChannelTile] = {};
                        for (const PoolWalk::Seen& seen : sees) {
                          const T* x = from + seen.row * channels + c;
                          for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<Compute<T>>(x[i]);
                        }
                        T* to = out + row * channels + c;
                        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sums[i]);
                      });
                    }));
}

template <typename T>
Kernel MaxKernel(const Pool& pool) {
  return RowsKernel(pool, 1, OnThisCpu<kMostLevel<T>>([pool](const KernelArgs& args) {
                      const int64_t channels = pool.channels;
                      const T* from = args.In<T>(0);
                      T* out = args.Out<T>(0);
                      int32_t* places = args.Out<int32_t>(1);
                      ForEachTile(pool, args, [=](int64_t row, auto sees, int64_t c, auto n) {
                        Compute<T> most[kChannelTile];
                        int32_t taps[kChannelTile];
                        for (int64_t i = 0; i < n; ++i)
                          most[i] = -std::numeric_limits<Compute<T>>::infinity(), taps[i] = -1;
                        for (const PoolWalk::Seen& seen : sees) {
                          const T* x = from + seen.row * channels + c;
                          for (int64_t i = 0; i < n; ++i) {
                            const auto value = static_cast<Compute<T>>(x[i]);
                            const Compute<T> best = most[i];
                            // Wins if it is larger, or the first NaN. Compilers turn one condition for two values into
                            // a branch, which does not vectorise.
                            const bool wins = !(value <= best) & (best == best);
                            const int32_t mask = -static_cast<int32_t>(wins);
                            most[i] = wins ? value : best;
                            taps[i] = (seen.tap & mask) | (taps[i] & ~mask);
                          }
                        }
                        T* to = out + row * channels + c;
                        int32_t* place = places + row * channels + c;
                        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(most[i]);
                        for (int64_t i = 0; i < n; ++i) place[i] = taps[i];
                      });
                    }));
}

// out = sum of what the row sees where it is seen by its index.
template <typename T>
Kernel MaxGradKernel(const Pool& pool) {
  return RowsKernel(pool, 2, OnThisCpu<kMostLevel<T>>([pool](const KernelArgs& args) {
                      const int64_t channels = pool.channels;
                      const T* from = args.In<T>(0);
                      const int32_t* places = args.In<int32_t>(1);
                      T* out = args.Out<T>(0);
                      ForEachTile(pool, args, [=](int64_t row, auto sees, int64_t c, auto n) {
                        Compute<T> sums[kChannelTile] = {};
                        for (const PoolWalk::Seen& seen : sees) {
                          const T* x = from + seen.row * channels + c;
                          const int32_t* place = places + seen.row * channels + c;
                          for (int64_t i = 0; i < n; ++i) {
                            const auto value = static_cast<Compute<T>>(x[i]);
                            sums[i] += place[i] == seen.tap ? value : Compute<T>(0);
                          }
                        }
                        T* to = out + row * channels + c;
                        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(sums[i]);
                      });
                    }));
}

// out = what the row sees by its index, or 0.
template <typename T>
Kernel MaxAtKernel(const Pool& pool) {
  return RowsKernel(pool, 2, OnThisCpu<kMostLevel<T>>([pool](const KernelArgs& args) {
                      const int64_t channels = pool.channels;
                      const T* from = args.In<T>(0);
                      const int32_t* places = args.In<int32_t>(1);
                      T* out = args.Out<T>(0);
                      ForEachTile(pool, args, [=](int64_t row, auto sees, int64_t c, auto n) {
                        Compute<T> picked[kChannelTile] = {};
                        const int32_t* place = places + row * channels + c;
                        for (const PoolWalk::Seen& seen : sees) {
                          const T* x = from + seen.row * channels + c;
                          for (int64_t i = 0; i < n; ++i) {
                            const auto value = static_cast<Compute<T>>(x[i]);
                            picked[i] = place[i] == seen.tap ? value : picked[i];
                          }
                        }
                        T* to = out + row * channels + c;
                        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(picked[i]);
                      });
                    }));
}

// Calls f with a zero of the C++ type.
template <typename F>
Kernel PoolKernelOf(const KernelSpec& spec, F&& f) {
  const DType dtype = spec.results[0].local.dtype;
  if (dtype == F32) return f(float{});
  return dtype == F64 ? f(double{}) : f(BFloat16{});
}

Kernel SumPoolCpu(const KernelSpec& spec) {
  return PoolKernelOf(spec, [&](auto zero) { return SumKernel<decltype(zero)>(ForwardPool(spec)); });
}
Kernel SumPoolGradCpu(const KernelSpec& spec) {
  return PoolKernelOf(spec, [&](auto zero) { return SumKernel<decltype(zero)>(GradPool(spec)); });
}
Kernel MaxPoolCpu(const KernelSpec& spec) {
  return PoolKernelOf(spec, [&](auto zero) { return MaxKernel<decltype(zero)>(ForwardPool(spec)); });
}
Kernel MaxPoolGradCpu(const KernelSpec& spec) {
  return PoolKernelOf(spec, [&](auto zero) { return MaxGradKernel<decltype(zero)>(GradPool(spec)); });
}
Kernel MaxPoolAtCpu(const KernelSpec& spec) {
  return PoolKernelOf(spec, [&](auto zero) { return MaxAtKernel<decltype(zero)>(ForwardPool(spec)); });
}

double PoolFlops(const OpView& view) {
  double taps = 1;
  for (int64_t size : view.attrs.Get<Ints>("window")) taps *= static_cast<double>(size);
  return taps *
         static_cast<double>(std::min(view.operands[0].num_elements(), view.results[0].num_elements()));
}

// The instances of coalesced devices are more images.
std::optional<KernelSpec> StackPool(const KernelSpec& spec, const StackDims& dims) {
  KernelSpec stacked = spec;
  for (const StackDim& dim : dims) {
    if (dim.reduced.has_value()) return std::nullopt;
    for (size_t o = 0; o < stacked.operands.size(); ++o) {
      if (!dim.varies[o]) return std::nullopt;
      stacked.operands[o].local.shape[0] *= dim.size;
    }
    for (TensorSpec& result : stacked.results) result.local.shape[0] *= dim.size;
  }
  return stacked;
}

// ---- Rows.

std::vector<AttrSpec> PoolAttrs() { return SlidingAttrs({{"window", AttrKind::kInts}}); }
std::vector<AttrSpec> PoolGradAttrs() {
  return SlidingAttrs({{"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true},
                       {"window", AttrKind::kInts},
                       {"windowed", AttrKind::kInts, Ints{}}});
}

}  // namespace

std::span<const OpRow> PoolingOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "max_pool",
       .doc =
           "the largest element of each window, and its place there; NaN if one is. -inf counts as padding: "
           "where there is nothing else, the place is -1",
       .num_results = 2,
       .attrs = PoolAttrs(),
       .infer = InferMaxPool,
       .rule = MaxPoolRule,
       .on_windows = WithoutPadding,
       .grad = MaxPoolGrad,
       .flops = PoolFlops,
       .cpu = MaxPoolCpu,
       .stack = StackPool,
       .is_light = true,
       .samples = {"f32[2,6,4,3]; window=[2,2] strides=[2,2]",
                   "f64[2,7,2]; window=[3] strides=[2] low=[1] high=[1]",
                   "f32[2,6,4,2]; window=[3,2] low=[1,0] high=[1,1]",
                   "f64[2,9,2]; window=[3] strides=[2] low=[-2] high=[1]",
                   "bf16[2,6,2]; window=[2] dilation=[2]",
                   "f64[1,4,3,4,2]; window=[2,3,1] strides=[2,1,2] low=[0,1,0]"}},
      {.name = "max_pool_grad",
       .doc = "the transpose of max_pool_at: adds each gradient to the element at its index, of the same "
              "windows",
       .num_operands = 2,
       .attrs = PoolGradAttrs(),
       .infer = InferPoolGrad,
       .rule = PoolGradRule,
       .on_windows = WithWindowedDims,
       .grad = MaxPoolGradGrad,
       .flops = PoolFlops,
       .cpu = MaxPoolGradCpu,
       .reads_block = true,
       .samples = {"f32[2,3,2,3], i32[2,3,2,3]; shape=[2,6,4,3] window=[2,2] strides=[2,2]",
                   "f64[2,4,2], i32[2,4,2]; shape=[2,7,2] window=[3] strides=[2] low=[1] high=[1]",
                   "f32[2,6,4,2], i32[2,6,4,2]; shape=[2,6,4,2] window=[3,2] low=[1,0] high=[1,1]",
                   "f64[2,3,2], i32[2,3,2]; shape=[2,9,2] window=[3] strides=[2] low=[-2] high=[1]",
                   "bf16[2,4,2], i32[2,4,2]; shape=[2,6,2] window=[2] dilation=[2]"},
       .sample_int_low = -1,
       .sample_int_high = 4},
      {.name = "max_pool_at",
       .doc = "the element at its index of each window, 0 where that is -1",
       .num_operands = 2,
       .attrs = PoolAttrs(),
       .infer = InferMaxPoolAt,
       .rule = MaxPoolAtRule,
       .on_windows = WithoutPadding,
       .grad = MaxPoolAtGrad,
       .cpu = MaxPoolAtCpu,
       .stack = StackPool,
       .is_light = true,
       .samples = {"f32[2,6,4,3], i32[2,3,2,3]; window=[2,2] strides=[2,2]",
                   "f64[2,7,2], i32[2,4,2]; window=[3] strides=[2] low=[1] high=[1]",
                   "f64[2,9,2], i32[2,3,2]; window=[3] strides=[2] low=[-2] high=[1]",
                   "bf16[2,6,2], i32[2,4,2]; window=[2] dilation=[2]"},
       .sample_int_low = -1,
       .sample_int_high = 4},
      {.name = "sum_pool",
       .doc = "the sum of each window; of bf16 in float, rounded once",
       .attrs = PoolAttrs(),
       .infer = InferSumPool,
       .rule = SumPoolRule,
       .on_windows = WithoutPadding,
       .grad = SumPoolGrad,
       .flops = PoolFlops,
       .cpu = SumPoolCpu,
       .stack = StackPool,
       .is_light = true,
       .samples = {"f32[2,6,4,3]; window=[2,2] strides=[2,2]",
                   "f64[2,7,2]; window=[3] strides=[2] low=[1] high=[1]",
                   "f32[2,6,4,2]; window=[3,2] low=[1,0] high=[1,1]",
                   "f64[2,9,2]; window=[3] strides=[2] low=[-2] high=[1]",
                   "bf16[2,6,2]; window=[2] dilation=[2]"}},
      {.name = "sum_pool_grad",
       .doc = "the transpose of sum_pool: adds each gradient to all elements of its window",
       .attrs = PoolGradAttrs(),
       .infer = InferPoolGrad,
       .rule = PoolGradRule,
       .on_windows = WithWindowedDims,
       .grad = SumPoolGradGrad,
       .flops = PoolFlops,
       .cpu = SumPoolGradCpu,
       .reads_block = true,
       .samples = {"f32[2,3,2,3]; shape=[2,6,4,3] window=[2,2] strides=[2,2]",
                   "f64[2,4,2]; shape=[2,7,2] window=[3] strides=[2] low=[1] high=[1]",
                   "f32[2,6,4,2]; shape=[2,6,4,2] window=[3,2] low=[1,0] high=[1,1]",
                   "f64[2,3,2]; shape=[2,9,2] window=[3] strides=[2] low=[-2] high=[1]",
                   "bf16[2,4,2]; shape=[2,6,2] window=[2] dilation=[2]"}},
  };
  return *rows;
}

// The strides of pooling are the window's where none are given.
Attrs PoolAttrsOf(const Type& x, const Ints& window, WindowOptions options) {
  if (options.strides.empty()) options.strides = window;
  Attrs attrs = AttrsOf(options, x, window);
  attrs.Set("window", window);
  return attrs;
}

bool HasPadding(const Attrs& attrs) {
  for (std::string_view name : {"low", "high"})
    for (int64_t entry : attrs.Get<Ints>(name))
      if (entry > 0) return true;
  return false;
}

Value MaxPool(const Operand& x, const Ints& window, const WindowOptions& options) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  return AddOp("max_pool", {x}, PoolAttrsOf(at.values[0].type(), window, options));
}

Value AvgPool(const Operand& x, const Ints& window, const WindowOptions& options, bool count_padding) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Type type = at.values[0].type();
  const Attrs attrs = PoolAttrsOf(type, window, options);
  const Value sum = AddOp("sum_pool", {x}, attrs);
  if (!sum.valid()) return {};
  double taps = 1;
  for (int64_t size : window) taps *= static_cast<double>(size);
  if (count_padding || !HasPadding(attrs)) return Div(sum, taps);
  Type ones = type;
  ones.shape.front() = ones.shape.back() = 1;
  return Div(sum, AddOp("sum_pool", {Constant(*at.graph, 1, ones)}, attrs));
}

}  // namespace meshwork
