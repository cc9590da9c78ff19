// Forms of ops that work element by element, made of a formula (term.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "meshwork/stablehlo/forms.h"
#include "meshwork/stablehlo/term.h"

namespace meshwork::stablehlo {

// Operand i as the op computes with it: stretched to the result's shape, reals of 16 bits as f32.
inline Term TermOf(const FormView& v, size_t i) {
  return {&v.text, v.text.Broadcast(v.Wide(i), v.result().shape)};
}
// x, rounded to the result's dtype.
inline HloValues ResultOf(const FormView& v, const Term& x) { return {x.As(v.result().dtype).value}; }

// The form of a formula of one operand, or of two; behind the attributes, if it takes them.
template <auto formula>
absl::StatusOr<HloValues> Formula(const FormView& v) {
  using F = decltype(formula);
  if constexpr (std::is_invocable_v<F, Term>) return ResultOf(v, formula(TermOf(v, 0)));
  else if constexpr (std::is_invocable_v<F, Attrs, Term>)
    return ResultOf(v, formula(v.attrs(), TermOf(v, 0)));
  else {
    const Term a = TermOf(v, 0), b = TermOf(v, 1);
    return ResultOf(v, formula(a, b));
  }
}

// The name of an op, as an argument of a template.
template <size_t size>
struct OpName {
  char text[size];
  constexpr OpName(const char (&name)[size]) { std::copy_n(name, size, text); }
};

// The form of an op that is one op there.
template <OpName name>
absl::StatusOr<HloValues> OneOp(const FormView& v) {
  if (v.operands.size() == 1) return ResultOf(v, Apply(name.text, {TermOf(v, 0)}));
  const Term a = TermOf(v, 0), b = TermOf(v, 1);
  return ResultOf(v, Apply(name.text, {a, b}));
}

}  // namespace meshwork::stablehlo
