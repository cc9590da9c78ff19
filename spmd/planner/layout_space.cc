#include "meshwork/spmd/planner/layout_space.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/strided.h"

namespace meshwork {
namespace {

constexpr size_t kMostSearched = 2;  // axes of a mesh on which plans of relayouts are searched for
constexpr int kMostRounds = 8;       // in which cuts flow through the program and back
// Cuts of OpenAxes::further flow along one op; in programs of at most so many ops, along kMostFlowFew.
constexpr int kFewNodesOfSpace = 256, kMostFlowFew = 4;

// f(value, dim, letter) for every dim of the node's tensors that has a letter.
template <typename F>
void ForDims(const Node& node, const Rule& rule, F&& f) {
  auto visit = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) {
    for (size_t i = 0; i < lists.size(); ++i)
      for (size_t d = 0; d < lists[i].size(); ++d)
        if (lists[i][d] != kNoLetter) f(values[i], static_cast<int>(d), lists[i][d]);
  };
  visit(rule.operands, node.operands);
  visit(rule.results, node.results);
}

bool IsRelayout(const Node& node) { return node.row->name == "relayout"; }

}  // namespace

LayoutSpace::LayoutSpace(const Graph& pinned, const Graph& propagated,
                         const std::vector<std::optional<Choice>>& choices, const Fold& fold,
                         const FoldedNodes& nodes, const OpenAxes& open, const CollectivePrice& price,
                         SearchWork* work)
    : pinned_(pinned),
      choices_(choices),
      fold_(fold),
      nodes_(nodes),
      open_(open),
      most_(MostOf(open)),
      pool_(open.pool != nullptr ? *open.pool : own_pool_),
      table_(pinned.values().size(), 0),
      cuts_(pinned.values().size()),
      lies_(pinned.values().size(), 0),
      changed_(pinned.values().size(), 1),
      visited_(static_cast<size_t>(nodes.size()), 0),
      kept_(KeptValues(pinned)),
      closed_(kept_),
      may_owe_(pinned.values().size(), false),
      domain_(pinned.values().size(), -1) {
  // A MATCH dim of a relayout is cut as Propagate has cut the operand, which therefore stays so.
  for (const Node& node : pinned.nodes())
    if (IsRelayout(node) && node.attrs.Get<LayoutPin>("layout").Has(DimMode::kMatch))
      closed_[fold.value_of[node.operands[0]]] = true;
  // Plans of many axes take long to search for.
  const bool is_large_mesh = !open.is_small && AxesThatCut(pinned.mesh()).size() > kMostSearched;
  for (ValueId id = 0; id < static_cast<ValueId>(cuts_.size()); ++id) {
    if (fold.value_of[id] != id) continue;
    const ValueInfo& info = pinned.value(id);
    const auto found = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const LayoutTable& table) { return table.type() == info.type; });
    table_[id] = static_cast<size_t>(found - tables_.begin());
    if (found == tables_.end())
      tables_.emplace_back(pinned.mesh(), pool_, info.type, price,
                           /*is_greedy=*/!open_.further.empty() || is_large_mesh, work);
    lies_[id] = TableOf(id).IdOf(*propagated.value(id).layout);
    may_owe_[id] = info.node >= 0 && !info.layout.has_value() && !kept_[id];
    for (CutId cut : TableOf(id).cuts(lies_[id])) {
      const int d = static_cast<int>(cuts_[id].size());
      cuts_[id].push_back({cut});
      if (cut != kWhole && !IsLocked(id, d) && !closed_[id] && KeepsFixed(id, d, kWhole))
        cuts_[id].back().push_back(kWhole);
    }
  }
  for (const VariableUpdate& update : pinned.updates()) may_owe_[update.value] = false;
  for (const OutputInfo& output : pinned.outputs()) may_owe_[output.value] = false;
  if (!open.arguments.empty()) {
    for (ValueId id = 0; id < static_cast<ValueId>(cuts_.size()); ++id)
      if (fold.value_of[id] == id && (open.is_small || pinned.value(id).node < 0)) Offer(id);
  }
  FindKinds();
  Spread();
  if (open.is_wide) {
    Widen();
    Spread();
  }
  SpreadFurther();
  FindDomains();
  for (int n = 0; n < nodes_.size(); ++n) FindModes(n);
}

LayoutSpace::Most LayoutSpace::MostOf(const OpenAxes& open) {
  Most most;
  if (open.is_wide) {
    most.cuts *= 2;
    most.owed *= 4;
  } else if (!open.arguments.empty()) {
    most.cuts *= open.is_thorough ? 8 : 2;
    most.layouts *= open.is_thorough ? 4 : 1;
    most.owed *= 2;
    most.modes *= open.is_thorough ? 4 : 1;
  }
  return most;
}

void LayoutSpace::FindKinds() {
  std::unordered_map<const OpRow*, std::vector<int>> of_row;
  for (int n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    auto is_alike = [&](int kind) {
      const Node& other = nodes_[kinds_[kind].first];
      auto same_tables = [&](std::span<const ValueId> a, std::span<const ValueId> b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                          [&](ValueId x, ValueId y) { return table_[x] == table_[y]; });
      };
      return node.regions.empty() && same_tables(node.operands, other.operands) &&
             same_tables(node.results, other.results) && node.attrs == other.attrs;
    };
    std::vector<int>& kinds = of_row[node.row];
    const auto found = std::find_if(kinds.begin(), kinds.end(), is_alike);
    if (found != kinds.end()) {
      kind_.push_back(*found);
      continue;
    }
    kind_.push_back(static_cast<int>(kinds_.size()));
    kinds.push_back(kind_.back());
    kinds_.push_back({std::make_shared<const Rule>(RuleOf(pinned_, node)), n});
  }
}

bool LayoutSpace::IsLocked(ValueId id, int dim) const {
  const ValueInfo& info = pinned_.value(id);
  if (info.node >= 0 && IsRelayout(pinned_.nodes()[info.node]) &&
      pinned_.nodes()[info.node].attrs.Get<LayoutPin>("layout").mode(dim) != DimMode::kOpen)
    return true;
  return info.layout.has_value() && LayoutPin{*info.layout, info.modes}.mode(dim) == DimMode::kLocked;
}

bool LayoutSpace::MayCut(const Node& node, const Letter& letter, CutId cut) const {
  return MayBeCut(pinned_.mesh(), *node.row, letter, pool_.cut(cut));
}

// ---- Which cuts can reach a dim.

bool LayoutSpace::KeepsFixed(ValueId id, int dim, CutId cut) const {
  const AxisSet fixed = open_.fixed, all = pool_.axes(cut), now = pool_.axes(cuts_[id][dim][0]);
  return fixed.empty() || all.Minus(all.Minus(fixed)) == now.Minus(now.Minus(fixed));
}

bool LayoutSpace::AddCut(ValueId id, int dim, CutId cut) {
  Candidates& cuts = cuts_[id][dim];
  if (Contains(cuts, cut) || closed_[id] || IsLocked(id, dim) || !KeepsFixed(id, dim, cut)) return false;
  if (cuts.size() >= most_.cuts) {
    is_cut_off_ = true;
    return false;
  }
  cuts.push_back(cut);
  changed_[id] = ++clock_;
  return true;
}

// Offers cuts of each dim of the value by the open axes (or joined axes).
void LayoutSpace::Offer(ValueId id) {
  std::vector<AxisList> units = open_.joined;
  if (units.empty())
    for (int axis : open_.arguments.ToList()) units.push_back({axis});
  for (int d = 0; d < pinned_.value(id).type.rank(); ++d) {
    if (open_.is_small) OfferInAnyOrder(id, d, units, {});
    OfferInOrder(id, d, units);
  }
}

// A dim is cut into no more blocks than it has elements.
void LayoutSpace::OfferCut(ValueId id, int dim, const AxisList& axes) {
  if (pinned_.mesh().GroupSize(axes) <= pinned_.value(id).type.shape[dim])
    AddCut(id, dim, pool_.IdOf({{1, axes}}));
}

// Cuts by each unit, and by several that follow each other; these alone, and after the axes that cut the dim now.
void LayoutSpace::OfferInOrder(ValueId id, int dim, const std::vector<AxisList>& units) {
  const Mesh& mesh = pinned_.mesh();
  const auto follow = [&](int before, int axis) {
    while (++before < axis && mesh.axis(before).size == 1) {
    }
    return before == axis;
  };
  const CutId now = TableOf(id).cuts(lies_[id])[dim];
  AxisList before;
  if (now != kWhole && !pool_.is_strided(now)) before = pool_.cut(now)[0].axes;
  for (size_t first = 0; first < units.size(); ++first) {
    for (const AxisList& major : {AxisList(), before}) {
      AxisList cut = major;
      for (size_t u = first; u < units.size(); ++u) {
        if (AxisSet(cut).Intersects(AxisSet(units[u]))) break;
        if (u > first && !follow(units[u - 1].back(), units[u][0])) break;
        cut.insert(cut.end(), units[u].begin(), units[u].end());
        if (mesh.GroupSize(units[u]) > 1) OfferCut(id, dim, cut);
      }
    }
  }
}

void LayoutSpace::OfferInAnyOrder(ValueId id, int dim, const std::vector<AxisList>& units,
                                  const AxisList& major) {
  for (const AxisList& unit : units) {
    if (AxisSet(major).Intersects(AxisSet(unit)) || pinned_.mesh().GroupSize(unit) == 1) continue;
    AxisList cut = major;
    cut.insert(cut.end(), unit.begin(), unit.end());
    OfferCut(id, dim, cut);
    OfferInAnyOrder(id, dim, units, cut);
  }
}

// Whether the op's tensors have got cuts since the op was last spread through.
bool LayoutSpace::HasNews(int n) const {
  const auto is_new = [&](ValueId id) { return changed_[id] > visited_[n]; };
  return std::any_of(nodes_[n].operands.begin(), nodes_[n].operands.end(), is_new) ||
         std::any_of(nodes_[n].results.begin(), nodes_[n].results.end(), is_new);
}

bool LayoutSpace::SpreadThrough(int n) {
  if (!HasNews(n)) return false;
  visited_[n] = ++clock_;
  const Node& node = nodes_[n];
  if (IsRelayout(node)) return SpreadRelayout(node);
  const bool changed = node.row->name == "reshape" && SpreadReshape(node);
  return SpreadAt(n) || changed;
}

void LayoutSpace::SpreadFurther() {
  std::vector<bool> is_new(cuts_.size(), false);
  for (const auto& [id, layout] : open_.further) {
    const int further = TableOf(id).IdOf(layout);
    const CutIds cuts = TableOf(id).cuts(further);
    std::vector<int>& all = further_[id];
    if (further != lies_[id] && !Contains(all, further)) all.push_back(further);
    for (size_t d = 0; d < cuts.size(); ++d)
      if (!Contains(cuts_[id][d], cuts[d])) cuts_[id][d].push_back(cuts[d]);
    changed_[id] = ++clock_;
    is_new[id] = true;
  }
  const int most = nodes_.size() <= kFewNodesOfSpace ? kMostFlowFew : 1;
  for (int step = 0; step < most; ++step) {
    const std::vector<bool> was_new = is_new;
    for (int n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      const auto is_from = [&](ValueId id) { return was_new[id]; };
      if (std::none_of(node.operands.begin(), node.operands.end(), is_from) &&
          std::none_of(node.results.begin(), node.results.end(), is_from))
        continue;
      if (!SpreadThrough(n)) continue;
      for (ValueId id : node.operands) is_new[id] = true;
      for (ValueId id : node.results) is_new[id] = true;
    }
  }
}

void LayoutSpace::Spread() {
  const int count = nodes_.size();
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (int n = 0; n < count; ++n) changed |= SpreadThrough(n);
    for (int n = count; n-- > 0;) changed |= SpreadThrough(n);
  }
  is_cut_off_ |= changed;
}

// No one expects an output, or a variable, in blocks that no pin reaches: these are closed, and all other values,
// inputs included, get every cut into equal blocks.
void LayoutSpace::Widen() {
  const Mesh& mesh = pinned_.mesh();
  AxisSet axes;
  for (const ValueInfo& info : pinned_.values())
    if (info.layout.has_value()) axes = axes.Union(info.layout->ShardedAxes());
  std::vector<AxisList> lists = {{}};
  for (size_t i = 0; i < lists.size() && lists.size() <= most_.cuts; ++i) {
    for (int axis : axes.ToList()) {
      if (AxisSet(lists[i]).Contains(axis)) continue;
      lists.push_back(lists[i]);
      lists.back().push_back(axis);
    }
  }
  for (const OutputInfo& output : pinned_.outputs()) closed_[fold_.value_of[output.value]] = true;
  for (const VariableUpdate& update : pinned_.updates()) closed_[fold_.value_of[update.value]] = true;
  for (const Argument& argument : pinned_.arguments())
    if (argument.is_variable) closed_[fold_.value_of[argument.value]] = true;
  for (ValueId id = 0; id < static_cast<ValueId>(cuts_.size()); ++id) {
    if (fold_.value_of[id] != id) continue;
    const Shape& shape = pinned_.value(id).type.shape;
    for (int d = 0; d < static_cast<int>(shape.size()); ++d)
      for (const AxisList& list : lists)
        if (mesh.GroupSize(list) > 1 && shape[d] % mesh.GroupSize(list) == 0)
          AddCut(id, d, pool_.IdOf({{1, list}}));
  }
}

std::vector<LayoutSpace::Candidates> LayoutSpace::OffersTo(int n) const {
  const Node& node = nodes_[n];
  const Rule& rule = RuleAt(n);
  std::vector<Candidates> offers(rule.letters.size());
  auto offer = [&](size_t l, CutId cut) {
    if (!Contains(offers[l], cut) && MayCut(node, rule.letters[l], cut)) offers[l].push_back(cut);
  };
  ForDims(node, rule, [&](ValueId id, int d, int l) {
    for (CutId cut : cuts_[id][d]) {
      if (cut == kWhole) continue;
      offer(static_cast<size_t>(l), cut);
      if (!rule.letters[l].whole || pool_.is_strided(cut)) continue;
      // Axes that cut a dim which must be whole may cut another letter instead, after an all-to-all.
      for (size_t other = 0; other < rule.letters.size(); ++other)
        if (!rule.letters[other].reduced &&
            rule.letters[other].size >= pinned_.mesh().GroupSize(pool_.cut(cut)[0].axes))
          offer(other, cut);
    }
  });
  return offers;
}

bool LayoutSpace::SpreadAt(int n) {
  const std::vector<Candidates> offers = OffersTo(n);
  bool changed = false;
  ForDims(nodes_[n], RuleAt(n), [&](ValueId id, int d, int l) {
    for (CutId cut : offers[l]) changed |= AddCut(id, d, cut);
  });
  return changed;
}

// Spreads cuts through dims that a reshape merges or splits, if no element then moves. Of a group of dims, one dim is
// cut at a time; in a small program, several are, too.
bool LayoutSpace::SpreadReshape(const Node& node) {
  const Shape& from = pinned_.value(node.operands[0]).type.shape;
  const Shape& to = pinned_.value(node.results[0]).type.shape;
  if (NumElements(from) == 0) return false;
  bool changed = false;
  auto follow = [&](ValueId source, const Shape& sizes, int begin, int end, ValueId target,
                    const Shape& target_sizes, int to_begin, int to_end) {
    const auto spread = [&](const FactorList& factors) {
      const auto dims =
          ReshapeFactors(pinned_.mesh(), factors,
                         std::span(target_sizes.begin() + to_begin, static_cast<size_t>(to_end - to_begin)));
      if (!dims.has_value()) return;
      const Layout layout = Layout::Strided(pinned_.mesh(), *dims);
      for (int d = to_begin; d < to_end; ++d)
        changed |= AddCut(target, d, pool_.IdOf(layout.Factors(d - to_begin, 1)));
    };
    const auto choose = [&](auto& self, int d, const FactorList& before, AxisSet taken) -> void {
      if (d == end) {
        if (!taken.empty()) spread(before);
        return;
      }
      const Candidates candidates = cuts_[source][d];
      for (CutId cut : candidates) {
        if (cut == kWhole || taken.Intersects(pool_.axes(cut)) || (!taken.empty() && !open_.is_small))
          continue;
        FactorList factors = before;
        factors.insert(factors.end(), pool_.cut(cut).begin(), pool_.cut(cut).end());
        if (!pool_.is_strided(cut)) factors.back().size = sizes[d];
        self(self, d + 1, factors, taken.Union(pool_.axes(cut)));
      }
      FactorList factors = before;
      factors.push_back({sizes[d], {}});
      self(self, d + 1, factors, taken);
    };
    choose(choose, begin, {}, AxisSet());
  };
  for (const ReshapeGroup& group : ReshapeGroups(from, to)) {
    if (group.is_single()) continue;
    follow(node.operands[0], from, group.from, group.from_end, node.results[0], to, group.to, group.to_end);
    follow(node.results[0], to, group.to, group.to_end, node.operands[0], from, group.from, group.from_end);
  }
  return changed;
}

bool LayoutSpace::SpreadRelayout(const Node& node) {
  const ValueId from = node.operands[0], to = node.results[0];
  bool changed = false;
  for (size_t d = 0; d < cuts_[from].size(); ++d) {
    const int dim = static_cast<int>(d);
    for (CutId cut : Candidates(cuts_[from][d])) changed |= AddCut(to, dim, cut);
    for (CutId cut : Candidates(cuts_[to][d])) changed |= AddCut(from, dim, cut);
  }
  return changed;
}

void LayoutSpace::FindDomains() {
  of_table_.resize(tables_.size());
  for (ValueId id = 0; id < static_cast<ValueId>(cuts_.size()); ++id) {
    if (fold_.value_of[id] != id) continue;
    Domain domain{table_[id], cuts_[id], {lies_[id]}, kept_[id], may_owe_[id]};
    for (Candidates& candidates : domain.cuts) std::sort(candidates.begin() + 1, candidates.end());
    if (const auto further = further_.find(id); further != further_.end()) {
      domain.is_listed = true;
      domain.layouts.insert(domain.layouts.end(), further->second.begin(), further->second.end());
      domain_[id] = DomainOf(std::move(domain));
      continue;
    }
    // Before layouts are made, looks for a domain that was made from the same candidates.
    const auto& known = of_table_[domain.table];
    const auto found = std::find_if(known.begin(), known.end(), [&](int d) {
      return !domains_[d].is_listed && domains_[d].layouts[0] == lies_[id] &&
             domains_[d].is_kept == domain.is_kept && domains_[d].may_owe == domain.may_owe &&
             domains_[d].cuts == domain.cuts;
    });
    if (found != known.end()) {
      domain_[id] = *found;
      continue;
    }
    MakeLayouts(id, domain);
    domain_[id] = DomainOf(std::move(domain));
  }
}

int LayoutSpace::DomainOf(Domain domain) {
  std::vector<int>& known = of_table_[domain.table];
  const auto found = std::find_if(known.begin(), known.end(), [&](int d) { return domains_[d] == domain; });
  if (found != known.end()) return *found;
  known.push_back(static_cast<int>(domains_.size()));
  domains_.push_back(std::move(domain));
  return known.back();
}

void LayoutSpace::MakeLayouts(ValueId id, Domain& domain) {
  std::vector<int>& all = domain.layouts;
  const std::vector<Candidates>& candidates = domain.cuts;
  const Shape& shape = pinned_.value(id).type.shape;
  LayoutTable& table = TableOf(id);
  CutIds cuts(candidates.size(), kWhole);
  auto choose = [&](auto& self, size_t d, AxisSet taken) -> void {
    if (all.size() >= most_.layouts) {
      is_cut_off_ = true;
      return;
    }
    if (d == cuts.size()) {
      if (cuts == table.cuts(all[0])) return;
      const int layout = table.IdOf(cuts);
      const bool is_strided =
          std::any_of(cuts.begin(), cuts.end(), [&](CutId c) { return pool_.is_strided(c); });
      if (!is_strided || table.layout(layout).Fits(shape).ok()) all.push_back(layout);
      return;
    }
    for (CutId cut : candidates[d]) {
      if (taken.Intersects(pool_.axes(cut))) continue;
      cuts[d] = cut;
      self(self, d + 1, taken.Union(pool_.axes(cut)));
    }
  };
  choose(choose, 0, AxisSet());
}

}  // namespace meshwork
