// The family that leaves values or bits as they are: cast to another dtype, bitcast, stop_gradient, when_training,
// custom_gradient.
#include <cstring>

#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/convert.h"

namespace meshwork {
namespace {

absl::StatusOr<std::vector<Type>> InferCast(const OpView& view) {
  return std::vector<Type>{{view.attrs.Get<DType>("dtype"), view.operands[0].shape}};
}

bool IsWhole(DType dtype) { return !IsReal(dtype) && dtype != BOOL; }

// Whether every number of one whole dtype is a number of the other.
bool Fits(DType from, DType to) {
  if (from == U8 || to == U8) return from == to || (from == U8 && to != I8);
  return DTypeSize(from) <= DTypeSize(to);
}

// A real cast to a wider real is the same number. A cast to a narrower real keeps the order, and so maxima and minima,
// but rounded terms add up to another sum. Whole numbers and bools keep their order if all of them fit; if not, they
// keep sums and products modulo a power of two. A NaN becomes a 0, which is not the largest.
Passes CastPasses(DType from, DType to) {
  // A cast to bf16 rounds a partial value, which is carried in f32.
  if (from == to && from != BF16) return MovesElements();
  if (IsReal(from) && IsReal(to)) return DTypeSize(from) < DTypeSize(to) ? MovesElements() : Increasing();
  if (IsWhole(from) && IsWhole(to) && !Fits(from, to)) return Linear(Which::kAll) + Multiplicative();
  if (!IsReal(from) && to != BOOL) return Grows(Which::kAll, from, to);
  return {};
}
Rule CastRule(const OpView& view) {
  return ElementwiseRule(view, CastPasses(view.operands[0].dtype, view.results[0].dtype));
}

std::vector<Value> CastGrad(const GradView& v) {
  if (!IsFloat(v.operands[0].dtype()) || !IsFloat(v.results[0].dtype())) return {Value()};
  return {Cast(v.result_grads[0], v.operands[0].dtype())};
}

Kernel CastCpu(const KernelSpec& spec) {
  return DispatchAny(spec.operands[0].local.dtype, [&](auto from) {
    return DispatchAny(spec.results[0].local.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      return UnaryKernel<From, To>(spec, [](Compute<From> x) { return ConvertTo<To>(x); });
    });
  });
}

// ---- bitcast

absl::StatusOr<std::vector<Type>> InferBitcast(const OpView& view) {
  const Type& x = view.operands[0];
  const DType to = view.attrs.Get<DType>("dtype");
  if (DTypeSize(x.dtype) != DTypeSize(to) || (x.dtype == BOOL) != (to == BOOL))
    return InvalidArgument("{} has elements of {} bytes, {} of {}; they must be equal.", x.ToString(),
                           DTypeSize(x.dtype), DTypeName(to), DTypeSize(to));
  return std::vector<Type>{{to, x.shape}};
}

Rule BitcastRule(const OpView& view) {
  return ElementwiseRule(view, view.operands[0].dtype == view.results[0].dtype
                                   ? CastPasses(view.operands[0].dtype, view.results[0].dtype)
                                   : Passes());
}

// Bits that are read as another dtype have no slope.
std::vector<Value> BitcastGrad(const GradView& view) {
  return {view.operands[0].dtype() == view.results[0].dtype() ? view.result_grads[0] : Value()};
}

Kernel BitcastCpu(const KernelSpec& spec) {
  const int64_t size = DTypeSize(spec.results[0].local.dtype), units = spec.results[0].local.num_elements();
  return {.run =
              [size](const KernelArgs& args) {
                std::memmove(args.Out<char>(0) + args.begin * size, args.In<char>(0) + args.begin * size,
                             static_cast<size_t>((args.end - args.begin) * size));
              },
          .units = units,
          .by_rows = true,
          .parts = {units}};
}

Kernel CopyCpu(const KernelSpec& spec) {
  return DispatchAny(spec.results[0].local.dtype, [&](auto zero) {
    using T = decltype(zero);
    return UnaryKernel<T, T>(spec, [](Compute<T> x) { return x; });
  });
}

absl::StatusOr<std::vector<Type>> InferWhenTraining(const OpView& view) {
  if (view.operands[0] == view.operands[1]) return std::vector<Type>{view.operands[0]};
  return InvalidArgument("the types differ: in training {}, otherwise {}.", view.operands[0].ToString(),
                         view.operands[1].ToString());
}

std::vector<Value> WhenTrainingGrad(const GradView& view) { return {view.result_grads[0], Value()}; }

// Operands of custom_gradient: y, the placeholder for the gradient of y, then n inputs and n gradients.
constexpr size_t kFirstInput = 2;
size_t NumInputs(size_t operands) { return (operands - kFirstInput) / 2; }

absl::StatusOr<std::vector<Type>> InferCustomGradient(const OpView& view) {
  const std::vector<Type>& types = view.operands;
  if (types.size() <= kFirstInput || types.size() % 2 != 0)
    return InvalidArgument("takes y, what stands for its gradient, inputs and a gradient for each; got {}.",
                           Count(std::ssize(types), "operand"));
  if (!IsFloat(types[0].dtype))
    return InvalidArgument("{} has no gradient; only f32, f64 and bf16 have.", types[0].ToString());
  if (types[1] != types[0])
    return InvalidArgument("what stands for the gradient is {}, and what it is of {}; they are of one type.",
                           types[1].ToString(), types[0].ToString());
  const size_t inputs = NumInputs(types.size());
  for (size_t i = 0; i < inputs; ++i) {
    const Type &input = types[kFirstInput + i], &gradient = types[kFirstInput + inputs + i];
    if (!IsFloat(input.dtype))
      return InvalidArgument("input {} is {}, which has no gradient; only f32, f64 and bf16 have.", i,
                             input.ToString());
    if (gradient != input)
      return InvalidArgument("the gradient of input {} is {}, and the input {}; they are of one type.", i,
                             gradient.ToString(), input.ToString());
  }
  return std::vector<Type>{types[0]};
}

Rule CustomGradientRule(const OpView& view) {
  const std::vector<Type> alike(view.operands.begin(), view.operands.begin() + kFirstInput);
  Rule rule = ElementwiseRule({alike, view.results, view.attrs}, MovesElements(Which::kFirst));
  for (size_t o = kFirstInput; o < view.operands.size(); ++o)
    rule.operands.emplace_back(view.operands[o].shape.size(), kNoLetter);
  return rule;
}

std::vector<Value> CustomGradientGrad(const GradView& view) {
  Graph& graph = *view.operands[0].graph();
  const size_t inputs = NumInputs(view.operands.size());
  std::vector<ValueId> gradients;
  for (size_t i = 0; i < inputs; ++i) gradients.push_back(view.operands[kFirstInput + inputs + i].id());
  gradients = AppendWith(graph, view.operands[1].id(), view.result_grads[0].id(), gradients);
  std::vector<Value> grads(view.operands.size());
  for (size_t i = 0; i < inputs; ++i) grads[kFirstInput + i] = Value(&graph, gradients[i]);
  return grads;
}

}  // namespace

std::span<const OpRow> CastOps() {
  static const auto* rows = new std::vector<OpRow>{
      {.name = "cast",
       .doc = "x as another dtype, rounded once to the nearest; real to whole rounds towards zero and "
              "clamps, NaN is 0",
       .attrs = {{"dtype", AttrKind::kDType}},
       .takes_storage = true,
       .infer = InferCast,
       .rule = CastRule,
       .grad = CastGrad,
       .cpu = CastCpu,
       .stack = StackBroadcast,
       .is_light = true,
       .samples = {"f32[4,6]; dtype=f64", "f64[4,6]; dtype=bf16", "bf16[6]; dtype=f32", "f32[4,6]; dtype=i32",
                   "f32[4,6]; dtype=bool", "bool[5]; dtype=f32", "bool[6]; dtype=i32", "i64[5]; dtype=i32",
                   "i32[6]; dtype=i64", "i32[6]; dtype=f32", "i32[6]; dtype=bool", "u8[4,6]; dtype=f32",
                   "f32[4,6]; dtype=u8", "i8[6]; dtype=i32", "f16[4,6]; dtype=f32", "f32[6]; dtype=f16",
                   "i8[6]; dtype=u8"},
       .sample_low = -4,
       .sample_high = 4},
      {.name = "bitcast",
       .doc = "the bits of x as those of another dtype of the same size",
       .attrs = {{"dtype", AttrKind::kDType}},
       .takes_storage = true,
       .infer = InferBitcast,
       .rule = BitcastRule,
       .grad = BitcastGrad,
       .cpu = BitcastCpu,
       .stack = StackBroadcast,
       .is_light = true,
       .samples = {"f32[4,6]; dtype=i32", "i32[6]; dtype=f32", "f64[5]; dtype=i64", "i64[6]; dtype=f64",
                   "bf16[6]; dtype=bf16"}},
      {.name = "stop_gradient",
       .doc = "x, a constant to gradients",
       .kind = OpKind::kIdentity,
       .takes_storage = true,
       .infer = InferSame<Elements::kAny>,
       .rule = MovingRule,
       .grad = ZeroGradient,
       .cpu = CopyCpu,
       .stack = StackBroadcast,
       .is_light = true,
       .samples = {"f32[4,6]"}},
      {.name = "when_training",
       .doc = "the first operand; in evaluation and prediction the second",
       .num_operands = 2,
       .kind = OpKind::kIdentity,
       .infer = InferWhenTraining,
       .rule = MovingRule,
       .grad = WhenTrainingGrad,
       .cpu = CopyCpu,
       .samples = {"f32[4,6], f32[4,6]", "i32[], i32[]"}},
      {.name = "custom_gradient",
       .doc =
           "the first operand, whose gradient stands in the program: what follows are a value in place of the gradient of "
           "the result, inputs, and the gradient of each input, made of that value",
       .num_operands = -1,
       .kind = OpKind::kIdentity,
       .infer = InferCustomGradient,
       .rule = CustomGradientRule,
       .grad = CustomGradientGrad,
       .cpu = CopyCpu,
       .samples = {"f32[4,6], f32[4,6], f32[6], f32[6]",
                   "f64[], f64[], f32[4], bf16[2,3], f32[4], bf16[2,3]"}},
  };
  return *rows;
}

Value Cast(const Operand& x, DType dtype) { return AddOp("cast", {x}, {{"dtype", dtype}}); }
Value InDType(const Value& x, DType dtype) { return !x.valid() || x.dtype() == dtype ? x : Cast(x, dtype); }
Value Bitcast(const Operand& x, DType dtype) { return AddOp("bitcast", {x}, {{"dtype", dtype}}); }
Value StopGradient(const Operand& x) { return AddOp("stop_gradient", {x}); }
Value WhenTraining(const Operand& training, const Operand& otherwise) {
  return AddOp("when_training", {training, otherwise});
}
Value CustomGradient(const Operand& y, const ValueList& inputs,
                     const std::function<std::vector<Value>(const Value& dy)>& backward) {
  const Operand stand_in(StopGradient(y), y.location());
  if (!stand_in.value().valid()) return {};
  const std::vector<Value> gradients = backward(stand_in.value());
  std::vector<Operand> operands = {y, stand_in}, behind;
  const std::span<const Value> given = inputs.values();
  if (gradients.size() != given.size()) {
    RecordMistake(Resolve(operands), "custom_gradient",
                  "backward gives {} for {}; one for each, Value() where there is none.",
                  Count(std::ssize(gradients), "gradient"), Count(std::ssize(given), "input"));
    return {};
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!gradients[i].valid()) continue;
    operands.emplace_back(given[i], y.location());
    behind.emplace_back(gradients[i], y.location());
  }
  if (behind.empty()) return stand_in.value();
  operands.insert(operands.end(), behind.begin(), behind.end());
  return AddOp("custom_gradient", operands);
}

}  // namespace meshwork
