// The forms of arithmetic, comparisons, logic, bits, and casts. Their kernels' functions are in
// ops/kernels/portable/arithmetic.h.
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "meshwork/ops/kernels/portable/arithmetic.h"
#include "meshwork/stablehlo/elementwise_form.h"

namespace meshwork::stablehlo {
namespace {

// ---- Arithmetic.

// A divisor that is 1 where a quotient of whole numbers would be undefined: by 0, and of the least number by -1.
Term SafeDivisor(const Term& b) { return Where((b == 0) | (b == -1), 1, b); }

Term QuotientOf(const Term& a, const Term& b) {
  if (IsReal(a.dtype())) return a / b;
  return Where((b == 0) | (b == -1), a * b, a / SafeDivisor(b));
}

Term RemainderOf(const Term& a, const Term& b) {
  if (IsReal(a.dtype())) return Apply("stablehlo.remainder", {a, b});
  return Where(b == 0, a, Apply("stablehlo.remainder", {a, SafeDivisor(b)}));
}

// Of whole numbers, b >= 0, by squaring: the CPU plugin's own power reads six bits of b.
Term WholePowerOf(const Term& a, const Term& b) {
  const Type& type = a.value.type;
  std::vector<int64_t> dims(type.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  const auto goes_on = [&](const HloValues& state) {
    return HloValues{a.text->Reduce(ReduceOp::kOr, (a.With(state[2]) > 0).value, dims)};
  };
  const auto step = [&](const HloValues& state) {
    const Term power = a.With(state[0]), base = a.With(state[1]), exponent = a.With(state[2]);
    return HloValues{Where((exponent & 1) == 1, power * base, power).value, (base * base).value,
                     (exponent / 2).value};
  };
  const std::vector<Type> types(3, type);
  const std::string regions[] = {a.text->Region(types, goes_on), a.text->Region(types, step)};
  return a.With(a.text->Ops("stablehlo.while", HloValues{a.Constant(1).value, a.value, b.value}, types, {},
                            regions)[0]);
}

// Of whole numbers 1/a^n is ±1 for a = ±1, and rounded to 0 otherwise.
Term PowerOf(const Term& a, const Term& b) {
  if (IsReal(a.dtype())) return Apply("stablehlo.power", {a, b});
  return Where((b < 0) & (AbsOf(a) != 1), 0, WholePowerOf(a, Where(b < 0, b & 1, b)));
}

// A bound of clip, of the type of x.
Term BoundOf(const Term& x, double bound) {
  if (IsReal(x.dtype())) return x.Constant(bound);
  const int64_t whole = x.dtype() == I32 ? portable::Bound<int32_t>(bound) : portable::Bound<int64_t>(bound);
  return x.With(x.text->WholeConstant(whole, x.value.type));
}

Term ClippedOf(const Attrs& attrs, const Term& x) {
  const Term low = BoundOf(x, attrs.Get<double>("low")), high = BoundOf(x, attrs.Get<double>("high"));
  return Where(x < low, low, Where(x > high, high, x));
}

// ---- Comparisons.

template <OpName direction>
Term ComparisonOf(const Term& a, const Term& b) {
  return CompareBoth(direction.text, a, b);
}

absl::StatusOr<HloValues> SelectForm(const FormView& v) {
  return HloValues{v.text.Select(v.Stretched(0), v.Stretched(1), v.Stretched(2))};
}

// ---- Casts.

struct WholeRange {
  int64_t least, most;
};
template <typename T>
constexpr WholeRange kRange = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};

WholeRange RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kU8: return kRange<uint8_t>;
    case DType::kI8: return kRange<int8_t>;
    case DType::kI32: return kRange<int32_t>;
    default: return kRange<int64_t>;
  }
}

// Towards zero, clamped; NaN is 0.
Term WholeOf(const Term& x, DType dtype) {
  const WholeRange range = RangeOf(dtype);
  const auto least = static_cast<double>(range.least), most = static_cast<double>(range.most);
  const Term inside = Where((x > least) & (x < most), x, 0).As(dtype);
  const auto whole = [&](int64_t number) { return x.With(x.text->WholeConstant(number, inside.value.type)); };
  return Where(x <= least, whole(range.least), Where(x >= most, whole(range.most), inside));
}

// Drops low bits of an i64; where one of them was set, so is the last bit that is left.
Term DropBits(const Term& x, int count) {
  const auto unit = static_cast<double>(int64_t{1} << count);
  return (x & -unit) | Where((x & (unit - 1)) != 0, x.Constant(unit), 0);
}

// As f32 to be rounded once more, as portable::ToOdd does it. Of f64, i32, i64.
Term RoundedToOdd(const Term& x) {
  if (x.dtype() == I32) return RoundedToOdd(x.As(F64));
  if (x.dtype() == I64) {
    const double exact = 0x1p53;
    return RoundedToOdd(Where((x <= -exact) | (x >= exact), DropBits(x, 11), x).As(F64));
  }
  return DropBits(x.Bits(I64), 52 - 23).Bits(F64).As(F32);
}

bool IsNarrowReal(DType dtype) { return dtype == BF16 || dtype == F16; }

absl::StatusOr<HloValues> CastForm(const FormView& v) {
  const DType from = v.operands[0].dtype(), to = v.result().dtype;
  if (from == to) return v.operands;
  const Term x = TermOf(v, 0);
  if (to == BOOL) return ResultOf(v, x != 0);
  if (IsReal(from) && !IsReal(to)) return ResultOf(v, WholeOf(x, to));
  if (IsNarrowReal(to) && (from == F64 || from == I32 || from == I64)) return ResultOf(v, RoundedToOdd(x));
  return ResultOf(v, x);
}

absl::StatusOr<HloValues> BitcastForm(const FormView& v) {
  if (v.operands[0].type == v.result()) return v.operands;
  return HloValues{Term{&v.text, v.operands[0]}.Bits(v.result().dtype).value};
}

// ---- Table.

constexpr double kInfinite = std::numeric_limits<double>::infinity();

constexpr NamedForm kElementwiseForms[] = {
    {"add", OneOp<"stablehlo.add">},
    {"sub", OneOp<"stablehlo.subtract">},
    {"mul", OneOp<"stablehlo.multiply">},
    {"div", Formula<QuotientOf>},
    {"remainder", Formula<RemainderOf>},
    {"pow", Formula<PowerOf>},
    {"maximum", OneOp<"stablehlo.maximum">},
    {"minimum", OneOp<"stablehlo.minimum">},
    {"squared_difference", Formula<[](const Term& a, const Term& b) {
       const Term difference = a - b;
       return difference * difference;
     }>},
    {"atan2", OneOp<"stablehlo.atan2">},
    {"neg", OneOp<"stablehlo.negate">},
    {"abs", OneOp<"stablehlo.abs">},
    {"sign", OneOp<"stablehlo.sign">},
    {"square", Formula<[](const Term& x) { return x * x; }>},
    {"reciprocal", Formula<[](const Term& x) { return 1 / x; }>},
    {"clip", Formula<ClippedOf>},

    {"equal", Formula<ComparisonOf<"EQ">>},
    {"not_equal", Formula<ComparisonOf<"NE">>},
    {"less", Formula<ComparisonOf<"LT">>},
    {"less_equal", Formula<ComparisonOf<"LE">>},
    {"greater", Formula<ComparisonOf<"GT">>},
    {"greater_equal", Formula<ComparisonOf<"GE">>},
    {"is_finite", Formula<[](const Term& x) { return AbsOf(x) < kInfinite; }>},
    {"is_inf", Formula<[](const Term& x) { return AbsOf(x) == kInfinite; }>},
    {"is_nan", Formula<[](const Term& x) { return x != x; }>},
    {"and", OneOp<"stablehlo.and">},
    {"or", OneOp<"stablehlo.or">},
    {"xor", OneOp<"stablehlo.xor">},
    {"not", OneOp<"stablehlo.not">},
    {"shift_left", OneOp<"stablehlo.shift_left">},
    {"shift_right_arithmetic", OneOp<"stablehlo.shift_right_arithmetic">},
    {"shift_right_logical", OneOp<"stablehlo.shift_right_logical">},
    {"select", SelectForm},

    {"cast", CastForm},
    {"bitcast", BitcastForm},
};

}  // namespace

std::span<const NamedForm> ElementwiseForms() { return kElementwiseForms; }

}  // namespace meshwork::stablehlo
