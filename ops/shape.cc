// The shape family: broadcast_to, reshape, squeeze, expand_dims, transpose, relayout, dimension_size.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/values.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/copy.h"
#include "meshwork/ops/kernels/stack.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// ---- broadcast_to

absl::StatusOr<std::vector<Type>> InferBroadcastTo(const OpView& view) {
  const Type& x = view.operands[0];
  const Shape shape = ToShape(view.attrs.Get<Ints>("shape"));
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const Type result{x.dtype, shape};
  if (static_cast<int>(dims.size()) != x.rank())
    return InvalidArgument("dims=[{}] names {} for the operand {}; give one result dim per operand dim.",
                           fmt::join(dims, ","), Count(static_cast<int64_t>(dims.size()), "dim"),
                           x.ToString());
  for (size_t i = 0; i < dims.size(); ++i) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", dims[i], result));
    if (i > 0 && dims[i] <= dims[i - 1])
      return InvalidArgument("dims=[{}] must increase.", fmt::join(dims, ","));
    if (x.shape[i] != 1 && x.shape[i] != shape[dims[i]])
      return InvalidArgument("operand dim {} of {} does not fit dim {} of {}; sizes must be equal or 1.", i,
                             x.ToString(), dims[i], result.ToString());
  }
  return std::vector<Type>{result};
}

Rule BroadcastToRule(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  std::string from, to;
  for (int d = 0; d < view.results[0].rank(); ++d) to += static_cast<char>('a' + d);
  for (size_t i = 0; i < dims.size(); ++i)
    from += view.operands[0].shape[i] == view.results[0].shape[dims[i]] ? to[dims[i]] : '1';
  return MakeRule(from + "->" + to, view.operands, view.results, MovesElements());
}

std::vector<Value> BroadcastToGrad(const GradView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const Value& grad = view.result_grads[0];
  const Shape& shape = view.operands[0].shape();
  Ints dropped, stretched;
  for (int64_t d = 0; d < grad.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) dropped.push_back(d);
  for (size_t i = 0; i < dims.size(); ++i)
    if (shape[i] == 1 && grad.shape()[dims[i]] != 1) stretched.push_back(static_cast<int64_t>(i));
  Value sum = dropped.empty() ? grad : ReduceSum(grad, dropped);
  return {stretched.empty() ? sum : ReduceSum(sum, stretched, /*keep_dims=*/true)};
}

Kernel BroadcastToCpu(const KernelSpec& spec) {
  const Ints& dims = spec.attrs.Get<Ints>("dims");
  const Shape& from = spec.operands[0].local.shape;
  const Shape dense = DenseStrides(from);
  Shape strides(spec.results[0].local.shape.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    strides[dims[i]] = from[i] == spec.results[0].local.shape[dims[i]] ? dense[i] : 0;
  return StridedCopy(spec, strides);
}

std::optional<KernelSpec> StackBroadcastTo(const KernelSpec& spec, const StackDims& dims) {
  if (IsReduced(dims)) return std::nullopt;
  KernelSpec stacked = Stacked(spec, dims);
  stacked.attrs.Set("dims",
                    BehindLeading(stacked.attrs.Get<Ints>("dims"), dims.size(), /*with_leading=*/true));
  return stacked;
}

// ---- reshape

absl::StatusOr<std::vector<Type>> InferReshape(const OpView& view) {
  const Type& x = view.operands[0];
  const Type result{x.dtype, ToShape(view.attrs.Get<Ints>("shape"))};
  MESHWORK_RETURN_IF_ERROR(CheckSize(result));
  if (result.num_elements() != x.num_elements())
    return InvalidArgument("{} has {}, {} has {}; they must be equal: give sizes whose product is {}.",
                           x.ToString(), Count(x.num_elements(), "element"), result.ToString(),
                           result.num_elements(), x.num_elements());
  return std::vector<Type>{result};
}

// A group of one dim each way keeps its letter; of any other group the leading dims share a letter, sharded
// only by axes that divide both, so that blocks stay contiguous in both shapes. The passes can do more:
// layouts that Reshaped (layout/reshape.h) finds need no letter.
Rule ReshapeRule(const OpView& view) {
  const Shape& from = view.operands[0].shape;
  const Shape& to = view.results[0].shape;
  Rule rule{.operands = {LetterList(from.size(), kNoLetter)},
            .results = {LetterList(to.size(), kNoLetter)},
            .passes = MovesElements()};
  if (NumElements(from) == 0) return rule;
  for (const ReshapeGroup& group : ReshapeGroups(from, to)) {
    const auto letter = static_cast<int>(rule.letters.size());
    rule.letters.push_back({.name = static_cast<char>('a' + letter),
                            .size = std::gcd(from[group.from], to[group.to]),
                            .must_divide = !group.is_single()});
    rule.operands[0][group.from] = rule.results[0][group.to] = letter;
  }
  return rule;
}

std::vector<Value> ReshapeGrad(const GradView& view) {
  return {Reshape(view.result_grads[0], view.operands[0].shape())};
}

Kernel ReshapeCpu(const KernelSpec& spec) {
  const int64_t size = DTypeSize(spec.results[0].local.dtype);
  return {.run =
              [size](const KernelArgs& args) {
                std::memcpy(args.Out<char>(0) + args.begin * size, args.In<char>(0) + args.begin * size,
                            static_cast<size_t>((args.end - args.begin) * size));
              },
          .units = spec.results[0].local.num_elements(),
          .by_rows = true,
          .parts = {spec.results[0].local.num_elements()}};
}

// The elements stay in their order, whatever the leading dims are.
std::optional<KernelSpec> StackReshape(const KernelSpec& spec, const StackDims& dims) {
  return IsReduced(dims) ? std::nullopt : std::optional(Stacked(spec, dims));
}

// ---- squeeze, expand_dims

absl::Status CheckIncreasing(const Ints& dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] <= dims[i - 1]) return InvalidArgument("dims=[{}] must increase.", fmt::join(dims, ","));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Type>> InferSqueeze(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  Type result = view.operands[0];
  MESHWORK_RETURN_IF_ERROR(CheckIncreasing(dims));
  for (size_t i = dims.size(); i-- > 0;) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", dims[i], view.operands[0]));
    if (result.shape[dims[i]] != 1)
      return InvalidArgument("dim {} of {} has size {}; only dims of size 1 can be left out.", dims[i],
                             view.operands[0].ToString(), result.shape[dims[i]]);
    result.shape.erase(result.shape.begin() + dims[i]);
  }
  return std::vector<Type>{result};
}

absl::StatusOr<std::vector<Type>> InferExpandDims(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  Type result = view.operands[0];
  const int64_t rank = result.rank() + static_cast<int64_t>(dims.size());
  MESHWORK_RETURN_IF_ERROR(CheckIncreasing(dims));
  for (int64_t d : dims)
    if (d < 0 || d >= rank)
      return InvalidArgument("dims=[{}] names dim {}; the result has {}, which count from 0.",
                             fmt::join(dims, ","), d, Count(rank, "dim"));
  // Dims that increase below the final rank are never beyond what is there already.
  for (int64_t d : dims) result.shape.insert(result.shape.begin() + d, 1);
  return std::vector<Type>{result};
}

// "ab" for the dims that stay; the longer side has a '1' at each of `dims`.
Rule OnesRule(const OpView& view, bool operand_has_them) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  const int rank = (operand_has_them ? view.operands : view.results)[0].rank();
  std::string with, without;
  for (int d = 0; d < rank; ++d) {
    const bool is_one = std::find(dims.begin(), dims.end(), d) != dims.end();
    with += is_one ? '1' : static_cast<char>('a' + d);
    if (!is_one) without += with.back();
  }
  return MakeRule(operand_has_them ? with + "->" + without : without + "->" + with, view.operands,
                  view.results, MovesElements());
}
Rule SqueezeRule(const OpView& view) { return OnesRule(view, /*operand_has_them=*/true); }
Rule ExpandDimsRule(const OpView& view) { return OnesRule(view, /*operand_has_them=*/false); }

std::vector<Value> SqueezeGrad(const GradView& view) {
  return {ExpandDims(view.result_grads[0], view.attrs.Get<Ints>("dims"))};
}
std::vector<Value> ExpandDimsGrad(const GradView& view) {
  return {Squeeze(view.result_grads[0], view.attrs.Get<Ints>("dims"))};
}

// ---- transpose

absl::StatusOr<std::vector<Type>> InferTranspose(const OpView& view) {
  const Type& x = view.operands[0];
  const Ints& permutation = view.attrs.Get<Ints>("permutation");
  Ints sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  Ints all(x.shape.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all)
    return InvalidArgument("permutation=[{}] does not name each dim of {} once; give [{}] in another order.",
                           fmt::join(permutation, ","), x.ToString(), fmt::join(all, ","));
  Type result{x.dtype, {}};
  for (int64_t d : permutation) result.shape.push_back(x.shape[d]);
  return std::vector<Type>{result};
}

Rule TransposeRule(const OpView& view) {
  std::string from, to;
  for (int d = 0; d < view.operands[0].rank(); ++d) from += static_cast<char>('a' + d);
  for (int64_t d : view.attrs.Get<Ints>("permutation")) to += from[d];
  return MakeRule(from + "->" + to, view.operands, view.results, MovesElements());
}

std::vector<Value> TransposeGrad(const GradView& view) {
  const Ints& permutation = view.attrs.Get<Ints>("permutation");
  Ints inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int64_t>(i);
  return {Transpose(view.result_grads[0], inverse)};
}

Kernel TransposeCpu(const KernelSpec& spec) {
  const Shape dense = DenseStrides(spec.operands[0].local.shape);
  Shape strides;
  for (int64_t d : spec.attrs.Get<Ints>("permutation")) strides.push_back(dense[d]);
  return StridedCopy(spec, strides);
}

// ---- relayout, dimension_size

absl::StatusOr<std::vector<Type>> InferRelayout(const OpView& view) {
  const LayoutPin& pin = view.attrs.Get<LayoutPin>("layout");
  const Layout& layout = pin.layout;
  if (layout.rank() != view.operands[0].rank())
    return InvalidArgument("layout {} has {}, the operand {} has {}; give one entry per dim.", pin.ToString(),
                           Count(layout.rank(), "dim"), view.operands[0].ToString(), view.operands[0].rank());
  MESHWORK_RETURN_IF_ERROR(layout.Fits(view.operands[0].shape));
  return std::vector<Type>{view.operands[0]};
}

std::vector<Value> RelayoutGrad(const GradView& view) {
  // The gradient of a pinned value is pinned alike.
  Graph& graph = *view.result_grads[0].graph();
  return {graph.Add("relayout", {{view.result_grads[0]}}, view.attrs, view.location)[0]};
}

Rule SameRule(const OpView& view) {
  std::string term;
  for (int d = 0; d < view.operands[0].rank(); ++d) term += static_cast<char>('a' + d);
  return MakeRule(term + "->" + term, view.operands, view.results, MovesElements());
}

absl::StatusOr<std::vector<Type>> InferDimensionSize(const OpView& view) {
  const Ints& dims = view.attrs.Get<Ints>("dims");
  for (auto d = dims.begin(); d != dims.end(); ++d) {
    MESHWORK_RETURN_IF_ERROR(CheckDim("dims", *d, view.operands[0]));
    if (std::find(dims.begin(), d, *d) != d)
      return InvalidArgument("dims=[{}] names dim {} twice.", fmt::join(dims, ","), *d);
  }
  const DType dtype = view.attrs.Get<DType>("dtype");
  if (dtype == BOOL || IsStorage(dtype))
    return InvalidArgument("dtype={}: a size is f32, f64, bf16, i32 or i64; give one of those.",
                           DTypeName(dtype));
  int64_t size = 1;
  for (int64_t d : dims) size *= view.operands[0].shape[d];
  if (dtype == I32 && size > std::numeric_limits<int32_t>::max())
    return InvalidArgument("the size along dims=[{}] of {} is {}, which i32 cannot hold; give dtype=i64.",
                           fmt::join(dims, ","), view.operands[0].ToString(), size);
  return std::vector<Type>{{dtype, {}}};
}

Rule DimensionSizeRule(const OpView& view) {
  Rule rule{.operands = {LetterList(view.operands[0].shape.size(), kNoLetter)}, .results = {{}}};
  return rule;
}

Kernel DimensionSizeCpu(const KernelSpec& spec) {
  int64_t size = 1;
  for (int64_t d : spec.attrs.Get<Ints>("dims")) size *= spec.operands[0].global.shape[d];
  return Dispatch(spec.results[0].local.dtype, [size](auto zero) -> Kernel {
    using T = decltype(zero);
    return {.run = [size](const KernelArgs& args) { *args.Out<T>(0) = static_cast<T>(size); }};
  });
}

}  // namespace

std::span<const OpRow> ShapeOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "broadcast_to",
       .doc = "result dim dims[i] takes operand dim i (or repeats it, if of size 1)",
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, true}, {"dims", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferBroadcastTo,
       .rule = BroadcastToRule,
       .grad = BroadcastToGrad,
       .cpu = BroadcastToCpu,
       .stack = StackBroadcastTo,
       .is_light = true,
       .samples = {"f32[6]; shape=[4,6] dims=[1]", "f64[4]; shape=[4,6] dims=[0]", "f32[]; shape=[5] dims=[]",
                   "i32[4,1]; shape=[4,6] dims=[0,1]"}},
      {.name = "reshape",
       .doc = "the same elements in row-major order under another shape",
       .attrs = {{"shape", AttrKind::kInts, std::nullopt, true}},
       .takes_storage = true,
       .infer = InferReshape,
       .rule = ReshapeRule,
       .grad = ReshapeGrad,
       .cpu = ReshapeCpu,
       .stack = StackReshape,
       .is_light = true,
       .is_view = true,
       .samples = {"f32[4,6]; shape=[24]", "f32[24]; shape=[6,4]", "f64[4,6]; shape=[4,3,2]",
                   "f32[4,6]; shape=[4,1,6]", "i32[6,4]; shape=[12,2]"}},
      {.name = "squeeze",
       .doc = "x without dims, which are of size 1",
       .attrs = {{"dims", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferSqueeze,
       .rule = SqueezeRule,
       .grad = SqueezeGrad,
       .cpu = ReshapeCpu,
       .stack = StackReshape,
       .is_light = true,
       .is_view = true,
       .samples = {"f32[4,1,6]; dims=[1]", "bf16[1,4,1]; dims=[0,2]", "bool[4,1]; dims=[1]",
                   "i64[4]; dims=[]"}},
      {.name = "expand_dims",
       .doc = "x with dims of size 1 that lie at dims of the result",
       .attrs = {{"dims", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferExpandDims,
       .rule = ExpandDimsRule,
       .grad = ExpandDimsGrad,
       .cpu = ReshapeCpu,
       .stack = StackReshape,
       .is_light = true,
       .is_view = true,
       .samples = {"f32[4,6]; dims=[1]", "bf16[4]; dims=[0,2]", "bool[4]; dims=[1]", "i32[]; dims=[0]"}},
      {.name = "transpose",
       .doc = "result dim i is operand dim permutation[i]",
       .attrs = {{"permutation", AttrKind::kInts}},
       .takes_storage = true,
       .infer = InferTranspose,
       .rule = TransposeRule,
       .grad = TransposeGrad,
       .cpu = TransposeCpu,
       .samples = {"f32[4,6]; permutation=[1,0]", "f64[2,3,4]; permutation=[2,0,1]",
                   "u8[2,3,4]; permutation=[2,0,1]"}},
      {.name = "relayout",
       .doc = "x in the given layout",
       .kind = OpKind::kIdentity,
       .attrs = {{"layout", AttrKind::kLayout}},
       .takes_storage = true,
       .infer = InferRelayout,
       .rule = SameRule,
       .grad = RelayoutGrad,
       .cpu = ReshapeCpu,
       .stack = StackReshape,
       .is_light = true,
       .is_view = true,
       .samples = {"f32[4,6]; layout={_,_}"}},
      {.name = "dimension_size",
       .doc = "the number of elements of x along dims, as a scalar",
       .attrs = {{"dims", AttrKind::kInts}, {"dtype", AttrKind::kDType, F32}},
       .takes_storage = true,
       .infer = InferDimensionSize,
       .rule = DimensionSizeRule,
       .grad = ZeroGradient,
       .cpu = DimensionSizeCpu,
       .samples = {"f32[4,6]; dims=[0]", "f32[4,6]; dims=[0,1] dtype=i32"}},
  };
  return *rows;
}

Value BroadcastTo(const Operand& x, const Shape& shape, const Ints& dims) {
  return AddOp("broadcast_to", {x},
               {{"shape", ToInts(shape)}, {"dims", AllFromFront(dims, std::ssize(shape))}});
}
Value Reshape(const Operand& x, const Shape& shape) {
  const auto open = std::count(shape.begin(), shape.end(), -1);
  const ResolvedOperands at = Resolve({x});
  if (open == 0 || at.graph == nullptr) return AddOp("reshape", {x}, {{"shape", ToInts(shape)}});
  const Type& type = at.values[0].type();
  Shape rest = shape, full = shape;
  std::replace(rest.begin(), rest.end(), int64_t{-1}, int64_t{1});
  // The product of the other sizes is checked first, because it may not fit an integer.
  const bool is_size = CheckSize({type.dtype, rest}).ok();
  const int64_t others = is_size ? NumElements(rest) : 0;
  if (open > 1 || others == 0 || type.num_elements() % others != 0) {
    RecordMistake(
        at, "reshape",
        "{} as [{}]: one size may be -1, if the others multiply to a divisor of the {}; write those out.",
        type.ToString(), fmt::join(shape, ","), Count(type.num_elements(), "element"));
    return {};
  }
  std::replace(full.begin(), full.end(), int64_t{-1}, type.num_elements() / others);
  return AddOp("reshape", {x}, {{"shape", ToInts(full)}});
}
Value Flatten(const Operand& x, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Type& type = at.values[0].type();
  const std::optional<int64_t> first = CountDim(at, "flatten", dim);
  if (!first.has_value()) return {};
  Shape shape(type.shape.begin(), type.shape.begin() + *first);
  shape.push_back(NumElements(Shape(type.shape.begin() + *first, type.shape.end())));
  return Reshape(x, shape);
}
Value Squeeze(const Operand& x, const DimList& dims) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  std::optional<Ints> counted = CountDims(at, "squeeze", dims);
  if (!counted.has_value()) return {};
  std::sort(counted->begin(), counted->end());
  return AddOp("squeeze", {x}, {{"dims", *std::move(counted)}});
}
Value ExpandDims(const Operand& x, const DimList& dims) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  if (dims.is_all()) {
    RecordMistake(at, "expand_dims", "ALL_DIMS of {}; name the new dims of the result.",
                  at.values[0].type().ToString());
    return {};
  }
  Ints counted = AllFromFront(dims.dims(), at.values[0].rank() + std::ssize(dims.dims()));
  std::sort(counted.begin(), counted.end());
  return AddOp("expand_dims", {x}, {{"dims", std::move(counted)}});
}
Value Transpose(const Operand& x, const Ints& permutation) {
  return AddOp("transpose", {x}, {{"permutation", AllFromFront(permutation, x.value().rank())}});
}
Value DimensionSize(const Operand& x, const DimList& dims, DType dtype) {
  return AddOpOver("dimension_size", {x}, dims, {{"dtype", dtype}});
}

Value WithLayout(const Value& x, const LayoutSpec& layout, CallSite loc) {
  if (x.valid()) x.graph()->Pin(x, layout, loc);
  return x;
}

Value AllowGather(const Value& x) {
  MayBeGathered(x);
  return x;
}

Value Relayout(const Operand& x, const LayoutSpec& layout) {
  ResolvedOperands resolved = Resolve({x});
  if (resolved.graph == nullptr) return {};
  absl::StatusOr<LayoutPin> pin = resolved.graph->MakePin(layout);
  if (!pin.ok()) {
    resolved.graph->RecordError(std::string(
        MessageOf(Annotate(pin.status(), resolved.graph->Describe("relayout", resolved.location) + ": "))));
    return {};
  }
  resolved.graph->CutMesh(pin->layout.mesh());
  return AddOp("relayout", {x}, {{"layout", *std::move(pin)}});
}

}  // namespace meshwork
