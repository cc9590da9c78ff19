#include "meshwork/spmd/solve_layouts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/fold_repeats.h"
#include "meshwork/spmd/gather_on_use.h"
#include "meshwork/spmd/move_seconds.h"
#include "meshwork/spmd/numbering.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/search/min_sum.h"

namespace meshwork {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRefused = 1e3;  // seconds of a gather that is refused: more than any step takes
constexpr double kImplied = 1;    // of one that the layouts imply
// An op of more operations per element that it reads or writes runs on no fewer devices than before.
constexpr double kHeavy = 8;
constexpr size_t kMostStates = 160;  // of one value
constexpr int kRounds = 1;           // what lies up to so many ops away tells ops apart
// Entries of all tables: a program with more, on a mesh of several axes, is left as it is.
constexpr size_t kMostTableEntries = 4'000'000;

// How a value is held: in a layout, and in one more that is made of it; by their numbers.
struct Held {
  int form;
  int other = -1;

  bool operator==(const Held&) const = default;
};

class LayoutSolver {
 public:
  LayoutSolver(const Graph& pinned, const Graph& propagated,
               const std::vector<std::optional<Choice>>& choices, const Topology& topology,
               const Replication& replication, const SolveOptions& options)
      : pinned_(pinned),
        propagated_(propagated),
        topology_(topology),
        replication_(replication),
        options_(options),
        fold_(options.fold != nullptr ? *options.fold : RepeatsOf(pinned, propagated, choices, replication)),
        nodes_(propagated, fold_),
        space_(pinned, propagated, choices, fold_, nodes_, options.open),
        held_(pinned.values().size()),
        readers_(pinned.values().size()),
        of_value_(pinned.values().size()) {}

  std::optional<SolvedLayouts> Run() {
    const std::vector<int64_t> runs = RunsOf(pinned_);
    for (int n = 0; n < nodes_.size(); ++n) weight_.push_back(static_cast<double>(runs[fold_.first[n]]));
    for (int n = 0; n < static_cast<int>(pinned_.nodes().size()); ++n) {
      const Node& node = pinned_.nodes()[n];
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (const ValueId id = node.operands[i]; fold_.value_of[id] == id)
          readers_[id].push_back({fold_.class_of[n], i});
    }
    for (ValueId id = 0; id < static_cast<ValueId>(held_.size()); ++id) {
      if (fold_.value_of[id] != id) continue;
      MakeStates(id);
      of_value_[id] = AddVariable(HeldBy(id).size());
      if (pinned_.value(id).node < 0) AddArgument(id);
      if (options_.byte_seconds > 0 && IsHeldLong(id)) AddMemory(id);
    }
    for (int n = 0; n < nodes_.size() && entries_ <= kMostTableEntries; ++n) AddNode(n);
    if (entries_ > kMostTableEntries) return std::nullopt;
    for (const VariableUpdate& update : pinned_.updates())
      if (fold_.value_of[update.value] == update.value)
        AddUpdate(update.value, fold_.value_of[pinned_.arguments()[update.argument].value]);
    for (const auto& [a, b] : AlikeAtMarks(pinned_)) AddAlike(fold_.value_of[a], fold_.value_of[b]);
    const std::vector<int> as_now(static_cast<size_t>(problem_.num_variables()), 0);
    const MinSumResult found = Minimize(problem_, {.max_entries = options_.max_entries, .start = as_now});
    // A gather that is refused is not to be had by gathering what comes before it.
    if (found.cost >= std::min(kRefused, problem_.CostOf(as_now) * kLess)) return std::nullopt;
    SolvedLayouts solved = Realized(found.assignment);
    solved.cost = found.cost;
    solved.lower_bound = found.lower_bound;
    solved.is_optimal = found.is_optimal;
    return solved;
  }

 private:
  // One of a problem; -1 where there is nothing to choose.
  struct Variable {
    int index = -1;
  };

  Variable AddVariable(size_t states) {
    return states > 1 ? Variable{problem_.AddVariable(static_cast<int>(states))} : Variable{};
  }
  // costs: [states of a, states of b].
  void AddTable(Variable a, Variable b, std::vector<double> costs) {
    std::vector<int> variables;
    if (a.index >= 0) variables.push_back(a.index);
    if (b.index >= 0) variables.push_back(b.index);
    if (std::all_of(costs.begin(), costs.end(), [&](double cost) { return cost == 0; })) return;
    entries_ += costs.size();
    problem_.AddTable(std::move(variables), std::move(costs));
  }

  const std::vector<Held>& HeldBy(ValueId id) const { return kinds_of_held_[held_[id]]; }

  // Every layout, alone or with another one that several ops could read; of a pinned result, that one could.
  void MakeStates(ValueId id) {
    std::vector<Held> states = StatesOf(id);
    const auto found = std::find(kinds_of_held_.begin(), kinds_of_held_.end(), states);
    held_[id] = static_cast<int>(found - kinds_of_held_.begin());
    if (found == kinds_of_held_.end()) kinds_of_held_.push_back(std::move(states));
  }

  std::vector<Held> StatesOf(ValueId id) {
    LayoutTable& table = space_.TableOf(id);
    const std::vector<int>& layouts = space_.layouts(id);
    std::vector<Held> states;
    for (int layout : layouts) states.push_back({layout});
    const bool is_result = pinned_.value(id).node >= 0;
    // What is pinned may also be read as its op leaves it.
    const size_t needed = is_result && layouts.size() == 1 ? 1 : 2;
    if (readers_[id].size() < needed || space_.IsKept(id) || pinned_.value(id).type.rank() == 0)
      return states;
    std::vector<size_t> count(table.size(), 0);
    for (const auto& [n, i] : readers_[id])
      for (int layout : space_.modes(n).wanted_by_any[i]) ++count[layout];
    for (int form : layouts) {
      for (size_t l = 0; l < count.size() && states.size() < kMostStates; ++l) {
        const int other = static_cast<int>(l);
        if (other == form || count[l] < needed) continue;
        if (table.is_partial(other) ? table.is_partial(form) || !is_result
                                    : table.Seconds(form, other, topology_) == 0)
          continue;
        states.push_back({form, other});
      }
    }
    return states;
  }

  // ---- Tables.

  // What a value is moved for: an op, and the axes that cut its letters then; or an update.
  struct Mover {
    std::span<const ValueId> results;  // of the op, or the variable
    const Node* node = nullptr;
    AxisSet axes = {};
    bool is_asked = false;  // by the user: a relayout
  };

  double MoveCost(ValueId id, int from, int to, const Mover& mover) {
    if (from == to) return 0;
    LayoutTable& table = space_.TableOf(id);
    const double seconds = table.Seconds(from, to, topology_);
    if (seconds == kNever || seconds == 0 || mover.is_asked || !table.sharded(to).empty() ||
        table.sharded(from).empty() ||
        !replication_.Refuses(id, mover.results, table.layout(from), table.layout(to)))
      return seconds;
    // The layouts imply the gather if the axes then cut another letter.
    const bool is_implied = table.sharded(from).Minus(mover.axes).empty() && mover.node != nullptr &&
                            replication_.IsImplied(id, *mover.node, table.layout(from));
    return seconds + (is_implied ? kImplied : kRefused);
  }

  double ReadCost(ValueId id, const Held& held, int to, const Mover& mover) {
    const double direct = MoveCost(id, held.form, to, mover);
    if (held.other < 0 || direct == 0) return direct;
    return std::min(direct, MoveCost(id, held.other, to, mover));
  }

  // An op leaves its result in `left`; it is held so.
  double LeaveCost(ValueId id, int left, const Held& held, const Mover& mover) {
    const double seconds = MoveCost(id, left, held.form, mover);
    if (held.other < 0 || held.other == left) return seconds;
    return seconds +
           std::min(MoveCost(id, held.form, held.other, mover), MoveCost(id, left, held.other, mover));
  }

  // Of an argument: to make its second form, and to have the whole of it on every device though it lay in blocks, as
  // of the gather that is spared. What an op leaves is in LeaveCosts.
  void AddArgument(ValueId id) {
    LayoutTable& table = space_.TableOf(id);
    const int lies = space_.layouts(id)[0];
    const Node* reader = readers_[id].empty() ? nullptr : &nodes_[readers_[id][0].first];
    const std::span<const ValueId> results =
        reader == nullptr ? std::span<const ValueId>() : std::span<const ValueId>(reader->results);
    std::vector<double> costs;
    for (const Held& held : HeldBy(id)) {
      double cost = held.other < 0 ? 0 : MoveCost(id, held.form, held.other, {results, reader});
      if (table.sharded(held.form).empty() && !table.sharded(lies).empty() &&
          replication_.Refuses(id, {}, table.layout(lies), table.layout(held.form)))
        cost += kRefused;
      costs.push_back(cost);
    }
    AddTable(of_value_[id], {}, std::move(costs));
  }

  // Whether a value is there for a large part of the step.
  bool IsHeldLong(ValueId id) const {
    constexpr int kPart = 8;
    if (pinned_.value(id).node < 0) return true;
    int last = 0;
    for (const auto& [n, i] : readers_[id]) last = std::max(last, n);
    return last - fold_.class_of[pinned_.value(id).node] > nodes_.size() / kPart;
  }

  // Of what a device holds: both forms.
  void AddMemory(ValueId id) {
    LayoutTable& table = space_.TableOf(id);
    const auto price = options_.byte_seconds * static_cast<double>(table.type().bytes());
    const auto part = [&](int layout) {
      return price / static_cast<double>(pinned_.mesh().GroupSize(table.sharded(layout).ToList()));
    };
    std::vector<double> costs;
    for (const Held& held : HeldBy(id))
      costs.push_back(part(held.form) + (held.other < 0 ? 0 : part(held.other)));
    AddTable(of_value_[id], {}, std::move(costs));
  }

  // Of an op that gives the whole value on every device, though the value was laid out in blocks: as of the gather
  // that is spared.
  double WholeCost(ValueId id, int left, int before, const Node& node) {
    LayoutTable& table = space_.TableOf(id);
    const int lies = space_.layouts(id)[0];
    if (left == before || table.is_partial(left) || !table.sharded(left).empty() ||
        table.sharded(lies).empty())
      return 0;
    return replication_.Refuses(id, node.results, table.layout(lies), table.layout(left)) ? kRefused : 0;
  }

  void AddNode(int n) {
    const Node& node = nodes_[n];
    const Variable variable = AddVariable(space_.modes(n).count);
    of_node_.push_back(variable);
    AddArithmetic(n, variable);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      AddTable(of_value_[id], variable, Known(n, i, id, [&] { return ReadCosts(n, i, id); }));
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId id = node.results[r];
      AddTable(variable, of_value_[id],
               Known(n, node.operands.size() + r, id, [&] { return LeaveCosts(n, r, id); }));
    }
  }

  // costs: of the op's tensor `i`, as made before for an op that is alike.
  template <typename Make>
  std::vector<double> Known(int n, size_t i, ValueId id, Make&& make) {
    if (replication_.MayRefuse(id)) return make();
    auto [known, is_new] =
        known_.try_emplace({space_.modes_id(n), static_cast<int>(i), held_[id], weight_[n]});
    if (is_new) known->second = make();
    return known->second;
  }

  // [states of the value, modes]. What enters a body is moved before the loop.
  std::vector<double> ReadCosts(int n, size_t i, ValueId id) {
    const OpModes& modes = space_.modes(n);
    const bool is_asked = nodes_[n].row->name == "relayout";
    std::vector<double> costs;
    for (const Held& held : HeldBy(id))
      for (size_t m = 0; m < modes.count; ++m)
        costs.push_back(weight_[n] * ReadCost(id, held, modes.WantedBy(m)[i],
                                              {nodes_[n].results, &nodes_[n], modes.axes[m], is_asked}));
    return costs;
  }

  // [modes, states of the value].
  std::vector<double> LeaveCosts(int n, size_t r, ValueId id) {
    const Node& node = nodes_[n];
    const OpModes& modes = space_.modes(n);
    const bool is_exact = IsExactMark(node);
    std::vector<double> costs;
    for (size_t m = 0; m < modes.count; ++m) {
      const int left = modes.LeftBy(m)[r];
      const double whole = WholeCost(id, left, modes.LeftBy(0)[r], node);
      for (const Held& held : HeldBy(id))
        costs.push_back(is_exact && held.form != left
                            ? kNever
                            : weight_[n] * (LeaveCost(id, left, held, {node.results, &node}) + whole));
    }
    return costs;
  }

  void AddArithmetic(int n, Variable variable) {
    const Node& node = nodes_[n];
    if (node.row->name == "relayout" || variable.index < 0) return;
    const double flops = FlopsOf(pinned_, node);
    double elements = 0;
    for (ValueId id : node.operands) elements += static_cast<double>(pinned_.value(id).type.num_elements());
    for (ValueId id : node.results) elements += static_cast<double>(pinned_.value(id).type.num_elements());
    const bool is_heavy = node.row->is_product || flops > kHeavy * elements;
    const double seconds = weight_[n] * flops / topology_.flops();
    const std::vector<AxisSet>& axes = space_.modes(n).axes;
    auto shards = [&](size_t m) { return pinned_.mesh().GroupSize(axes[m].ToList()); };
    std::vector<double> costs;
    for (size_t m = 0; m < axes.size(); ++m)
      costs.push_back(is_heavy && shards(m) < shards(0) ? kNever : seconds / static_cast<double>(shards(m)));
    AddTable(variable, {}, std::move(costs));
  }

  void AddUpdate(ValueId value, ValueId variable) {
    if (value == variable) return;
    std::vector<double> costs;
    for (const Held& held : HeldBy(value))
      for (const Held& kept : HeldBy(variable))
        costs.push_back(ReadCost(value, held, kept.form, {{&variable, 1}}));
    AddTable(of_value_[value], of_value_[variable], std::move(costs));
  }

  void AddAlike(ValueId a, ValueId b) {
    if (a == b) return;
    std::vector<double> costs;
    for (const Held& x : HeldBy(a))
      for (const Held& y : HeldBy(b)) costs.push_back(x.form == y.form ? 0 : kNever);
    AddTable(of_value_[a], of_value_[b], std::move(costs));
  }

  // ---- The program.

  size_t StateOf(const std::vector<int>& assignment, Variable variable) const {
    return variable.index < 0 ? 0 : static_cast<size_t>(assignment[variable.index]);
  }

  const Layout& ChosenFor(ValueId id, const std::vector<int>& assignment) {
    return space_.TableOf(id).layout(HeldBy(id)[StateOf(assignment, of_value_[id])].form);
  }

  SolvedLayouts Realized(const std::vector<int>& assignment) {
    SolvedLayouts chosen{.propagated = propagated_};
    std::vector<int> moved(held_.size(),
                           0);  // per value that stands for others: how many lie otherwise than before
    for (ValueId id = 0; id < static_cast<ValueId>(held_.size()); ++id) {
      const ValueId alike = fold_.value_of[id];
      const Layout& layout = ChosenFor(alike, assignment);
      ValueInfo& info = chosen.propagated.mutable_value(id);
      if (*info.layout == layout) continue;
      info.layout = layout;
      ++moved[alike];
    }
    for (ValueId id = 0; id < static_cast<ValueId>(held_.size()); ++id) {
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
  const Topology& topology_;
  const Replication& replication_;
  const SolveOptions options_;
  const Fold fold_;
  const FoldedNodes nodes_;
  LayoutSpace space_;
  std::vector<std::vector<Held>> kinds_of_held_;  // states that values have
  std::vector<int> held_;                         // per value: which of them
  std::vector<absl::InlinedVector<std::pair<int, size_t>, 2>>
      readers_;                 // per value: nodes, and which operand it is
  std::vector<double> weight_;  // per class of nodes: how often one of them runs
  // Costs by what they depend on: the ways to run the op, its tensor, the states of the value, how often it runs.
  std::map<std::tuple<int, int, int, double>, std::vector<double>> known_;
  std::vector<Variable> of_value_, of_node_;
  MinSum problem_;
  size_t entries_ = 0;  // of its tables
};

}  // namespace

bool MaySolveLayouts(const Graph& pinned, std::span<const OpenedLoop> loops) {
  return std::none_of(loops.begin(), loops.end(),
                      [](const OpenedLoop& loop) { return IsManual(loop.node); }) &&
         std::none_of(pinned.nodes().begin(), pinned.nodes().end(), [](const Node& node) {
           return node.row->name == "relayout" && node.attrs.Get<LayoutPin>("layout").Has(DimMode::kMatch);
         });
}

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

}  // namespace meshwork
