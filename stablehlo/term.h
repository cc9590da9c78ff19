// Values that formulas are written with: `Where(x < 0, Apply("stablehlo.exponential", {x}), 1 + x)` writes the ops of it.
//
// A plain number is a constant of the type of the other operand; both operands are of one type.
#pragma once

#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "meshwork/stablehlo/module_text.h"

namespace meshwork::stablehlo {

struct Term {
  HloText* text;
  HloValue value;

  DType dtype() const { return value.dtype(); }
  Term With(const HloValue& other) const { return {text, other}; }
  Term Constant(double number) const { return With(text->Constant(number, value.type)); }
  Term As(DType dtype) const { return With(text->Convert(value, dtype)); }
  // The bits, as those of a dtype of the same size.
  Term Bits(DType dtype) const {
    return With(text->Op("stablehlo.bitcast_convert", {value}, {dtype, value.shape()}));
  }
};

// An op whose result is of the type of its operands.
inline Term Apply(std::string_view op, std::initializer_list<Term> operands) {
  HloValues values;
  for (const Term& operand : operands) values.push_back(operand.value);
  const Term& first = *operands.begin();
  return first.With(first.text->Op(op, values, first.value.type));
}

template <typename A, typename B>
concept Terms = (std::is_same_v<A, Term> && (std::is_same_v<B, Term> || std::is_arithmetic_v<B>)) ||
                (std::is_same_v<B, Term> && std::is_arithmetic_v<A>);

// Calls f with both as terms.
template <typename A, typename B, typename F>
Term WithBoth(const A& a, const B& b, F f) {
  if constexpr (!std::is_same_v<A, Term>) return f(b.Constant(static_cast<double>(a)), b);
  else if constexpr (!std::is_same_v<B, Term>) return f(a, a.Constant(static_cast<double>(b)));
  else return f(a, b);
}
template <typename A, typename B>
Term ApplyToBoth(std::string_view op, const A& a, const B& b) {
  return WithBoth(a, b, [&](const Term& x, const Term& y) { return Apply(op, {x, y}); });
}
template <typename A, typename B>
Term CompareBoth(std::string_view direction, const A& a, const B& b) {
  return WithBoth(a, b, [&](const Term& x, const Term& y) {
    return x.With(x.text->Compare(direction, x.value, y.value));
  });
}

template <typename A, typename B>
requires Terms<A, B> Term operator+(const A& a, const B& b) { return ApplyToBoth("stablehlo.add", a, b); }
template <typename A, typename B>
requires Terms<A, B> Term operator-(const A& a, const B& b) {
  return ApplyToBoth("stablehlo.subtract", a, b);
}
template <typename A, typename B>
requires Terms<A, B> Term operator*(const A& a, const B& b) {
  return ApplyToBoth("stablehlo.multiply", a, b);
}
template <typename A, typename B>
requires Terms<A, B> Term operator/(const A& a, const B& b) { return ApplyToBoth("stablehlo.divide", a, b); }
template <typename A, typename B>
requires Terms<A, B> Term operator&(const A& a, const B& b) { return ApplyToBoth("stablehlo.and", a, b); }
template <typename A, typename B>
requires Terms<A, B> Term operator|(const A& a, const B& b) { return ApplyToBoth("stablehlo.or", a, b); }
inline Term operator-(const Term& x) { return Apply("stablehlo.negate", {x}); }

template <typename B>
Term operator==(const Term& a, const B& b) {
  return CompareBoth("EQ", a, b);
}
template <typename B>
Term operator!=(const Term& a, const B& b) {
  return CompareBoth("NE", a, b);
}
template <typename B>
Term operator<(const Term& a, const B& b) {
  return CompareBoth("LT", a, b);
}
template <typename B>
Term operator<=(const Term& a, const B& b) {
  return CompareBoth("LE", a, b);
}
template <typename B>
Term operator>(const Term& a, const B& b) {
  return CompareBoth("GT", a, b);
}
template <typename B>
Term operator>=(const Term& a, const B& b) {
  return CompareBoth("GE", a, b);
}

// condition ? a : b, element by element.
template <typename A, typename B>
requires Terms<A, B> Term Where(const Term& condition, const A& a, const B& b) {
  return WithBoth(a, b, [&](const Term& x, const Term& y) {
    return x.With(x.text->Select(condition.value, x.value, y.value));
  });
}

inline Term AbsOf(const Term& x) { return Apply("stablehlo.abs", {x}); }
inline Term ExpOf(const Term& x) { return Apply("stablehlo.exponential", {x}); }
inline Term LogOf(const Term& x) { return Apply("stablehlo.log", {x}); }

}  // namespace meshwork::stablehlo
