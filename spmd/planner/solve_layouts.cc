#include "meshwork/spmd/planner/solve_layouts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/decisions.h"
#include "meshwork/spmd/planner/fold_counts.h"
#include "meshwork/spmd/planner/fold_repeats.h"
#include "meshwork/spmd/planner/held_values.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/layout_costs.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/numbering.h"
#include "meshwork/spmd/planner/search_text.h"
#include "meshwork/spmd/solver/cost_model.h"
#include "meshwork/spmd/solver/min_sum.h"
#include "meshwork/spmd/solver/near_sums.h"

namespace meshwork {
namespace {

constexpr int kRounds = 1;      // of FoldAlike
constexpr size_t kFewAxes = 2;  // on which all further forms of a value are looked at
constexpr size_t kNear = 64;    // variables that may change with a change of pins

class LayoutSolver {
 public:
  LayoutSolver(const Graph& pinned, const Graph& propagated,
               const std::vector<std::optional<Choice>>& choices, const Topology& topology,
               const Replication& replication, const SolveOptions& options)
      : pinned_(pinned),
        propagated_(propagated),
        options_(options),
        own_work_(kWorkOfCompile, pinned.nodes().size()),
        work_(options.work != nullptr ? *options.work : own_work_),
        max_table_entries_(std::min(options.max_table_entries, work_.table_entries())),
        refuses_(replication.refuses()),
        fold_(options.fold != nullptr ? *options.fold : RepeatsOf(pinned, propagated, choices, replication)),
        counts_(CountsOf(pinned, fold_, options.counts_all)),
        nodes_(propagated, fold_),
        space_(pinned, propagated, choices, fold_, nodes_, options.open, options.price, &work_),
        held_(pinned, fold_, topology, space_, /*few_others=*/!options.open.further.empty(),
              /*many_states=*/options.open.is_thorough && options.open.arguments.ToList().size() <= kFewAxes),
        costs_(pinned, nodes_, counts_, topology, replication, space_, held_, options.price.seconds,
               options.gathers_bound_weights),
        of_value_(pinned.values().size()) {}

  std::optional<SolvedLayouts> Run() {
    if (!MakeProblem()) return std::nullopt;
    const std::vector<int> as_now(static_cast<size_t>(problem_.num_variables()), 0);
    const double cost_now = problem_.CostOf(as_now);
    std::vector<int> start = options_.start != nullptr ? AssignmentOf(*options_.start) : as_now;
    if (cost_now < problem_.CostOf(start)) start = as_now;
    const double most = std::min(options_.max_entries, work_.solver_entries());
    const MinSumResult found = Minimize(
        problem_,
        {.max_entries = static_cast<int64_t>(most), .start = std::move(start), .order = ProgramOrder()});
    work_.Take(found.entries);
    if (options_.text != nullptr) *options_.text = TextOf(found.assignment);
    // So high a cost contains a refused gather.
    if (refuses_ && found.cost >= costs_.refused_seconds()) return std::nullopt;
    const bool is_better = found.cost < cost_now * kLess;
    SolvedLayouts solved = Realized(is_better ? found.assignment : as_now);
    solved.is_better = is_better;
    solved.is_cut_off =
        space_.is_cut_off() || (held_.is_cut_off() && options_.open.arguments.ToList().size() <= kFewAxes);
    solved.cost = is_better ? found.cost : cost_now;
    solved.lower_bound = std::min(found.lower_bound, solved.cost);
    solved.is_optimal = is_better ? found.is_optimal : cost_now * kLess <= found.lower_bound;
    return solved;
  }

  std::optional<std::vector<double>> RunChanges(std::span<const PinChange> changes) {
    if (!MakeProblem()) return std::nullopt;
    StateLists usual;
    for (int states : problem_.states()) {
      usual.emplace_back(static_cast<size_t>(states));
      std::iota(usual.back().begin(), usual.back().end(), 0);
    }
    for (const PinChange& change : changes)
      for (ValueId id : change.values)
        if (of_value_[id].index >= 0) usual[of_value_[id].index] = StatesIn(id, space_.layouts(id)[0]);
    const NearSums sums(problem_, std::move(usual));
    std::vector<double> more;
    for (size_t begin = 0, end = 0; begin < changes.size(); begin = end) {
      std::vector<int> variables;
      for (ValueId id : changes[begin].values)
        if (of_value_[id].index >= 0) variables.push_back(of_value_[id].index);
      std::vector<StateLists> lists;
      for (; end < changes.size() && changes[end].values == changes[begin].values; ++end) {
        lists.emplace_back();
        for (ValueId id : changes[end].values)
          if (of_value_[id].index >= 0)
            lists.back().push_back(StatesIn(id, space_.TableOf(id).IdOf(changes[end].layout)));
      }
      const std::vector<double> of_these = sums.MoreWith(variables, lists, kNear, work_.solver_entries());
      more.insert(more.end(), of_these.begin(), of_these.end());
    }
    return more;
  }

 private:
  std::string TextOf(const std::vector<int>& assignment) {
    WeighedSearch search{pinned_, fold_, nodes_, space_, held_, problem_, {}, {}, purposes_};
    for (Variable variable : of_value_) search.of_value.push_back(variable.index);
    for (Variable variable : of_node_) search.of_node.push_back(variable.index);
    return meshwork::TextOf(search, assignment, costs_.refused_seconds());
  }

  // A variable of the problem; -1: there is nothing to choose.
  struct Variable {
    int index = -1;
  };

  Variable AddVariable(size_t states) {
    return states > 1 ? Variable{problem_.AddVariable(static_cast<int>(states))} : Variable{};
  }
  // costs: [states of a, states of b].
  void AddTable(Variable a, Variable b, CostList costs, TablePurpose purpose) {
    std::vector<int> variables;
    if (a.index >= 0) variables.push_back(a.index);
    if (b.index >= 0) variables.push_back(b.index);
    if (std::all_of(costs.begin(), costs.end(), [&](double cost) { return cost == 0; })) return;
    entries_ += costs.size();
    problem_.AddTable(std::move(variables), std::move(costs));
    purposes_.push_back(purpose);
  }

  // Returns false if the tables are too large.
  bool MakeProblem() {
    const bool is_made = MakeTables();
    work_.Take(kEntriesPerTableEntry * static_cast<double>(entries_));
    return is_made;
  }

  bool MakeTables() {
    for (ValueId id = 0; id < static_cast<ValueId>(of_value_.size()); ++id) {
      if (fold_.value_of[id] != id) continue;
      of_value_[id] = AddVariable(held_.of(id).size());
      if (pinned_.value(id).node < 0)
        AddTable(of_value_[id], {}, costs_.Argument(id), {"further form of", id});
      if (options_.byte_seconds > 0 && IsHeldLong(id))
        AddTable(of_value_[id], {}, costs_.Memory(id, options_.byte_seconds), {"to hold", id});
    }
    for (int n = 0; n < nodes_.size() && entries_ <= max_table_entries_; ++n) AddNode(n);
    if (entries_ > max_table_entries_) return false;
    for (const auto& [update, times] : counts_.updates) {
      const auto& [value, variable] = update;
      if (value != variable)
        AddTable(of_value_[value], of_value_[variable], costs_.Update(value, variable, times),
                 {"to update", variable});
    }
    for (const auto& [a, b] : AlikeAtMarks(pinned_)) {
      const ValueId x = fold_.value_of[a], y = fold_.value_of[b];
      if (x != y) AddTable(of_value_[x], of_value_[y], costs_.Alike(x, y), {"alike"});
    }
    return entries_ <= max_table_entries_;
  }

  // The variables in the order of the program.
  std::vector<int> ProgramOrder() const {
    std::vector<int> order;
    std::vector<bool> is_listed(static_cast<size_t>(problem_.num_variables()), false);
    const auto list = [&](Variable variable) {
      if (variable.index < 0 || is_listed[variable.index]) return;
      is_listed[variable.index] = true;
      order.push_back(variable.index);
    };
    for (int n = 0; n < nodes_.size(); ++n) {
      for (ValueId id : nodes_[n].operands) list(of_value_[fold_.value_of[id]]);
      list(of_node_[n]);
      for (ValueId id : nodes_[n].results) list(of_value_[id]);
    }
    for (Variable variable : of_value_) list(variable);
    return order;
  }

  void AddNode(int n) {
    const Node& node = nodes_[n];
    const Variable variable = AddVariable(space_.modes(n).count);
    of_node_.push_back(variable);
    if (node.row->name != "relayout" && !IsMark(node) && (variable.index >= 0 || options_.counts_all))
      AddTable(variable, {}, Arithmetic(n), {"arithmetic"});
    if (variable.index >= 0 || options_.counts_all)
      AddTable(variable, {}, costs_.Exchanges(n), {"exchanges"});
    for (size_t i = 0; i < node.operands.size(); ++i)
      for (const auto& [id, times] : counts_.reads[n][i])
        AddTable(of_value_[id], variable, costs_.Reads(n, i, id, times), {"to read", id});
    for (size_t r = 0; r < node.results.size(); ++r)
      AddTable(variable, of_value_[node.results[r]], costs_.Leaves(n, r, node.results[r]),
               {"to leave", node.results[r]});
  }

  // For changes of pins only communication counts. So arithmetic costs nothing then, unless it is forbidden.
  std::vector<double> Arithmetic(int n) const {
    const bool changes_pins = !options_.open.further.empty();
    std::vector<double> costs = costs_.Arithmetic(n, options_.may_compute_more ? MoreArithmetic::kAny
                                                     : changes_pins            ? MoreArithmetic::kNone
                                                                               : MoreArithmetic::kForOwed);
    if (changes_pins)
      for (double& cost : costs)
        if (cost < kNever) cost = 0;
    return costs;
  }

  // Whether a value is held for a large part of the step.
  bool IsHeldLong(ValueId id) const {
    constexpr int kPart = 8;
    if (pinned_.value(id).node < 0) return true;
    return held_.LastReader(id) - fold_.class_of[pinned_.value(id).node] > nodes_.size() / kPart;
  }

  // ---- The program.

  size_t StateOf(const std::vector<int>& assignment, Variable variable) const {
    return variable.index < 0 ? 0 : static_cast<size_t>(assignment[variable.index]);
  }

  const Held& StateIn(const std::vector<int>& assignment, ValueId id) const {
    return held_.of(id)[StateOf(assignment, of_value_[id])];
  }

  // The states in which a value has this layout.
  std::vector<int> StatesIn(ValueId id, int layout) const {
    std::vector<int> states;
    for (size_t s = 0; s < held_.of(id).size(); ++s)
      if (held_.of(id)[s].form == layout) states.push_back(static_cast<int>(s));
    return states;
  }

  const Layout& ChosenFor(ValueId id, const std::vector<int>& assignment) {
    return space_.TableOf(id).layout(StateIn(assignment, id).form);
  }

  // The states that another search found. If a state is not among those of this search, the first state instead.
  std::vector<int> AssignmentOf(const SolvedLayouts& solved) {
    std::vector<int> assignment(static_cast<size_t>(problem_.num_variables()), 0);
    for (ValueId id = 0; id < static_cast<ValueId>(of_value_.size()); ++id)
      if (of_value_[id].index >= 0) assignment[of_value_[id].index] = StateIn(solved, id);
    for (int n = 0; n < nodes_.size(); ++n)
      if (of_node_[n].index >= 0) assignment[of_node_[n].index] = ModeIn(solved, n);
    return assignment;
  }

  int StateIn(const SolvedLayouts& solved, ValueId id) {
    LayoutTable& table = space_.TableOf(id);
    const std::optional<Layout>& other = solved.others[id];
    Held held{table.IdOf(*solved.propagated.value(id).layout)};
    if (other.has_value()) held.other = table.IdOf(*other);
    const std::vector<Held>& states = held_.of(id);
    auto found = std::find(states.begin(), states.end(), held);
    if (found == states.end()) found = std::find(states.begin(), states.end(), Held{held.form});
    return found == states.end() ? 0 : static_cast<int>(found - states.begin());
  }

  int ModeIn(const SolvedLayouts& solved, int n) {
    const Node& node = nodes_[n];
    const OpModes& modes = space_.modes(n);
    const std::optional<Choice>& choice = solved.choices[fold_.first[n]];
    std::vector<int> wanted, left;
    for (size_t i = 0; choice.has_value() && i < modes.operands; ++i)
      wanted.push_back(space_.TableOf(node.operands[i]).IdOf(choice->operands[i]));
    for (size_t i = 0; i < modes.results; ++i) {
      const Layout& result = *solved.propagated.value(node.results[i]).layout;
      left.push_back(space_.TableOf(node.results[i]).IdOf(choice.has_value() ? choice->results[i] : result));
    }
    if (!choice.has_value()) wanted = left;  // a relayout
    for (size_t m = 0; m < modes.count; ++m)
      if (std::equal(wanted.begin(), wanted.end(), modes.WantedBy(m)) &&
          std::equal(left.begin(), left.end(), modes.LeftBy(m)))
        return static_cast<int>(m);
    return 0;
  }

  SolvedLayouts Realized(const std::vector<int>& assignment) {
    SolvedLayouts chosen{.propagated = propagated_};
    for (ValueId id = 0; id < static_cast<ValueId>(of_value_.size()); ++id) {
      const ValueId alike = fold_.value_of[id];
      const Held& held = StateIn(assignment, alike);
      chosen.others.emplace_back();
      if (held.other >= 0) chosen.others.back() = space_.TableOf(alike).layout(held.other);
    }
    // Per value that stands for others: how many of them have another layout than before.
    std::vector<int> moved(of_value_.size(), 0);
    for (ValueId id = 0; id < static_cast<ValueId>(of_value_.size()); ++id) {
      const ValueId alike = fold_.value_of[id];
      const Layout& layout = ChosenFor(alike, assignment);
      ValueInfo& info = chosen.propagated.mutable_value(id);
      if (*info.layout == layout) continue;
      info.layout = layout;
      ++moved[alike];
    }
    for (ValueId id = 0; id < static_cast<ValueId>(of_value_.size()); ++id) {
      if (moved[id] == 0) continue;
      const std::string others = moved[id] > 1 ? fmt::format(", and {} like it", moved[id] - 1) : "";
      chosen.decisions.push_back(
          fmt::format("{}{} = {} instead of {}: the step sends less", NameOf(pinned_, id), others,
                      ChosenFor(id, assignment).ToString(), propagated_.value(id).layout->ToString()));
    }
    std::vector<std::optional<Choice>> of_class;
    for (int n = 0; n < nodes_.size(); ++n) {
      of_class.emplace_back();
      if (nodes_[n].row->name != "relayout")
        of_class.back() = space_.ChoiceOf(n, StateOf(assignment, of_node_[n]));
    }
    for (int n : fold_.class_of) chosen.choices.push_back(of_class[n]);
    return chosen;
  }

  const Graph& pinned_;
  const Graph& propagated_;
  const SolveOptions options_;
  SearchWork own_work_;
  SearchWork& work_;
  const size_t max_table_entries_;
  const bool refuses_;  // some gathers may be refused
  const Fold fold_;
  const FoldCounts counts_;
  const FoldedNodes nodes_;
  LayoutSpace space_;
  const HeldValues held_;
  LayoutCosts costs_;
  std::vector<Variable> of_value_, of_node_;
  MinSum problem_;
  std::vector<TablePurpose> purposes_;  // per table
  size_t entries_ = 0;                  // of its tables
};

}  // namespace

Fold RepeatsOf(const Graph& pinned, const Graph& propagated,
               const std::vector<std::optional<Choice>>& choices, const Replication& replication, int kept) {
  const std::vector<bool> is_kept = KeptValues(pinned);
  std::vector<uint64_t> value_marks, node_marks;
  for (ValueId id = 0; id < static_cast<ValueId>(is_kept.size()); ++id) {
    const ValueInfo& info = pinned.value(id);
    uint64_t mark = (info.layout.has_value() ? 1 : 0) | (is_kept[id] ? 2 : 0);
    mark |= replication.KindOf(id) << 2;
    for (DimMode mode : info.modes) mark = MixedHash(mark, static_cast<uint64_t>(mode));
    value_marks.push_back(mark);
  }
  const std::vector<int64_t> runs = RunsOf(pinned);
  for (size_t n = 0; n < choices.size(); ++n) {
    uint64_t mark = static_cast<uint64_t>(runs[n]);
    if (choices[n].has_value()) {
      for (const auto* layouts : {&choices[n]->operands, &choices[n]->results})
        for (const Layout& layout : *layouts) mark = MixedHash(mark, HashOf(layout));
    }
    node_marks.push_back(mark);
  }
  return SkipRepeats(propagated, FoldAlike(propagated, kRounds, value_marks, node_marks), kept);
}

std::optional<SolvedLayouts> SolveLayouts(const Graph& pinned, const Graph& propagated,
                                          const std::vector<std::optional<Choice>>& choices,
                                          const Topology& topology, const Replication& replication,
                                          const SolveOptions& options) {
  return LayoutSolver(pinned, propagated, choices, topology, replication, options).Run();
}

std::optional<std::vector<double>> CostsOfChanges(const Graph& pinned, const Graph& propagated,
                                                  const std::vector<std::optional<Choice>>& choices,
                                                  const Topology& topology, double collective_seconds,
                                                  std::span<const PinChange> changes) {
  std::vector<std::pair<ValueId, Layout>> further;
  for (const PinChange& change : changes)
    for (ValueId id : change.values) further.emplace_back(id, change.layout);
  const Fold fold = Unfolded(pinned);
  SearchWork work(kWorkOfChanges, pinned.nodes().size());
  return LayoutSolver(
             pinned, propagated, choices, topology, Replication(),
             {.open = {.further = further}, .price = {collective_seconds}, .fold = &fold, .work = &work})
      .RunChanges(changes);
}

}  // namespace meshwork
