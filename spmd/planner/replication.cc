#include "meshwork/spmd/planner/replication.h"

#include <algorithm>

#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {

Replication::Replication(const Graph& pinned, int64_t budget)
    : pinned_(&pinned), budget_(budget), is_weight_(pinned.values().size(), false) {
  for (const Argument& argument : pinned.arguments()) is_weight_[argument.value] = argument.is_variable;
  for (const Node& node : pinned.nodes()) {
    bool is_weight = false;
    for (ValueId id : node.operands) is_weight |= is_weight_[id];
    for (ValueId id : node.operands) is_weight &= is_weight_[id] || pinned.value(id).type.rank() == 0;
    for (ValueId id : node.results) is_weight_[id] = is_weight;
  }
  kept_ = KeptValues(pinned);
}

bool Replication::Refuses(ValueId value, std::span<const ValueId> results, const Layout& from,
                          const Layout& to) const {
  if (pinned_ == nullptr || from.ShardedAxes().empty() || !to.ShardedAxes().empty()) return false;
  if (MayBeGathered(value)) return false;
  return std::none_of(results.begin(), results.end(), [&](ValueId id) {
    return (IsPinnedWhole(id) || pinned_->value(id).gather == Gathering::kAllowed) &&
           pinned_->value(id).type.bytes() >= pinned_->value(value).type.bytes();
  });
}

bool Replication::MayBeGathered(ValueId value) const {
  const ValueInfo& info = pinned_->value(value);
  return info.type.bytes() <= budget_ || info.gather != Gathering::kWithinBudget || kept_[value] ||
         IsPinnedWhole(value);
}

bool Replication::IsImplied(ValueId value, int node, const Layout& from) const {
  return pinned_ != nullptr && node >= 0 && IsImplied(value, pinned_->nodes()[node], from);
}

bool Replication::IsImplied(ValueId value, const Node& reader, const Layout& from) const {
  if (pinned_ == nullptr || is_weight_[value]) return false;
  if (reader.row->name == "relayout") return false;
  const Rule rule = RuleOf(*pinned_, reader);
  for (size_t i = 0; i < reader.operands.size(); ++i) {
    if (reader.operands[i] != value) continue;
    for (int d = 0; d < from.rank(); ++d) {
      const AxisList axes = AxesOf(from, d);
      if (axes.empty()) continue;
      const int l = rule.operands[i][d];
      if (l == kNoLetter || rule.letters[l].whole) return false;
      if (from.IsStrided(d) && !MayBeStrided(*reader.row, rule.letters[l])) return false;
      if (rule.letters[l].must_divide && rule.letters[l].size % pinned_->mesh().GroupSize(axes) != 0)
        return false;
    }
    return true;
  }
  return false;
}

uint64_t Replication::KindOf(ValueId value) const {
  if (pinned_ == nullptr) return 0;
  return (is_weight_[value] ? 1 : 0) | (MayBeGathered(value) ? 2 : 0) | (IsPinnedWhole(value) ? 4 : 0) |
         (pinned_->value(value).gather == Gathering::kAllowed ? 8 : 0);
}

bool Replication::IsPinnedWhole(ValueId value) const {
  const ValueInfo& info = pinned_->value(value);
  return info.layout.has_value() && LayoutPin{*info.layout, info.modes}.is_locked() &&
         info.layout->WithoutTrivialAxes().ShardedAxes().empty();
}

}  // namespace meshwork
