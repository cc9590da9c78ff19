// The elementwise family: one output element per index, operands broadcast right-aligned.
#include "ops/kernels/elementwise.h"

#include <cmath>
#include <limits>

#include "base/status.h"
#include "ops/builder.h"
#include "ops/registry.h"

namespace meshwork {
namespace {

// ---- Inference and rules.

enum class Domain { kNumber, kFloat, kAny };

absl::Status CheckDomain(Domain domain, const Type& type) {
  if (domain == Domain::kFloat && !IsFloat(type.dtype))
    return InvalidArgument("takes f32, f64 or bf16, got {}.", type.ToString());
  if (domain == Domain::kNumber && type.dtype == BOOL)
    return InvalidArgument("takes numbers, got {}.", type.ToString());
  return absl::OkStatus();
}

template <Domain domain>
absl::StatusOr<std::vector<Type>> InferSame(const OpView& view) {
  RETURN_IF_ERROR(CheckDomain(domain, view.operands[0]));
  for (const Type& type : view.operands) {
    if (type.dtype != view.operands[0].dtype) {
      return InvalidArgument("dtypes differ: {} and {}; cast one of them.", view.operands[0].ToString(),
                             type.ToString());
    }
  }
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(view.operands));
  return std::vector<Type>{{view.operands[0].dtype, shape}};
}

absl::StatusOr<std::vector<Type>> InferCompare(const OpView& view) {
  ASSIGN_OR_RETURN(std::vector<Type> types, InferSame<Domain::kAny>(view));
  types[0].dtype = BOOL;
  return types;
}

absl::StatusOr<std::vector<Type>> InferSelect(const OpView& view) {
  if (view.operands[0].dtype != BOOL)
    return InvalidArgument("the condition must be bool, got {}.", view.operands[0].ToString());
  if (view.operands[1].dtype != view.operands[2].dtype) {
    return InvalidArgument("dtypes differ: {} and {}; cast one of them.", view.operands[1].ToString(),
                           view.operands[2].ToString());
  }
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(view.operands));
  return std::vector<Type>{{view.operands[1].dtype, shape}};
}

absl::StatusOr<std::vector<Type>> InferCast(const OpView& view) {
  return std::vector<Type>{{view.attrs.Get<DType>("dtype"), view.operands[0].shape}};
}

// "ab,b->ab": one letter per result dim; an operand's missing or stretched dims have none.
Rule ElementwiseRule(const OpView& view, Passes passes) {
  const Shape& shape = view.results[0].shape;
  auto term = [&](const Type& type) {
    std::string letters;
    const size_t extra = shape.size() - type.shape.size();
    for (size_t d = 0; d < type.shape.size(); ++d)
      letters += type.shape[d] == shape[d + extra] ? static_cast<char>('a' + d + extra) : '1';
    return letters;
  };
  std::string text;
  for (size_t i = 0; i < view.operands.size(); ++i) text += (i == 0 ? "" : ",") + term(view.operands[i]);
  return MakeRule(text + "->" + term(view.results[0]), view.operands, view.results, std::move(passes));
}

Rule NonlinearRule(const OpView& view) { return ElementwiseRule(view, {}); }
Rule AddRule(const OpView& view) { return ElementwiseRule(view, Linear(Which::kAll)); }
Rule MulRule(const OpView& view) { return ElementwiseRule(view, Linear(Which::kOne)); }
Rule SelectRule(const OpView& view) { return ElementwiseRule(view, MovesElements(Which::kAllButFirst)); }
Rule CopyRule(const OpView& view) { return ElementwiseRule(view, MovesElements()); }
// Linear among reals only: whole numbers round.
Rule DivRule(const OpView& view) {
  return ElementwiseRule(view, IsFloat(view.results[0].dtype) ? Linear(Which::kFirst) : Passes());
}
Rule CastRule(const OpView& view) {
  const bool real = IsFloat(view.operands[0].dtype) && IsFloat(view.results[0].dtype);
  return ElementwiseRule(view, real ? Linear(Which::kAll) : Passes());
}

// ---- Gradients. Each sums over the dims its operand was broadcast along.

std::vector<Value> Fit(const GradView& view, std::vector<Value> grads) {
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = SumToType(grads[i], view.operands[i].type());
  return grads;
}
Value G(const GradView& view) { return view.result_grads[0]; }

std::vector<Value> AddGrad(const GradView& v) { return Fit(v, {G(v), G(v)}); }
std::vector<Value> SubGrad(const GradView& v) { return Fit(v, {G(v), Neg(G(v))}); }
std::vector<Value> MulGrad(const GradView& v) {
  return Fit(v, {Mul(G(v), v.operands[1]), Mul(G(v), v.operands[0])});
}
std::vector<Value> DivGrad(const GradView& v) {
  return Fit(v, {Div(G(v), v.operands[1]), Neg(Mul(G(v), Div(v.results[0], v.operands[1])))});
}
// Where both are equal the first takes the gradient.
std::vector<Value> MaximumGrad(const GradView& v) {
  Value first = GreaterEqual(v.operands[0], v.operands[1]);
  return Fit(v, {Select(first, G(v), 0.0), Select(first, 0.0, G(v))});
}
std::vector<Value> MinimumGrad(const GradView& v) {
  Value first = LessEqual(v.operands[0], v.operands[1]);
  return Fit(v, {Select(first, G(v), 0.0), Select(first, 0.0, G(v))});
}
std::vector<Value> SelectGrad(const GradView& v) {
  return Fit(v, {Value(), Select(v.operands[0], G(v), 0.0), Select(v.operands[0], 0.0, G(v))});
}
std::vector<Value> NegGrad(const GradView& v) { return {Neg(G(v))}; }
std::vector<Value> ExpGrad(const GradView& v) { return {Mul(G(v), v.results[0])}; }
std::vector<Value> LogGrad(const GradView& v) { return {Div(G(v), v.operands[0])}; }
std::vector<Value> SqrtGrad(const GradView& v) { return {Div(Mul(G(v), 0.5), v.results[0])}; }
std::vector<Value> RsqrtGrad(const GradView& v) {
  return {Mul(Mul(G(v), -0.5), Div(v.results[0], v.operands[0]))};
}
std::vector<Value> TanhGrad(const GradView& v) {
  return {Mul(G(v), Sub(1.0, Mul(v.results[0], v.results[0])))};
}
// From the result, so that the operand need not be kept.
std::vector<Value> ReluGrad(const GradView& v) { return {Select(Greater(v.results[0], 0.0), G(v), 0.0)}; }
std::vector<Value> CastGrad(const GradView& v) {
  if (!IsFloat(v.operands[0].dtype()) || !IsFloat(v.results[0].dtype())) return {Value()};
  return {Cast(G(v), v.operands[0].dtype())};
}

// ---- Kernels.

struct AddOf {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct SubOf {
  template <typename T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct MulOf {
  template <typename T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct DivOf {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {  // defined for every input: x/0 = 0, min/-1 wraps
      if (b == 0) return 0;
      if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    }
    return a / b;
  }
};
// Signed overflow wraps, as on every device.
template <typename Op>
struct Wrapping {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(Op{}(static_cast<U>(a), static_cast<U>(b)));
    } else {
      return Op{}(a, b);
    }
  }
};
struct MaximumOf {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct MinimumOf {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct EqualOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqualOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};
struct LessOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqualOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct GreaterOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqualOf {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct NegOf {
  template <typename T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    else return -a;
  }
};
struct ExpOf {
  template <typename T>
  T operator()(T a) const {
    return std::exp(a);
  }
};
struct LogOf {
  template <typename T>
  T operator()(T a) const {
    return std::log(a);
  }
};
struct SqrtOf {
  template <typename T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct RsqrtOf {
  template <typename T>
  T operator()(T a) const {
    return T(1) / std::sqrt(a);
  }
};
struct TanhOf {
  template <typename T>
  T operator()(T a) const {
    return std::tanh(a);
  }
};
struct ReluOf {
  template <typename T>
  T operator()(T a) const {
    return a < T(0) ? T(0) : a;
  }
};  // keeps NaN

template <typename F>
Kernel ArithmeticCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return BinaryKernel<T, T>(spec, F{});
  });
}

template <typename F>
Kernel CompareCpu(const KernelSpec& spec) {
  return Dispatch(spec.operands[0].local.dtype,
                  [&](auto zero) -> Kernel { return BinaryKernel<decltype(zero), bool>(spec, F{}); });
}

template <typename F>
Kernel UnaryFloatCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (kIsReal<T>) return UnaryKernel<T, T>(spec, F{});
    else return {};
  });
}

template <typename F>
Kernel UnaryNumberCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) -> Kernel {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return {};
    else return UnaryKernel<T, T>(spec, F{});
  });
}

Kernel SelectCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype,
                  [&](auto zero) { return SelectKernel<Stored<decltype(zero)>>(spec); });
}

// Real to whole: towards zero, clamped to the range, NaN is 0 (defined on every machine).
template <typename To, typename From>
To ConvertTo(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

Kernel CastCpu(const KernelSpec& spec) {
  return Dispatch(spec.operands[0].local.dtype, [&](auto from) {
    return Dispatch(spec.results[0].local.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      return UnaryKernel<From, To>(spec, [](Compute<From> x) { return ConvertTo<Compute<To>>(x); });
    });
  });
}

Kernel CopyCpu(const KernelSpec& spec) {
  return Dispatch(spec.results[0].local.dtype, [&](auto zero) {
    using T = decltype(zero);
    return UnaryKernel<T, T>(spec, [](Compute<T> x) { return x; });
  });
}

// ---- Rows.

constexpr std::string_view kBinarySamples[] = {"f32[4,6], f32[4,6]", "f32[4,6], f32[6]", "f64[4,1], f64[4,6]",
                                               "f32[5,3], f32[]", "i32[4,6], i32[6]"};

OpRow Arithmetic(std::string_view name, std::string_view doc, Rule (*rule)(const OpView&),
                 std::vector<Value> (*grad)(const GradView&), KernelFactory cpu) {
  OpRow row{.name = name,
            .doc = doc,
            .num_operands = 2,
            .infer = InferSame<Domain::kNumber>,
            .rule = rule,
            .grad = grad,
            .cpu = cpu,
            .in_place = {0},
            .samples = {std::begin(kBinarySamples), std::end(kBinarySamples)}};
  return row;
}

OpRow Compare(std::string_view name, std::string_view doc, KernelFactory cpu) {
  return {.name = name,
          .doc = doc,
          .num_operands = 2,
          .infer = InferCompare,
          .rule = NonlinearRule,
          .cpu = cpu,
          .samples = {"f32[4,6], f32[4,6]", "i32[4,6], i32[6]", "i64[5], i64[]"}};
}

OpRow UnaryFloat(std::string_view name, std::string_view doc, std::vector<Value> (*grad)(const GradView&),
                 KernelFactory cpu, double sample_low = -1) {
  return {.name = name,
          .doc = doc,
          .infer = InferSame<Domain::kFloat>,
          .rule = NonlinearRule,
          .grad = grad,
          .cpu = cpu,
          .in_place = {0},
          .samples = {"f32[4,6]", "f64[5]"},
          .sample_low = sample_low,
          .sample_high = 2};
}

const std::vector<OpRow>& Rows() {
  static const auto* rows = new std::vector<OpRow>{
      Arithmetic("add", "a + b", AddRule, AddGrad, ArithmeticCpu<Wrapping<AddOf>>),
      Arithmetic("sub", "a - b", AddRule, SubGrad, ArithmeticCpu<Wrapping<SubOf>>),
      Arithmetic("mul", "a * b", MulRule, MulGrad, ArithmeticCpu<Wrapping<MulOf>>),
      Arithmetic("div", "a / b; whole numbers round towards zero, x/0 is 0", DivRule, DivGrad,
                 ArithmeticCpu<DivOf>),
      Arithmetic("maximum", "the larger of a and b; NaN if either is", NonlinearRule, MaximumGrad,
                 ArithmeticCpu<MaximumOf>),
      Arithmetic("minimum", "the smaller of a and b; NaN if either is", NonlinearRule, MinimumGrad,
                 ArithmeticCpu<MinimumOf>),
      Compare("equal", "a == b", CompareCpu<EqualOf>),
      Compare("not_equal", "a != b", CompareCpu<NotEqualOf>),
      Compare("less", "a < b", CompareCpu<LessOf>),
      Compare("less_equal", "a <= b", CompareCpu<LessEqualOf>),
      Compare("greater", "a > b", CompareCpu<GreaterOf>),
      Compare("greater_equal", "a >= b", CompareCpu<GreaterEqualOf>),
      {.name = "select",
       .doc = "condition ? a : b",
       .num_operands = 3,
       .infer = InferSelect,
       .rule = SelectRule,
       .grad = SelectGrad,
       .cpu = SelectCpu,
       .in_place = {1},
       .samples = {"bool[4,6], f32[4,6], f32[4,6]", "bool[4,6], f32[4,6], f32[]",
                   "bool[6], i32[], i32[4,6]"}},
      {.name = "neg",
       .doc = "-x",
       .infer = InferSame<Domain::kNumber>,
       .rule = AddRule,
       .grad = NegGrad,
       .cpu = UnaryNumberCpu<NegOf>,
       .in_place = {0},
       .samples = {"f32[4,6]", "i32[5]"}},
      UnaryFloat("exp", "e to the x", ExpGrad, UnaryFloatCpu<ExpOf>),
      UnaryFloat("log", "natural logarithm", LogGrad, UnaryFloatCpu<LogOf>, 0.25),
      UnaryFloat("sqrt", "square root", SqrtGrad, UnaryFloatCpu<SqrtOf>, 0.25),
      UnaryFloat("rsqrt", "1 / sqrt(x)", RsqrtGrad, UnaryFloatCpu<RsqrtOf>, 0.25),
      UnaryFloat("tanh", "hyperbolic tangent", TanhGrad, UnaryFloatCpu<TanhOf>),
      UnaryFloat("relu", "max(x, 0); NaN stays", ReluGrad, UnaryFloatCpu<ReluOf>),
      {.name = "cast",
       .doc = "x as another dtype; real to whole rounds towards zero and clamps",
       .attrs = {{"dtype", AttrKind::kDType}},
       .infer = InferCast,
       .rule = CastRule,
       .grad = CastGrad,
       .cpu = CastCpu,
       .samples = {"f32[4,6]; dtype=f64", "f32[4,6]; dtype=i32", "bool[5]; dtype=f32", "i64[5]; dtype=i32"},
       .sample_low = -4,
       .sample_high = 4},
      {.name = "stop_gradient",
       .doc = "x, a constant to gradients",
       .kind = OpKind::kIdentity,
       .infer = InferSame<Domain::kAny>,
       .rule = CopyRule,
       .cpu = CopyCpu,
       .samples = {"f32[4,6]"}},
  };
  return *rows;
}

}  // namespace

std::span<const OpRow> ElementwiseOps() { return Rows(); }

Value Add(const Operand& a, const Operand& b) { return AddOp("add", {a, b}); }
Value Sub(const Operand& a, const Operand& b) { return AddOp("sub", {a, b}); }
Value Mul(const Operand& a, const Operand& b) { return AddOp("mul", {a, b}); }
Value Div(const Operand& a, const Operand& b) { return AddOp("div", {a, b}); }
Value Maximum(const Operand& a, const Operand& b) { return AddOp("maximum", {a, b}); }
Value Minimum(const Operand& a, const Operand& b) { return AddOp("minimum", {a, b}); }
Value Equal(const Operand& a, const Operand& b) { return AddOp("equal", {a, b}); }
Value NotEqual(const Operand& a, const Operand& b) { return AddOp("not_equal", {a, b}); }
Value Less(const Operand& a, const Operand& b) { return AddOp("less", {a, b}); }
Value LessEqual(const Operand& a, const Operand& b) { return AddOp("less_equal", {a, b}); }
Value Greater(const Operand& a, const Operand& b) { return AddOp("greater", {a, b}); }
Value GreaterEqual(const Operand& a, const Operand& b) { return AddOp("greater_equal", {a, b}); }

Value Select(const Value& condition, const Operand& a, const Operand& b) {
  if (!condition.valid()) return {};
  if (a.is_number() && b.is_number()) {
    condition.graph()->RecordError(
        fmt::format("{}: both branches are numbers; make one a Constant, which has a dtype.",
                    condition.graph()->Describe("select", a.location())));
    return {};
  }
  ResolvedOperands branches = Resolve({a, b});
  if (branches.graph == nullptr) return {};
  return branches.graph->Add("select", {{condition, branches.values[0], branches.values[1]}}, {},
                             branches.location)[0];
}

Value Neg(const Operand& x) { return AddOp("neg", {x}); }
Value Exp(const Operand& x) { return AddOp("exp", {x}); }
Value Log(const Operand& x) { return AddOp("log", {x}); }
Value Sqrt(const Operand& x) { return AddOp("sqrt", {x}); }
Value Rsqrt(const Operand& x) { return AddOp("rsqrt", {x}); }
Value Tanh(const Operand& x) { return AddOp("tanh", {x}); }
Value Relu(const Operand& x) { return AddOp("relu", {x}); }
Value Cast(const Operand& x, DType dtype) { return AddOp("cast", {x}, {{"dtype", dtype}}); }
Value StopGradient(const Operand& x) { return AddOp("stop_gradient", {x}); }

}  // namespace meshwork
