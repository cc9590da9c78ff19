// Convolution and its gradients, each of which is a gradient of the other two.
//
// Tensors are channels-last: images [n, spatial…, c], filters [spatial…, c / groups, o]. oneDNN computes on
// these as fast as on its own blocked layouts, so nothing is reordered between ops; and rows of an image,
// which devices exchange where they share one, are contiguous. The kernels are in ops/kernels/blas/convolution.h.
#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/sliding.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/conv_shape.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// The sizes of w as far as it has them; none if w is not a filter.
Ints FilterSizesOf(const Type& w) { return w.rank() > 2 ? FilterSizes(w.shape) : Ints{}; }

// Advice on giving x the dims that the filter slides over: "; ExpandDims(x, {-1}) adds the dim of 1 channel".
std::string HowToFitFilter(const Attrs& attrs, const Type& x, const Type& w) {
  const auto groups = attrs.Get<int64_t>("groups");
  if (w.rank() < 3) return fmt::format("; give a filter of {} dims", std::max(x.rank(), 3));
  const int64_t taken = w.shape.end()[-2];
  if (x.rank() + 1 == w.rank() && taken == 1 && groups == 1)
    return "; ExpandDims(x, {-1}) adds the dim of 1 channel";
  if (x.rank() < w.rank()) return fmt::format("; Reshape x to {} dims", w.rank());
  return fmt::format("; give a filter of {} dims, or Reshape x to {}", x.rank(), w.rank());
}

// The dims of images with channels first in the order of channels last: "{0, 2, 3, 1}".
std::string ChannelsToLast(int rank) {
  std::string dims = "{0";
  for (int d = 2; d < rank; ++d) dims += fmt::format(", {}", d);
  return dims + ", 1}";
}

// Checks x and w against each other; the sizes of the windows if they fit.
absl::StatusOr<Slidings> CheckConv(const Attrs& attrs, const Type& x, const Type& w) {
  if (x.dtype != w.dtype || !IsFloat(x.dtype))
    return InvalidArgument("takes f32, f64 or bf16, both alike, got {} and {}; cast one, or both.",
                           x.ToString(), w.ToString());
  if (w.rank() != x.rank())
    return InvalidArgument("x is {}, the filter {}; x is [n, spatial…, c], the filter [spatial…, c, o]{}.",
                           x.ToString(), w.ToString(), HowToFitFilter(attrs, x, w));
  MESHWORK_ASSIGN_OR_RETURN(Slidings dims, ReadSlidings(attrs, x, "x", FilterSizesOf(w)));
  const int64_t groups = attrs.Get<int64_t>("groups"), in = x.shape.back(), out = w.shape.back();
  if (groups < 1) return InvalidArgument("groups={}; there is at least one.", groups);
  if (in % groups != 0 || out % groups != 0)
    return InvalidArgument("groups={} must divide the channels of x {} ({}) and of the filter {} ({}).",
                           groups, x.ToString(), in, w.ToString(), out);
  if (const int64_t taken = w.shape.end()[-2]; taken != in / groups)
    return InvalidArgument(
        "x is {} in {} group{} of {} channels, but the filter {} takes {}{}", x.ToString(), groups,
        groups == 1 ? "" : "s", in / groups, w.ToString(), taken,
        x.shape[1] == taken * groups
            ? fmt::format("; images are channels-last, [n, spatial…, c]: Transpose(x, {}).",
                          ChannelsToLast(x.rank()))
            : fmt::format("; give a filter of {}.", Count(in / groups, "channel")));
  return dims;
}

// y: [n, out…, o] against x and w.
absl::Status CheckY(const Slidings& dims, const Type& x, const Type& w, const Type& y) {
  if (y.dtype != x.dtype || y.rank() != x.rank() || y.shape[0] != x.shape[0] ||
      y.shape.back() != w.shape.back())
    return InvalidArgument("the gradient is {}; that of x {} and filter {} has {} images of {} channels.",
                           y.ToString(), x.ToString(), w.ToString(), x.shape[0], w.shape.back());
  return CheckResults(dims, x, "x", y, "the gradient");
}

Type ResultOf(const Attrs& attrs, const Type& operand) {
  return {operand.dtype, ToShape(attrs.Get<Ints>("shape"))};
}

// ---- Inference.

absl::StatusOr<std::vector<Type>> InferConv(const OpView& view) {
  const Type &x = view.operands[0], &w = view.operands[1];
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckConv(view.attrs, x, w));
  Type y{x.dtype, {x.shape[0]}};
  for (size_t d = 0; d < dims.size(); ++d) y.shape.push_back(dims[d].Count(x.shape[1 + d]));
  y.shape.push_back(w.shape.back());
  return std::vector<Type>{y};
}

absl::StatusOr<std::vector<Type>> InferInputGrad(const OpView& view) {
  const Type x = ResultOf(view.attrs, view.operands[0]);
  MESHWORK_RETURN_IF_ERROR(CheckSize(x));
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckConv(view.attrs, x, view.operands[1]));
  MESHWORK_RETURN_IF_ERROR(CheckY(dims, x, view.operands[1], view.operands[0]));
  return std::vector<Type>{x};
}

absl::StatusOr<std::vector<Type>> InferFilterGrad(const OpView& view) {
  const Type w = ResultOf(view.attrs, view.operands[0]);
  MESHWORK_RETURN_IF_ERROR(CheckSize(w));
  MESHWORK_ASSIGN_OR_RETURN(const Slidings dims, CheckConv(view.attrs, view.operands[0], w));
  MESHWORK_RETURN_IF_ERROR(CheckY(dims, view.operands[0], w, view.operands[1]));
  return std::vector<Type>{w};
}

// ---- Rules: n images, dhw spatial dims of the results (of dx), c channels of x, o of y, g groups of both.

std::string Ones(size_t rank) { return std::string(rank - 2, '1'); }

struct Terms {
  std::string seen;  // [n,…] that is seen through windows
  std::string filter;
  std::string moves;  // [n,…] along which they slide

  // `seen_channels`, `moving_channels`: "c" and "o", or the other way round.
  Terms(size_t rank, bool grouped, char seen_channels, char moving_channels)
      : seen("n" + Ones(rank) + (grouped ? '1' : seen_channels)),
        filter(Ones(rank) + (grouped ? "11" : "co")),
        moves("n" + std::string(SpatialLetters(rank - 2)) + (grouped ? '1' : moving_channels)) {}
};

bool IsGrouped(const OpView& view) { return view.attrs.Get<int64_t>("groups") > 1; }

// The channels of a group stay together: the last dims of x, w and y are cut into equally many pieces.
Rule WithGroups(Rule rule, const OpView& view) {
  if (!IsGrouped(view)) return rule;
  const auto letter = static_cast<int>(rule.letters.size());
  rule.letters.push_back({.name = 'g', .size = view.attrs.Get<int64_t>("groups"), .must_divide = true});
  for (LetterList& letters : rule.operands) letters.back() = letter;
  rule.results[0].back() = letter;
  return rule;
}

Slidings SlidingsOf(const OpView& view, const Shape& w) {
  return SlidingsOf(view.attrs, w.size() - 2, FilterSizes(w));
}

// The rule of conv, or of conv_input_grad, whose windows slide the other way.
template <bool is_grad>
Rule ConvRule(const OpView& view) {
  const Shape& w = view.operands[1].shape;
  const Terms terms(w.size(), IsGrouped(view), is_grad ? 'o' : 'c', is_grad ? 'c' : 'o');
  Rule rule = MakeRule(terms.seen + "," + terms.filter + "->" + terms.moves, view.operands, view.results,
                       Linear(Which::kOne));
  if (is_grad) AddWindowsOfElements(rule, 0, SlidingsOf(view, w));
  else AddWindowsOfResults(rule, 0, SlidingsOf(view, w), 0);
  return WithGroups(std::move(rule), view);
}

Rule FilterGradRule(const OpView& view) {
  const Shape& w = view.results[0].shape;
  const Terms terms(w.size(), IsGrouped(view), 'c', 'o');
  Rule rule = MakeRule(terms.seen + "," + terms.moves + "->" + terms.filter, view.operands, view.results,
                       Linear(Which::kOne));
  AddWindowsOfResults(rule, 0, SlidingsOf(view, w), 0);
  return WithGroups(std::move(rule), view);
}

// A device that has some of the channels has as many of the groups.
absl::StatusOr<Attrs> ResizeConv(const OpView& view, const std::vector<Type>& operands) {
  Attrs attrs = view.attrs;
  const int64_t groups = attrs.Get<int64_t>("groups"), before = view.operands[0].shape.back();
  if (groups > 1 && before > 0) attrs.Set("groups", groups * operands[0].shape.back() / before);
  return attrs;
}

// ---- Gradients.

Value AddLike(std::string_view op, const GradView& view, const Value& a, const Value& b, const Shape* shape) {
  Attrs attrs;
  for (std::string_view name : {"strides", "low", "high", "dilation"})
    attrs.Set(name, view.attrs.Get<Ints>(name));
  attrs.Set("groups", view.attrs.Get<int64_t>("groups"));
  if (shape != nullptr) attrs.Set("shape", ToInts(*shape));
  return AddOp(op, {a, b}, attrs);
}
Value ConvLike(const GradView& view, const Value& x, const Value& w) {
  return AddLike("conv", view, x, w, nullptr);
}
Value InputGradLike(const GradView& view, const Value& y, const Value& w, Shape x) {
  return AddLike("conv_input_grad", view, y, w, &x);
}
Value FilterGradLike(const GradView& view, const Value& x, const Value& y, Shape w) {
  return AddLike("conv_filter_grad", view, x, y, &w);
}

std::vector<Value> ConvGrad(const GradView& view) {
  const Value &x = view.operands[0], &w = view.operands[1], &g = view.result_grads[0];
  return {InputGradLike(view, g, w, x.shape()), FilterGradLike(view, x, g, w.shape())};
}

std::vector<Value> InputGradGrad(const GradView& view) {
  const Value &y = view.operands[0], &w = view.operands[1], &g = view.result_grads[0];
  return {ConvLike(view, g, w), FilterGradLike(view, g, y, w.shape())};
}

std::vector<Value> FilterGradGrad(const GradView& view) {
  const Value &x = view.operands[0], &y = view.operands[1], &g = view.result_grads[0];
  return {InputGradLike(view, y, g, x.shape()), ConvLike(view, x, g)};
}

// ---- Cost.

double FlopsOf(const ConvShape& s) {
  return 2.0 * static_cast<double>(s.batch * s.out_positions()) * static_cast<double>(s.w_size());
}

double ConvFlops(const OpView& v) {
  return FlopsOf(ConvShapeOf(v.attrs, v.operands[0].shape, v.operands[1].shape, v.results[0].shape));
}
double InputGradFlops(const OpView& v) {
  return FlopsOf(ConvShapeOf(v.attrs, v.results[0].shape, v.operands[1].shape, v.operands[0].shape));
}
double FilterGradFlops(const OpView& v) {
  return FlopsOf(ConvShapeOf(v.attrs, v.operands[0].shape, v.results[0].shape, v.operands[1].shape));
}

// ---- The instances of coalesced devices are more images, where they share the filter, or sum its gradients.

int64_t CountOf(const StackDims& dims) {
  int64_t count = 1;
  for (const StackDim& dim : dims) count *= dim.size;
  return count;
}

std::optional<KernelSpec> StackConv(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (dim.reduced.has_value() || dim.varies[1]) return std::nullopt;
  KernelSpec stacked = spec;
  stacked.operands[0].local.shape[0] *= CountOf(dims);
  stacked.results[0].local.shape[0] *= CountOf(dims);
  return stacked;
}

std::optional<KernelSpec> StackFilterGrad(const KernelSpec& spec, const StackDims& dims) {
  for (const StackDim& dim : dims)
    if (dim.reduced != ReduceOp::kSum || !dim.varies[0] || !dim.varies[1]) return std::nullopt;
  KernelSpec stacked = spec;
  for (TensorSpec& operand : stacked.operands) operand.local.shape[0] *= CountOf(dims);
  return stacked;
}

// ---- Rows.

std::vector<AttrSpec> ConvAttrs(std::vector<AttrSpec> more = {}) {
  std::vector<AttrSpec> attrs = SlidingAttrs(std::move(more));
  attrs.push_back({"groups", AttrKind::kInt, int64_t{1}});
  return attrs;
}
AttrSpec ShapeAttr() { return {"shape", AttrKind::kInts, std::nullopt, /*is_result_shape=*/true}; }

}  // namespace

std::span<const OpRow> ConvolutionOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "conv",
       .doc = "y[n,r,o] = sum over k, c of x[n, r strides - low + k dilation, c] w[k,c,o]; beyond its ends x "
              "is 0",
       .num_operands = 2,
       .attrs = ConvAttrs(),
       .infer = InferConv,
       .rule = ConvRule<false>,
       .resize = ResizeConv,
       .on_windows = WithoutPadding,
       .grad = ConvGrad,
       .flops = ConvFlops,
       .stack = StackConv,
       .is_product = true,
       .samples = {"f32[2,6,4,3], f32[3,3,3,4]; low=[1,1] high=[1,1]",
                   "f64[2,9,6], f64[3,6,4]; strides=[2] low=[1] high=[1]",
                   "f32[4,7,4], f32[2,4,6]; dilation=[2] high=[1]",
                   "f64[2,5,6,2], f64[2,4,2,3]; strides=[2,1] low=[1,2] high=[0,1]",
                   "f32[2,6,4,6], f32[3,2,2,6]; low=[1,0] high=[1,1] groups=3",
                   "f64[2,6,4], f64[3,1,4]; low=[2] dilation=[1] groups=4",
                   "bf16[2,6,4], bf16[3,4,2]; low=[1] high=[1]",
                   "f32[2,8,6,3], f32[3,2,3,4]; low=[-1,1] high=[2,-2]",
                   "f64[1,4,3,4,2], f64[2,3,2,2,3]; strides=[2,1,1] low=[0,1,0] high=[0,1,1]"}},
      {.name = "conv_input_grad",
       .doc = "the transpose of conv along x: dx[n, r strides - low + k dilation, c] += y[n,r,o] w[k,c,o]",
       .num_operands = 2,
       .attrs = ConvAttrs({ShapeAttr(), {"windowed", AttrKind::kInts, Ints{}}}),
       .infer = InferInputGrad,
       .rule = ConvRule<true>,
       .resize = ResizeConv,
       .on_windows = WithWindowedDims,
       .grad = InputGradGrad,
       .flops = InputGradFlops,
       .is_product = true,
       .reads_block = true,
       .samples = {"f32[2,6,4,4], f32[3,3,3,4]; shape=[2,6,4,3] low=[1,1] high=[1,1]",
                   "f64[2,5,4], f64[3,6,4]; shape=[2,9,6] strides=[2] low=[1] high=[1]",
                   "f32[4,6,6], f32[2,4,6]; shape=[4,7,4] dilation=[2] high=[1]",
                   "f64[2,2,6,3], f64[2,4,2,3]; shape=[2,4,6,2] strides=[2,1] low=[1,2] high=[0,1]",
                   "f32[2,6,4,6], f32[3,2,2,6]; shape=[2,6,4,6] low=[1,0] high=[1,1] groups=3",
                   "f32[2,3,4], f32[2,2,4]; shape=[2,8,2] strides=[3]",
                   "f32[2,7,4,4], f32[3,2,3,4]; shape=[2,8,6,3] low=[-1,1] high=[2,-2]",
                   "bf16[2,6,2], bf16[3,4,2]; shape=[2,6,4] low=[1] high=[1]"}},
      {.name = "conv_filter_grad",
       .doc = "the transpose of conv along w: dw[k,c,o] = sum over n, r of x[n, r strides - low + k "
              "dilation, c] "
              "y[n,r,o]",
       .num_operands = 2,
       .attrs = ConvAttrs({ShapeAttr()}),
       .infer = InferFilterGrad,
       .rule = FilterGradRule,
       .resize = ResizeConv,
       .on_windows = WithoutPadding,
       .grad = FilterGradGrad,
       .flops = FilterGradFlops,
       .stack = StackFilterGrad,
       .is_product = true,
       .samples = {"f32[2,6,4,3], f32[2,6,4,4]; shape=[3,3,3,4] low=[1,1] high=[1,1]",
                   "f64[2,9,6], f64[2,5,4]; shape=[3,6,4] strides=[2] low=[1] high=[1]",
                   "f32[4,7,4], f32[4,6,6]; shape=[2,4,6] dilation=[2] high=[1]",
                   "f64[2,5,6,2], f64[2,3,6,3]; shape=[2,4,2,3] strides=[2,1] low=[1,2] high=[0,1]",
                   "f32[2,6,4,6], f32[2,6,4,6]; shape=[3,2,2,6] low=[1,0] high=[1,1] groups=3",
                   "f32[2,8,6,3], f32[2,7,4,4]; shape=[3,2,3,4] low=[-1,1] high=[2,-2]",
                   "bf16[2,6,4], bf16[2,6,2]; shape=[3,4,2] low=[1] high=[1]"}},
  };
  return *rows;
}

Value Conv(const Operand& x, const Operand& w, const ConvOptions& options) {
  const ResolvedOperands at = Resolve({x, w});
  if (at.graph == nullptr) return {};
  Attrs attrs = AttrsOf(options.window, at.values[0].type(), FilterSizesOf(at.values[1].type()));
  attrs.Set("groups", options.groups);
  return AddOp("conv", {x, w}, attrs);
}

Value ConvTranspose(const Operand& x, const Operand& w, const ConvOptions& options) {
  const ResolvedOperands at = Resolve({x, w});
  if (at.graph == nullptr) return {};
  const Type &images = at.values[0].type(), &filter = at.values[1].type();
  TransposedWindows windows = TransposedAttrsOf(options.window, images, FilterSizesOf(filter));
  Attrs& attrs = windows.attrs;
  std::vector<int64_t> shape = std::move(windows.sizes);
  if (images.rank() > 0) shape.insert(shape.begin(), images.shape[0]);
  if (filter.rank() > 1) shape.push_back(filter.shape.end()[-2] * options.groups);
  attrs.Set("groups", options.groups);
  attrs.Set("shape", std::move(shape));
  return AddOp("conv_input_grad", {x, w}, attrs);
}

}  // namespace meshwork
