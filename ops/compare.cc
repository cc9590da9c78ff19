// The family of bools and bits: comparisons, tests of reals, and / or / xor / not, shifts, select.
#include "meshwork/base/status.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/ops/families.h"
#include "meshwork/ops/kernels/copy.h"

namespace meshwork {
namespace {

// ---- Rules.

// The largest of a_i is above b if one of them is, and below b if all are. The former holds only for whole
// numbers and bools: if one a_i is NaN, so is the largest, and NaN is above nothing.
Rule OrderRule(const OpView& view, Which above, Which below) {
  const DType from = view.operands[0].dtype;
  if (!IsFloat(from)) return ElementwiseRule(view, Grows(above, from, BOOL) + Falls(below, from, BOOL));
  return ElementwiseRule(view,
                         {{above, ReduceOp::kMin, ReduceOp::kAnd}, {below, ReduceOp::kMax, ReduceOp::kAnd}});
}
Rule AboveRule(const OpView& view) { return OrderRule(view, Which::kFirst, kSecond); }
Rule BelowRule(const OpView& view) { return OrderRule(view, kSecond, Which::kFirst); }
// The largest is NaN if one of them is.
Rule IsNanRule(const OpView& view) {
  return ElementwiseRule(
      view, {{Which::kAll, ReduceOp::kMax, ReduceOp::kOr}, {Which::kAll, ReduceOp::kMin, ReduceOp::kOr}});
}
// op is `and` or `or`: (or_i a_i) and b = or_i (a_i and b). Nothing passes among the bits of whole numbers.
template <ReduceOp op>
Rule LatticeRule(const OpView& view) {
  const bool bools = view.results[0].dtype == BOOL;
  return ElementwiseRule(view,
                         bools ? Grows(Which::kOne, BOOL, BOOL) + Passes{{Which::kAll, op, op}} : Passes());
}
// For whole numbers it is -x - 1, which does not overflow.
Rule NotRule(const OpView& view) {
  const DType dtype = view.results[0].dtype;
  return ElementwiseRule(view, Falls(Which::kAll, dtype, dtype));
}
Rule ShiftLeftRule(const OpView& view) { return ElementwiseRule(view, Linear(Which::kFirst)); }
Rule ShiftRightRule(const OpView& view) {
  const DType dtype = view.results[0].dtype;
  return ElementwiseRule(view, Grows(Which::kFirst, dtype, dtype));
}
// One branch alone may wait for its largest or least element, for the other stays what it is.
Rule SelectRule(const OpView& view) {
  const DType dtype = view.results[0].dtype;
  return ElementwiseRule(view, MovesElements(Which::kAllButFirst) + Grows(Which::kOneButFirst, dtype, dtype));
}

// ---- Select.

absl::StatusOr<std::vector<Type>> InferSelect(const OpView& view) {
  if (view.operands[0].dtype != BOOL)
    return InvalidArgument("the condition must be bool, got {}; compare it, as in x > 0.0.",
                           view.operands[0].ToString());
  if (view.operands[1].dtype != view.operands[2].dtype) {
    return InvalidArgument("dtypes differ: {} and {}; cast one of them.", view.operands[1].ToString(),
                           view.operands[2].ToString());
  }
  MESHWORK_ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(view.operands));
  return std::vector<Type>{{view.operands[1].dtype, shape}};
}

std::vector<Value> SelectGrad(const GradView& v) {
  const Value& g = v.result_grads[0];
  return Fit(v, {Value(), Select(v.operands[0], g, 0.0), Select(v.operands[0], 0.0, g)});
}

Kernel SelectCpu(const KernelSpec& spec) {
  return DispatchSize(DTypeSize(spec.results[0].local.dtype),
                      [&](auto zero) { return SelectKernel<decltype(zero)>(spec); });
}

// ---- Kernels.

template <typename F>
KernelFactory CompareCpu(F) {
  return [](const KernelSpec& spec) {
    return Dispatch(spec.operands[0].local.dtype,
                    [&](auto zero) { return BinaryKernel<decltype(zero), bool>(spec, F{}); });
  };
}

template <typename F>
KernelFactory TestCpu(F) {
  return [](const KernelSpec& spec) {
    return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
      using T = decltype(zero);
      if constexpr (kIsReal<T>) return UnaryKernel<T, bool>(spec, F{});
      else return {};
    });
  };
}

Kernel NotCpu(const KernelSpec& spec) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return {};
    else return UnaryKernel<T, T>(spec, [](T x) { return portable::Flipped(x); });
  });
}

// ---- Rows.

template <typename F>
OpRow Compare(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferBool<Elements::kAny>,
          .rule = rule,
          .cpu = CompareCpu(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .samples = {"f32[4,6], f32[4,6]", "i32[4,6], i32[6]", "i64[5], i64[]", "bf16[4,1], bf16[6]",
                      "bool[4,6], bool[6]"}};
}

template <typename F>
OpRow Test(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .infer = InferBool<Elements::kReal>,
          .rule = rule,
          .cpu = TestCpu(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .samples = {"f32[4,6]", "f64[5]", "bf16[6]"}};
}

template <typename F>
OpRow Bits(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<Elements::kBits>,
          .rule = rule,
          .cpu = ForPairs<Elements::kBits>(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"bool[4,6], bool[4,6]", "bool[4,1], bool[6]", "i32[4,6], i32[6]", "i64[5], i64[]"}};
}

template <typename F>
OpRow Shift(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&), Scalar<F> scalar) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferSame<Elements::kWhole>,
          .rule = rule,
          .cpu = ForPairs<Elements::kWhole>(scalar.f),
          .scalar = scalar.text,
          .stack = StackBroadcast,
          .is_light = true,
          .in_place = {0},
          .samples = {"i32[4,6], i32[4,6]", "i32[4,6], i32[6]", "i64[5], i64[]"}};
}

}  // namespace

std::span<const OpRow> CompareOps() {
  static const auto* rows = new std::vector<OpRow>{
      Compare("equal", "a == b", OpaqueRule, MESHWORK_OF_AB(a == b)),
      Compare("not_equal", "a != b", OpaqueRule, MESHWORK_OF_AB(a != b)),
      Compare("less", "a < b", BelowRule, MESHWORK_OF_AB(a < b)),
      Compare("less_equal", "a <= b", BelowRule, MESHWORK_OF_AB(a <= b)),
      Compare("greater", "a > b", AboveRule, MESHWORK_OF_AB(a > b)),
      Compare("greater_equal", "a >= b", AboveRule, MESHWORK_OF_AB(a >= b)),
      Test("is_finite", "neither infinite nor NaN", OpaqueRule, MESHWORK_OF_X(Fabs(x) < T(Infinity()))),
      Test("is_inf", "∞ or -∞", OpaqueRule, MESHWORK_OF_X(Fabs(x) == T(Infinity()))),
      Test("is_nan", "not a number", IsNanRule, MESHWORK_OF_X(x != x)),
      Bits("and", "a and b, of bools or bit by bit", LatticeRule<ReduceOp::kAnd>, MESHWORK_OF_AB(T(a & b))),
      Bits("or", "a or b, of bools or bit by bit", LatticeRule<ReduceOp::kOr>, MESHWORK_OF_AB(T(a | b))),
      Bits("xor", "either a or b, of bools or bit by bit", OpaqueRule, MESHWORK_OF_AB(T(a ^ b))),
      {.name = "not",
       .doc = "not x, of bools or bit by bit",
       .infer = InferSame<Elements::kBits>,
       .rule = NotRule,
       .cpu = NotCpu,
       .scalar = "Flipped(x)",
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {0},
       .samples = {"bool[4,6]", "i32[4,6]", "i64[5]"}},
      Shift("shift_left", "a 2^b, overflow dropped; 0 if b is not in [0, width)", ShiftLeftRule,
            MESHWORK_OF_AB(ShiftedLeft(a, b))),
      Shift("shift_right_arithmetic", "floor(a / 2^b); as if b were width - 1 where it is not in [0, width)",
            ShiftRightRule, MESHWORK_OF_AB(ShiftedRight(a, b))),
      Shift("shift_right_logical", "a without its sign, over 2^b; 0 if b is not in [0, width)", OpaqueRule,
            MESHWORK_OF_AB(ShiftedRightUnsigned(a, b))),
      {.name = "select",
       .doc = "condition ? a : b",
       .num_operands = 3,
       .takes_storage = true,
       .infer = InferSelect,
       .rule = SelectRule,
       .grad = SelectGrad,
       .cpu = SelectCpu,
       .scalar = "a ? b : c",
       .stack = StackBroadcast,
       .is_light = true,
       .in_place = {1},
       .samples = {"bool[4,6], f32[4,6], f32[4,6]", "bool[4,6], f32[4,6], f32[]", "bool[6], i32[], i32[4,6]",
                   "bool[4,1], bf16[4,6], bf16[6]", "bool[4,6], u8[4,6], u8[6]",
                   "bool[6], bool[6], bool[6]"}},
  };
  return *rows;
}

Value Equal(const Operand& a, const Operand& b) { return AddOp("equal", {a, b}); }
Value NotEqual(const Operand& a, const Operand& b) { return AddOp("not_equal", {a, b}); }
Value Less(const Operand& a, const Operand& b) { return AddOp("less", {a, b}); }
Value LessEqual(const Operand& a, const Operand& b) { return AddOp("less_equal", {a, b}); }
Value Greater(const Operand& a, const Operand& b) { return AddOp("greater", {a, b}); }
Value GreaterEqual(const Operand& a, const Operand& b) { return AddOp("greater_equal", {a, b}); }

Value IsFinite(const Operand& x) { return AddOp("is_finite", {x}); }
Value IsInf(const Operand& x) { return AddOp("is_inf", {x}); }
Value IsNan(const Operand& x) { return AddOp("is_nan", {x}); }

Value And(const Operand& a, const Operand& b) { return AddOp("and", {a, b}); }
Value Or(const Operand& a, const Operand& b) { return AddOp("or", {a, b}); }
Value Xor(const Operand& a, const Operand& b) { return AddOp("xor", {a, b}); }
Value Not(const Operand& x) { return AddOp("not", {x}); }
Value ShiftLeft(const Operand& a, const Operand& b) { return AddOp("shift_left", {a, b}); }
Value ShiftRightArithmetic(const Operand& a, const Operand& b) {
  return AddOp("shift_right_arithmetic", {a, b});
}
Value ShiftRightLogical(const Operand& a, const Operand& b) { return AddOp("shift_right_logical", {a, b}); }

Value Select(const Value& condition, const Operand& a, const Operand& b) {
  if (!condition.valid()) return {};
  if (a.is_number() && b.is_number()) {
    condition.graph()->RecordError(
        fmt::format("{}: both branches are numbers; make one a Constant, which has a dtype.",
                    condition.graph()->Describe("select", a.location())));
    return {};
  }
  const ResolvedOperands resolved = Resolve({a, b, condition});
  if (resolved.graph == nullptr) return {};
  return resolved.graph->Add("select", {{resolved.values[2], resolved.values[0], resolved.values[1]}}, {},
                             resolved.location)[0];
}

}  // namespace meshwork
