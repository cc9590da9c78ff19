#include "meshwork/ops/control/added_terms.h"

#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

bool IsZero(const Value& value) {
  const int n = value.graph()->value(value.id()).node;
  if (n < 0) return false;
  const Node& node = value.graph()->nodes()[n];
  return node.row->name == "constant" && node.attrs.Get<double>("value") == 0;
}

}  // namespace

AddedTerms::AddedTerms(const Graph& body, std::span<const ValueId> returned)
    : body_(body), readers_(ReadersOf(body)), returned_(body.values().size(), 0) {
  for (ValueId id : returned) ++returned_[id];
}

std::optional<std::vector<ValueId>> AddedTerms::Of(ValueId carry, ValueId next) const {
  std::vector<ValueId> terms;
  ValueId at = carry;
  while (at != next) {
    if (readers_[at].size() != 1 || returned_[at] > 0) return std::nullopt;
    const Node& node = body_.nodes()[readers_[at][0].node];
    const ValueId result = node.results[0];
    if (node.row->name != "add" || body_.value(result).layout.has_value()) return std::nullopt;
    const ValueId term = node.operands[node.operands[0] == at ? 1 : 0];
    if (body_.value(term).type != body_.value(carry).type) return std::nullopt;
    terms.push_back(term);
    at = result;
  }
  if (terms.empty() || !readers_[next].empty() || returned_[next] != 1) return std::nullopt;
  return terms;
}

Value SumOfTerms(Graph& body, const std::vector<ValueId>& terms) {
  Value sum(&body, terms[0]);
  for (size_t t = 1; t < terms.size(); ++t) sum = Add(sum, Value(&body, terms[t]));
  return sum;
}

Value AddedTo(const Value& first, const Value& sum) { return IsZero(first) ? sum : Add(first, sum); }

}  // namespace meshwork
