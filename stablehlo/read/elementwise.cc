// Ops that work element by element.
//
// Whole numbers without a sign are held as those of the same bits, so that sums, products, bits and shifts to the left are the
// same; what depends on the sign is said here.
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"
#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {
namespace {

bool IsBool(const OpView& view) { return view.type(0).element == "i1"; }
bool IsUnsignedWhole(const OpView& view) { return IsUnsigned(view.type(0)); }

absl::Status ExpectSame(const OpView& view, size_t count) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(count));
  for (size_t i = 0; i < count; ++i)
    if (view.type(i).shape != view.result().shape)
      return view.Fail(fmt::format("operand {} is {}, and the result {}; their shapes are to be the same.", i,
                                   view.type(i).ToString(), view.result().ToString()));
  return absl::OkStatus();
}

template <Value (*f)(const Operand&)>
absl::StatusOr<Bounds> ReadUnary(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  return Bounds{FromArithmetic(view, f(ToArithmetic(view.Arg(0))))};
}

template <Value (*f)(const Operand&, const Operand&)>
absl::StatusOr<Bounds> ReadBinary(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  const std::vector<Value> args = view.LightArgs();
  return Bounds{FromArithmetic(view, f(ToArithmetic(args[0]), ToArithmetic(args[1])))};
}

// Of bools another function.
template <Value (*f)(const Operand&, const Operand&), Value (*of_bools)(const Operand&, const Operand&)>
absl::StatusOr<Bounds> ReadArithmetic(const OpView& view) {
  return IsBool(view) ? ReadBinary<of_bools>(view) : ReadBinary<f>(view);
}

template <Value (*f)(const Operand&, const Operand&), Value (*of_bools)(const Operand&, const Operand&)>
absl::StatusOr<Bounds> ReadExtremum(const OpView& view) {
  if (IsBool(view)) return ReadBinary<of_bools>(view);
  // JAX takes the maximum of a maximum and -∞.
  const bool is_maximum = view.op.name == "stablehlo.maximum";
  for (const size_t i : {0, 1})
    if (view.operands.size() == 2 &&
        IsIdentity(view.operands[i], is_maximum ? Combiner::kMaximum : Combiner::kMinimum))
      return Bounds{view.Arg(1 - i)};
  if (!IsUnsignedWhole(view) || view.type(0).element == "ui8") return ReadBinary<f>(view);
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  return Bounds{InSignedOrder(view, f(InSignedOrder(view, view.Arg(0)), InSignedOrder(view, view.Arg(1))))};
}

// ---- Division of numbers without a sign.

template <Value (*f)(const Operand&, const Operand&)>
absl::StatusOr<Bounds> ReadDivision(const OpView& view) {
  if (!IsUnsignedWhole(view) || view.type(0).element == "ui8") return ReadBinary<f>(view);
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  if (view.type(0).element != "ui32")
    return view.Fail("whole numbers of this type without a sign are not divided.");
  return Bounds{Cast(f(Widened(view.Arg(0)), Widened(view.Arg(1))), I32)};
}

// ---- Conversions, comparisons, choices.

absl::StatusOr<Bounds> ReadConvert(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  const Value x = view.Arg(0);
  const DType to = view.result_type().dtype;
  const std::string& from_element = view.type(0).element;
  const std::string& to_element = view.result().element;
  if (from_element == "ui32" && to_element != "i32" && to_element != "ui32") {
    return Bounds{to == I64 ? Widened(x) : Cast(Widened(x), to)};
  }
  if (IsRealElement(view.type(0)) && to_element == "ui32")
    return Bounds{Cast(Clip(Cast(x, I64), 0, 4294967295.0), I32)};
  if ((from_element == "ui64" && IsRealElement(view.result())) ||
      (IsRealElement(view.type(0)) && to_element == "ui64"))
    return view.Fail("reals from and to ui64 are not read.");
  return Bounds{InDType(x, to)};
}

// Whole numbers that are ordered as reals are in the total order, -0 below 0 and NaN above all: the bits, of which all but the sign are
// inverted for numbers below 0.
Value InTotalOrder(const Value& given) {
  const Value x = given.dtype() == BF16 ? Cast(given, F32) : given;
  if (x.dtype() != F32 && x.dtype() != F64) return x;
  const bool is_wide = x.dtype() == F64;
  const Value bits = Bitcast(x, is_wide ? I64 : I32);
  const Value sign = ShiftRightArithmetic(bits, is_wide ? 63.0 : 31.0);  // all bits, or none
  return Xor(bits, ShiftRightLogical(sign, 1.0));
}

absl::StatusOr<Bounds> ReadCompare(const OpView& view) {
  using Compare = Value (*)(const Operand&, const Operand&);
  static constexpr std::pair<std::string_view, Compare> kDirections[] = {
      {"EQ", Equal},     {"NE", NotEqual}, {"LT", Less},
      {"LE", LessEqual}, {"GT", Greater},  {"GE", GreaterEqual}};
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  MESHWORK_ASSIGN_OR_RETURN(const std::string direction, view.Word("comparison_direction"));
  MESHWORK_ASSIGN_OR_RETURN(const std::string kind, view.Word("compare_type", "FLOAT"));
  for (const auto& [name, compare] : kDirections) {
    if (name != direction) continue;
    std::vector<Value> args = view.LightArgs();
    for (Value& arg : args) {
      arg = kind == "TOTALORDER" ? InTotalOrder(ToArithmetic(arg)) : ToArithmetic(arg);
      if (direction != "EQ" && direction != "NE") arg = InSignedOrder(view, arg);
    }
    return Bounds{compare(args[0], args[1])};
  }
  return view.Fail(fmt::format("there is no direction {}.", direction));
}

absl::StatusOr<Bounds> ReadSelect(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(3));
  if (view.type(0).rank() != 0 && view.type(0).shape != view.result().shape)
    return view.Fail("the predicate has another shape than the result.");
  if (view.type(1) != view.result() || view.type(2) != view.result())
    return view.Fail("the types of both operands are to be that of the result.");
  const std::vector<Value> args = view.LightArgs();
  return Bounds{Select(args[0], args[1], args[2])};
}

absl::StatusOr<Bounds> ReadClamp(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(view.Expect(3));
  std::vector<Value> args = view.LightArgs();
  for (Value& arg : args) arg = InSignedOrder(view, ToArithmetic(arg));
  const Value clamped = InSignedOrder(view, Minimum(Maximum(args[1], args[0]), args[2]));
  return Bounds{FromArithmetic(view, clamped)};
}

absl::StatusOr<Bounds> ReadBitcast(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  const Value x = view.Arg(0);
  const DType to = view.result_type().dtype;
  if (DTypeSize(x.dtype()) != DTypeSize(to)) return view.Fail("elements of another size are not read.");
  return Bounds{x.dtype() == to ? x : Bitcast(x, to)};
}

// Rounds to fewer bits, and computes in the type as before.
absl::StatusOr<Bounds> ReadReducePrecision(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t exponent, view.Int("exponent_bits"));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t mantissa, view.Int("mantissa_bits"));
  const Value x = view.Arg(0);
  const std::pair<int64_t, int64_t> bits(exponent, mantissa);
  const std::string& element = view.type(0).element;
  if (bits == std::pair<int64_t, int64_t>(8, 7) && element != "f16")
    return Bounds{InDType(InDType(x, BF16), x.dtype())};
  const std::pair<int64_t, int64_t> of_type = element == "f64"    ? std::pair<int64_t, int64_t>(11, 52)
                                              : element == "f32"  ? std::pair<int64_t, int64_t>(8, 23)
                                              : element == "bf16" ? std::pair<int64_t, int64_t>(8, 7)
                                                                  : std::pair<int64_t, int64_t>(5, 10);
  if (bits.first < of_type.first || bits.second < of_type.second)
    return view.Fail("only as many bits as the type has, or those of bf16, are read.");
  return Bounds{x};
}

// ---- Functions that are made of others.

Value Sigmoid1(const Operand& x) { return Sigmoid(x); }
Value SquareOf(const Operand& x) { return Square(x); }
// Halves away from zero.
Value RoundAway(const Operand& x) {
  const Value size = Abs(x);
  const Value whole = Floor(size);
  const Value rounded = Select(GreaterEqual(size - whole, 0.5), whole + 1.0, whole);
  return Select(Less(x, 0.0), Neg(rounded), rounded);
}

// The number next to x towards y: its bits are those of x, as a whole number, one more or one less.
absl::StatusOr<Bounds> ReadNextAfter(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  const Value x = view.Arg(0), y = view.Arg(1);
  const DType dtype = x.dtype(), whole = dtype == F64 ? I64 : I32;
  if (dtype != F32 && dtype != F64) return view.Fail("only f32 and f64 are read.");
  const Value grows = Equal(Greater(y, x), Greater(x, 0.0));
  const Value bits = Bitcast(x, whole);
  const Value next = Bitcast(bits + Select(grows, view.Number(1, whole), view.Number(-1, whole)), dtype);
  // Of 0 the least number, of the sign of y: the bit of the sign, and 1.
  const Value sign =
      ShiftLeft(ShiftRightLogical(Bitcast(y, whole), dtype == F64 ? 63.0 : 31.0), dtype == F64 ? 63.0 : 31.0);
  const Value least = Bitcast(Or(sign, 1.0), dtype);
  const Value moved = Select(Equal(x, 0.0), least, next);
  return Bounds{Select(Or(IsNan(x), IsNan(y)), x + y, Select(Equal(x, y), y, moved))};
}

absl::StatusOr<Bounds> ReadSign(const OpView& view) {
  if (!IsUnsignedWhole(view)) return ReadUnary<Sign>(view);
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  const Value x = view.Arg(0);
  return Bounds{Cast(NotEqual(x, 0.0), x.dtype())};
}

absl::StatusOr<Bounds> ReadAbs(const OpView& view) {
  if (!IsUnsignedWhole(view)) return ReadUnary<Abs>(view);
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 1));
  return Bounds{view.Arg(0)};
}

// i8 is held as i32, whose other bits would be counted.
absl::StatusOr<Bounds> ReadCountLeadingZeros(const OpView& view) {
  if (view.type(0).element.ends_with("i8")) return view.Fail("numbers of 8 bits are not read.");
  return ReadUnary<CountLeadingZeros>(view);
}
absl::StatusOr<Bounds> ReadPopcount(const OpView& view) {
  if (view.type(0).element == "i8") return view.Fail("numbers of 8 bits with a sign are not read.");
  return ReadUnary<Popcount>(view);
}

absl::StatusOr<Bounds> ReadShiftRightArithmetic(const OpView& view) {
  if (IsUnsignedWhole(view)) return view.Fail("numbers without a sign are not read.");
  return ReadBinary<ShiftRightArithmetic>(view);
}

absl::StatusOr<Bounds> ReadShiftRightLogical(const OpView& view) {
  if (view.type(0).element == "i8") return view.Fail("numbers of 8 bits with a sign are not read.");
  return ReadBinary<ShiftRightLogical>(view);
}

absl::StatusOr<Bounds> ReadPolygamma(const OpView& view) {
  MESHWORK_RETURN_IF_ERROR(ExpectSame(view, 2));
  constexpr double kHighest = 100;  // ops/special.h
  const double order = view.operands[0].known.is_splat() ? NumberOf(view.operands[0]) : -1;
  if (!(order >= 0 && order <= kHighest) || order != std::floor(order))
    return view.Fail("the order is to be a constant, a whole number from 0 to 100.");
  return Bounds{FromArithmetic(view, Polygamma(ToArithmetic(view.Arg(1)), static_cast<int64_t>(order)))};
}

constexpr NamedReadOp kElementwiseOps[] = {
    {"stablehlo.add", ReadArithmetic<Add, Or>},
    {"stablehlo.subtract", ReadBinary<Sub>},
    {"stablehlo.multiply", ReadArithmetic<Mul, And>},
    {"stablehlo.divide", ReadDivision<Div>},
    {"stablehlo.remainder", ReadDivision<Remainder>},
    {"stablehlo.power", ReadBinary<Pow>},
    {"stablehlo.atan2", ReadBinary<Atan2>},
    {"stablehlo.maximum", ReadExtremum<Maximum, Or>},
    {"stablehlo.minimum", ReadExtremum<Minimum, And>},
    {"stablehlo.and", ReadBinary<And>},
    {"stablehlo.or", ReadBinary<Or>},
    {"stablehlo.xor", ReadBinary<Xor>},
    {"stablehlo.not", ReadUnary<Not>},
    {"stablehlo.shift_left", ReadBinary<ShiftLeft>},
    {"stablehlo.shift_right_arithmetic", ReadShiftRightArithmetic},
    {"stablehlo.shift_right_logical", ReadShiftRightLogical},
    {"stablehlo.negate", ReadUnary<Neg>},
    {"stablehlo.abs", ReadAbs},
    {"stablehlo.sign", ReadSign},
    {"stablehlo.exponential", ReadUnary<Exp>},
    {"stablehlo.exponential_minus_one", ReadUnary<Expm1>},
    {"stablehlo.log", ReadUnary<Log>},
    {"stablehlo.log_plus_one", ReadUnary<Log1p>},
    {"stablehlo.logistic", ReadUnary<Sigmoid1>},
    {"stablehlo.sqrt", ReadUnary<Sqrt>},
    {"stablehlo.rsqrt", ReadUnary<Rsqrt>},
    {"stablehlo.cbrt", ReadUnary<Cbrt>},
    {"stablehlo.sine", ReadUnary<Sin>},
    {"stablehlo.cosine", ReadUnary<Cos>},
    {"stablehlo.tan", ReadUnary<Tan>},
    {"stablehlo.tanh", ReadUnary<Tanh>},
    {"stablehlo.floor", ReadUnary<Floor>},
    {"stablehlo.ceil", ReadUnary<Ceil>},
    {"stablehlo.round_nearest_even", ReadUnary<Round>},
    {"stablehlo.round_nearest_afz", ReadUnary<RoundAway>},
    {"stablehlo.is_finite", ReadUnary<IsFinite>},
    {"stablehlo.popcnt", ReadPopcount},
    {"stablehlo.count_leading_zeros", ReadCountLeadingZeros},
    {"stablehlo.convert", ReadConvert},
    {"stablehlo.compare", ReadCompare},
    {"stablehlo.select", ReadSelect},
    {"stablehlo.clamp", ReadClamp},
    {"stablehlo.reduce_precision", ReadReducePrecision},
    {"stablehlo.bitcast_convert", ReadBitcast},
    {"chlo.square", ReadUnary<SquareOf>},
    {"chlo.erf", ReadUnary<Erf>},
    {"chlo.erfc", ReadUnary<Erfc>},
    {"chlo.erf_inv", ReadUnary<ErfInv>},
    {"chlo.lgamma", ReadUnary<LogGamma>},
    {"chlo.digamma", ReadUnary<Digamma>},
    {"chlo.polygamma", ReadPolygamma},
    {"chlo.tan", ReadUnary<Tan>},
    {"chlo.sinh", ReadUnary<Sinh>},
    {"chlo.cosh", ReadUnary<Cosh>},
    {"chlo.asin", ReadUnary<Asin>},
    {"chlo.acos", ReadUnary<Acos>},
    {"chlo.atan", ReadUnary<Atan>},
    {"chlo.asinh", ReadUnary<Asinh>},
    {"chlo.acosh", ReadUnary<Acosh>},
    {"chlo.atanh", ReadUnary<Atanh>},
    {"chlo.is_inf", ReadUnary<IsInf>},
    {"chlo.next_after", ReadNextAfter},
};

}  // namespace

Value Widened(const Value& x) { return And(Cast(x, I64), static_cast<double>(0xFFFFFFFF)); }

Value InSignedOrder(const OpView& view, const Value& x, size_t operand) {
  if (!IsUnsigned(view.type(operand)) || view.type(operand).element == "ui8") return x;
  const Type scalar{x.dtype(), {}};
  const Value lowest = x.dtype() == I32
                           ? Constant(view.graph, -2147483648.0, scalar)
                           : ShiftLeft(Constant(view.graph, 1, scalar), Constant(view.graph, 63, scalar));
  return Xor(x, lowest);
}

std::span<const NamedReadOp> ElementwiseOps() { return kElementwiseOps; }

}  // namespace meshwork::mlir
