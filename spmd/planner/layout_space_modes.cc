// The ways in which ops can run.
#include <algorithm>

#include "meshwork/ir/row.h"
#include "meshwork/layout/reshape.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/layout_space.h"
#include "meshwork/spmd/planner/may_wait.h"

namespace meshwork {
namespace {

constexpr size_t kMostOperands = 16;  // an op with more is not run on operands that owe

}  // namespace

void LayoutSpace::FindModes(int n) {
  const Node& node = nodes_[n];
  OpKind& kind = kinds_[kind_[n]];
  const bool is_shared =
      !MayBeOwed(node) || !AsksForMagnitudes(pinned_, node);  // otherwise MayWait differs by op
  const auto found =
      std::find_if(kind.modes.begin(), kind.modes.end(), [&](int m) { return RunsAs(n, modes_[m]); });
  if (is_shared && found != kind.modes.end()) {
    modes_of_.push_back(*found);
  } else {
    modes_of_.push_back(static_cast<int>(modes_.size()));
    if (is_shared) kind.modes.push_back(modes_of_.back());
    Modes& modes = modes_.emplace_back();
    modes.first = n;
    modes.operands = node.operands.size();
    modes.results = node.results.size();
    for (ValueId id : node.operands) modes.operand_domains.push_back(domain_[id]);
    for (ValueId id : node.results) modes.result_domains.push_back(domain_[id]);
    if (node.row->name == "relayout") MakeRelayoutModes(n, modes);
    else MakeModes(n, modes);
    for (AxisSet axes : modes.axes)
      modes.even_parts.push_back(1 / static_cast<double>(pinned_.mesh().GroupSize(axes.ToList())));
    modes.wanted_by_any.resize(modes.operands);
    for (size_t m = 0; m < modes.count; ++m)
      for (size_t i = 0; i < modes.operands; ++i)
        if (std::vector<int>& any = modes.wanted_by_any[i]; !Contains(any, modes.WantedBy(m)[i]))
          any.push_back(modes.WantedBy(m)[i]);
    KeepOwed(n, modes);
  }
  const Modes& modes = modes_[modes_of_.back()];
  for (size_t r = 0; r < node.results.size(); ++r) domain_[node.results[r]] = modes.left_domains[r];
}

bool LayoutSpace::MayBeOwed(const Node& node) const {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
    const std::vector<int>& all = layouts(id);
    return tables_[table_[id]].is_partial(all.back());
  });
}

// Whether op n could run in these ways, and runs now as the op for which they were made.
bool LayoutSpace::RunsAs(int n, const Modes& modes) const {
  const Node &node = nodes_[n], &other = nodes_[modes.first];
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (domain_[node.operands[i]] != modes.operand_domains[i]) return false;
  for (size_t i = 0; i < node.results.size(); ++i)
    if (domain_[node.results[i]] != modes.result_domains[i]) return false;
  // Operands that are one value in one op must be one value in the other.
  for (size_t i = 0; i < node.operands.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if ((node.operands[i] == node.operands[j]) != (other.operands[i] == other.operands[j])) return false;
  const std::optional<Choice>&a = ChoiceNow(n), &b = ChoiceNow(modes.first);
  return !a.has_value() ||
         (a->operands == b->operands && a->results == b->results && a->reduced == b->reduced);
}

// Adds a way to run an op, unless there is an equal one already.
void LayoutSpace::Push(OpModes& modes, const std::vector<int>& wanted, const std::vector<int>& left,
                       const CutIds& cuts, AxisSet axes, double part) {
  for (size_t m = 0; m < modes.count; ++m)
    if (std::equal(wanted.begin(), wanted.end(), modes.WantedBy(m)) &&
        std::equal(left.begin(), left.end(), modes.LeftBy(m)))
      return;
  modes.wanted.insert(modes.wanted.end(), wanted.begin(), wanted.end());
  modes.left.insert(modes.left.end(), left.begin(), left.end());
  modes.cuts.push_back(cuts);
  modes.axes.push_back(axes);
  modes.parts.push_back(part);
  ++modes.count;
}

// The part of an op's arithmetic that the busiest device does. If blocks are uneven, some devices do less. A reshape is
// cut by `axes`, not by letters.
double LayoutSpace::PartOf(const Rule& rule, const CutIds& cuts, AxisSet axes) const {
  double part = 1;
  AxisSet by_letters;
  for (CutId cut : cuts) by_letters = by_letters.Union(pool_.axes(cut));
  if (by_letters != axes) return 1 / static_cast<double>(pinned_.mesh().GroupSize(axes.ToList()));
  for (size_t l = 0; l < cuts.size(); ++l) {
    const int64_t size = rule.letters[l].size;
    if (cuts[l] == kWhole || size == 0) continue;
    const AxisList by = pool_.axes(cuts[l]).ToList();
    part *= pool_.is_strided(cuts[l])
                ? 1 / static_cast<double>(pinned_.mesh().GroupSize(by))
                : static_cast<double>(BlockSize(pinned_.mesh(), by, size)) / static_cast<double>(size);
  }
  return part;
}

int LayoutSpace::PlacedAt(ValueId id, const LetterList& letters, const CutIds& cuts, int owed) {
  CutIds dims;
  for (int letter : letters) dims.push_back(letter == kNoLetter ? kWhole : cuts[letter]);
  return TableOf(id).IdOf(dims, owed);
}

void LayoutSpace::MakeRelayoutModes(int n, Modes& modes) {
  const ValueId result = nodes_[n].results[0];
  for (int layout : layouts(result))
    if (!TableOf(result).is_partial(layout)) Push(modes, {layout}, {layout}, {}, AxisSet(), /*part=*/0);
}

void LayoutSpace::AddMode(int n, const CutIds& cuts, Modes& modes) {
  const Node& node = nodes_[n];
  const Rule& rule = RuleAt(n);
  AxisSet sharded;
  bool reduces = false;
  for (size_t l = 0; l < cuts.size(); ++l) {
    sharded = sharded.Union(pool_.axes(cuts[l]));
    reduces |= rule.letters[l].reduced && cuts[l] != kWhole;
  }
  const int owed = reduces ? pool_.OwedId(ReducedBy(rule, CutsOf(cuts))) : 0;
  std::vector<int> wanted, left;
  for (size_t i = 0; i < node.operands.size(); ++i)
    wanted.push_back(PlacedAt(node.operands[i], rule.operands[i], cuts, 0));
  for (size_t i = 0; i < node.results.size(); ++i)
    left.push_back(PlacedAt(node.results[i], rule.results[i], cuts, owed));
  Push(modes, wanted, left, cuts, sharded, PartOf(rule, cuts, sharded));
}

// Ways in which no element moves: one for each layout of the operand, and one for each layout of the result.
void LayoutSpace::MakeReshapeModes(int n, Modes& modes) {
  const ValueId operand = nodes_[n].operands[0], result = nodes_[n].results[0];
  const Shape &from = pinned_.value(operand).type.shape, &to = pinned_.value(result).type.shape;
  const CutIds none(RuleAt(n).letters.size(), kWhole);
  auto add = [&](int wanted, int left) {
    const AxisSet axes = TableOf(operand).sharded(wanted);
    Push(modes, {wanted}, {left}, none, axes, PartOf(RuleAt(n), none, axes));
  };
  for (int layout : layouts(operand)) {
    if (TableOf(operand).is_partial(layout)) continue;  // see AddOwing
    if (auto other = Reshaped(TableOf(operand).layout(layout), from, to))
      add(layout, TableOf(result).IdOf(*other));
  }
  for (int layout : layouts(result)) {
    if (TableOf(result).is_partial(layout)) continue;
    if (auto other = Reshaped(TableOf(result).layout(layout), to, from))
      add(TableOf(operand).IdOf(*other), layout);
  }
}

void LayoutSpace::MakeModes(int n, Modes& modes) {
  const Node& node = nodes_[n];
  const Rule& rule = RuleAt(n);
  if (ChoiceNow(n).has_value()) {
    const Choice& choice = *ChoiceNow(n);
    std::vector<int> wanted, left;
    CutIds cuts;
    for (size_t i = 0; i < node.operands.size(); ++i)
      wanted.push_back(TableOf(node.operands[i]).IdOf(choice.operands[i].WithoutPartials()));
    for (size_t i = 0; i < node.results.size(); ++i)
      left.push_back(TableOf(node.results[i]).IdOf(choice.results[i].WithPartials(choice.reduced)));
    for (const Cut& cut : choice.cuts) cuts.push_back(pool_.IdOf(cut));
    Push(modes, wanted, left, cuts, choice.sharded(), PartOf(rule, cuts, choice.sharded()));
  }
  if (node.row->name == "reshape") MakeReshapeModes(n, modes);
  const std::vector<Candidates> offers = OffersTo(n);
  CutIds cuts(rule.letters.size(), kWhole);
  auto choose = [&](auto& self, size_t l, AxisSet taken) -> void {
    if (modes.count >= most_.modes) {
      is_cut_off_ = true;
      return;
    }
    if (l == cuts.size()) {
      if (rule.windows.empty() || AreExchangeable(rule, CutsOf(cuts))) AddMode(n, cuts, modes);
      return;
    }
    for (CutId cut : offers[l]) {
      if (taken.Intersects(pool_.axes(cut))) continue;
      cuts[l] = cut;
      self(self, l + 1, taken.Union(pool_.axes(cut)));
    }
    cuts[l] = kWhole;
    self(self, l + 1, taken);
  };
  choose(choose, 0, AxisSet());
  if (!IsMark(node)) AddOwing(n, modes);
}

// Adds the ways to run an op on operands that owe something that the op passes on.
void LayoutSpace::AddOwing(int n, Modes& modes) {
  const Node& node = nodes_[n];
  std::vector<int> sets;
  for (ValueId id : node.operands)
    for (int layout : layouts(id))
      if (const int owed = TableOf(id).owed(layout); owed != 0 && !Contains(sets, owed)) sets.push_back(owed);
  const size_t base = modes.count, count = node.operands.size();
  if (count > kMostOperands) return;
  for (int set : sets) {
    for (size_t m = 0; m < base; ++m) {
      if (count > 1) AddOwing(n, m, std::vector<int>(count, set), modes);
      for (size_t i = 0; i < count; ++i) {
        const auto first = std::find(node.operands.begin(), node.operands.end(), node.operands[i]);
        if (first - node.operands.begin() != static_cast<int64_t>(i)) continue;
        std::vector<int> owed(count, 0);
        for (size_t j = 0; j < count; ++j) owed[j] = node.operands[j] == node.operands[i] ? set : 0;
        AddOwing(n, m, owed, modes);
      }
    }
  }
}

void LayoutSpace::AddOwing(int n, size_t base, const std::vector<int>& owed, Modes& modes) {
  const Node& node = nodes_[n];
  if (modes.count >= 2 * most_.modes) return;
  const AxisSet axes = modes.axes[base];
  absl::InlinedVector<PartialSet, 4> sets;
  for (int set : owed) sets.push_back(pool_.owed(set));
  const std::optional<PartialSet> passed = RuleAt(n).PassOn(sets, axes);
  if (!passed.has_value() || !MayWait(pinned_, node, RuleAt(n), sets)) return;
  std::vector<int> wanted, left;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    LayoutTable& table = TableOf(node.operands[i]);
    wanted.push_back(table.IdOf(CutIds(table.cuts(modes.WantedBy(base)[i])), owed[i]));
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    LayoutTable& table = TableOf(node.results[i]);
    const int alone = modes.LeftBy(base)[i];
    const PartialSet& reduced = pool_.owed(table.owed(alone));
    // Reductions of two kinds do not commute.
    if (!passed->empty() && !reduced.empty() && passed->front().op != reduced.front().op) return;
    left.push_back(table.IdOf(CutIds(table.cuts(alone)), pool_.OwedId(UnionOf(*passed, reduced))));
  }
  Push(modes, wanted, left, CutIds(modes.cuts[base]), axes, modes.parts[base]);
}

// Adds to the layouts of the results those in which some way to run the op leaves a reduction owed.
void LayoutSpace::KeepOwed(int n, Modes& modes) {
  const Node& node = nodes_[n];
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueId id = node.results[r];
    Domain domain = domains_[domain_[id]];
    size_t count = 0;
    for (size_t m = 0; domain.may_owe && m < modes.count && count < most_.owed; ++m) {
      const int layout = modes.LeftBy(m)[r];
      if (!TableOf(id).is_partial(layout) || Contains(domain.layouts, layout)) continue;
      domain.layouts.push_back(layout);
      ++count;
    }
    modes.left_domains.push_back(DomainOf(std::move(domain)));
  }
}

LetterCuts LayoutSpace::CutsOf(const CutIds& ids) const {
  LetterCuts cuts;
  for (CutId id : ids) cuts.push_back(pool_.cut(id));
  return cuts;
}

Choice LayoutSpace::ChoiceOf(int n, size_t mode) {
  const Node& node = nodes_[n];
  Choice choice{.rule = kinds_[kind_[n]].rule, .cuts = CutsOf(modes(n).cuts[mode])};
  for (size_t i = 0; i < node.operands.size(); ++i)
    choice.operands.push_back(TableOf(node.operands[i]).layout(modes(n).WantedBy(mode)[i]));
  for (size_t i = 0; i < node.results.size(); ++i)
    choice.results.push_back(TableOf(node.results[i]).layout(modes(n).LeftBy(mode)[i]));
  if (!choice.results.empty()) choice.reduced = choice.results[0].partials();
  return choice;
}

}  // namespace meshwork
