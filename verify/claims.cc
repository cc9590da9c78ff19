#include "meshwork/verify/claims.h"

#include "meshwork/ir/local.h"

namespace meshwork {

Claims::Claims(const Graph& global, const Graph& local, const VerifyOptions& options)
    : with_(AppendBlockwise(global, local)),
      global_(with_.has_value() ? with_->graph : global),
      local_(local),
      options_(options),
      user_values_(global.values().size()),
      terms_(global_, with_.has_value() ? with_->same : decltype(with_->same)()),
      term_of_(local.values().size(), -1),
      windows_(local.values().size()),
      padding_(local.values().size()) {
  proof_.claims.resize(local.values().size());
  proof_.options = options;
}

void Claims::Set(ValueId id, TermId term, Lemma lemma) {
  term_of_[id] = term;
  proof_.claims[id] = {terms_.GlobalSummands(term), lemma};
  // A step of a blockwise form is part of the op that it is the form of.
  for (SignedValue& part : proof_.claims[id].of)
    if (static_cast<size_t>(part.value) >= user_values_)
      part.value = with_->owners[part.value - user_values_];
  padding_[id].assign(static_cast<size_t>(LayoutOf(id).rank()), kUnknownPadding);
}

bool Claims::IsRoundedTerm(ValueId id) const {
  const DType dtype = local_.value(id).type.dtype;
  return !options_.narrow_sums && CarriedDType(dtype, LayoutOf(id).partials()) != dtype;
}

Type Claims::Carried(const Type& type, bool is_wide) {
  return {is_wide && type.dtype == BF16 ? F32 : type.dtype, type.shape};
}

}  // namespace meshwork
