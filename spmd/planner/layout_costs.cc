#include "meshwork/spmd/planner/layout_costs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "meshwork/ir/halo.h"
#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/move_seconds.h"

namespace meshwork {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRefusedSeconds = 1e3;  // beside twice what the operations of a step take on one device
constexpr double kImplied = 1;           // seconds of a gather that the layouts imply
// An op with more than so many operations per element that it reads or writes is treated as a product is.
constexpr double kHeavy = 8;

}  // namespace

LayoutCosts::LayoutCosts(const Graph& pinned, const FoldedNodes& nodes, const FoldCounts& counts,
                         const Topology& topology, const Replication& replication, LayoutSpace& space,
                         const HeldValues& held, double collective_seconds, bool gathers_bound_weights)
    : pinned_(pinned),
      nodes_(nodes),
      counts_(counts),
      topology_(topology),
      replication_(replication),
      space_(space),
      held_(held),
      collective_seconds_(collective_seconds),
      refused_seconds_(kRefusedSeconds),
      gathers_bound_weights_(gathers_bound_weights) {
  double flops = 0;
  for (int n = 0; n < nodes.size(); ++n)
    if (nodes[n].row->name != "relayout") flops += counts.runs[n] * FlopsOf(pinned, nodes[n]);
  refused_seconds_ += 2 * flops / topology.flops();
}

// Whether blocks of a value are cut along another dim only because weights must not be gathered. For their sake a value
// may be gathered, where layouts imply it, but its blocks stay on their dims, as they are now: a weight that is sharded
// along k, as the batch is by rows, is a mistake of the user, who is to hear of it.
// now: the layouts from and to which node n brings the value now.
bool LayoutCosts::TurnsUnasked(int n, ValueId id, int from, int to, std::pair<int, int> now) {
  if (!gathers_bound_weights_ || nodes_[n].row->name == "relayout" || std::pair(from, to) == now)
    return false;
  const Layout &blocks = space_.TableOf(id).layout(from), &wanted = space_.TableOf(id).layout(to);
  for (int d = 0; d < blocks.rank(); ++d) {
    const AxisSet here(AxesOf(blocks, d)), before = wanted.ShardedAxes().Minus(AxisSet(AxesOf(wanted, d)));
    if (here.Intersects(before)) return true;
  }
  return false;
}

double LayoutCosts::Move(ValueId id, int from, int to, const Mover& mover) {
  if (from == to) return 0;
  const double seconds = space_.TableOf(id).Seconds(from, to, topology_);
  if (!mover.may_be_refused || seconds == kInfinite || seconds == 0) return seconds;
  return seconds + RefusedSeconds(id, from, to, mover);
}

double LayoutCosts::RefusedSeconds(ValueId id, int from, int to, const Mover& mover) {
  LayoutTable& table = space_.TableOf(id);
  if (!table.sharded(to).empty() || table.sharded(from).empty() ||
      !replication_.Refuses(id, mover.results, table.layout(from), table.layout(to)))
    return 0;
  // The layouts imply the gather if the axes then cut another letter.
  const bool is_implied = table.sharded(from).Minus(mover.axes).empty() && mover.node != nullptr &&
                          replication_.IsImplied(id, *mover.node, table.layout(from));
  return is_implied ? kImplied : refused_seconds_;
}

double LayoutCosts::Read(ValueId id, const Held& held, int to, const Mover& mover) {
  const double direct = Move(id, held.form, to, mover);
  if (held.other < 0 || direct == 0) return direct;
  return std::min(direct, Move(id, held.other, to, mover));
}

// The cost to bring a result from `left`, the layout in which its op leaves it, into the forms in which it is held.
double LayoutCosts::Leave(ValueId id, int left, const Held& held, const Mover& mover) {
  const double seconds = Move(id, left, held.form, mover);
  if (held.other < 0 || held.other == left) return seconds;
  return seconds + std::min(Move(id, held.form, held.other, mover), Move(id, left, held.other, mover));
}

// If the op gives the whole value on every device, although the value was laid out in blocks before: the cost of the
// gather that this spares, if that gather is refused. Otherwise 0.
double LayoutCosts::Whole(ValueId id, int left, int before, const Node& node) {
  LayoutTable& table = space_.TableOf(id);
  const int lies = space_.layouts(id)[0];
  if (left == before || table.is_partial(left) || !table.sharded(left).empty() || table.sharded(lies).empty())
    return 0;
  return replication_.Refuses(id, node.results, table.layout(lies), table.layout(left)) ? refused_seconds_
                                                                                        : 0;
}

template <typename Make>
CostList LayoutCosts::Known(int n, size_t i, ValueId id, double times, Make&& make) {
  std::vector<uint64_t> refused;  // all that decides which gathers are refused
  if (replication_.MayRefuse(id)) {
    refused = {replication_.KindOf(id), static_cast<uint64_t>(space_.layouts(id)[0])};
    for (ValueId result : nodes_[n].results) refused.push_back(replication_.KindOf(result));
  }
  if (gathers_bound_weights_) refused.push_back(pinned_.value(id).layout.has_value() ? 1 : 0);
  auto [known, is_new] = known_.try_emplace(
      {space_.modes_id(n), static_cast<int>(i), held_.kind(id), times, std::move(refused)});
  if (is_new) known->second = make();
  return known->second;
}

CostList LayoutCosts::Reads(int n, size_t i, ValueId id, double times) {
  return Known(n, i, id, times, [&] {
    const OpModes& modes = space_.modes(n);
    const bool may_refuse = nodes_[n].row->name != "relayout" && replication_.MayRefuse(id);
    std::vector<double> costs;
    costs.reserve(held_.of(id).size() * modes.count);
    std::vector<double> of_layout;  // per layout that is read: its cost, if no gather is refused
    for (const Held& held : held_.of(id)) {
      of_layout.assign(space_.TableOf(id).size(), -1);
      for (size_t m = 0; m < modes.count; ++m) {
        const int wanted = modes.WantedBy(m)[i];
        double& cost = of_layout[wanted];
        if (cost < 0 || may_refuse)
          cost = times * Read(id, held, wanted, {nodes_[n].results, &nodes_[n], modes.axes[m], may_refuse});
        if (TurnsUnasked(n, id, held.form, wanted, {space_.layouts(id)[0], modes.WantedBy(0)[i]}))
          cost = std::max(cost, refused_seconds_);
        costs.push_back(cost);
      }
    }
    return costs;
  });
}

CostList LayoutCosts::Leaves(int n, size_t r, ValueId id) {
  const Node& node = nodes_[n];
  return Known(n, node.operands.size() + r, id, counts_.runs[n], [&] {
    const OpModes& modes = space_.modes(n);
    const bool is_exact = IsExactMark(node), is_pinned = pinned_.value(id).layout.has_value();
    const std::vector<Held>& states = held_.of(id);
    const Mover mover{node.results, &node, {}, replication_.MayRefuse(id)};
    std::vector<double> costs;
    costs.reserve(modes.count * states.size());
    // Per layout in which the op leaves the value: where its costs begin.
    std::vector<int64_t> of_layout(space_.TableOf(id).size(), -1);
    for (size_t m = 0; m < modes.count; ++m) {
      const int left = modes.LeftBy(m)[r];
      if (const int64_t known = of_layout[left]; known >= 0 && !mover.may_be_refused) {
        for (size_t s = 0; s < states.size(); ++s) costs.push_back(costs[known + static_cast<int64_t>(s)]);
        continue;
      }
      of_layout[left] = std::ssize(costs);
      const double whole = Whole(id, left, modes.LeftBy(0)[r], node);
      for (const Held& held : states) {
        double cost = is_exact && held.form != left
                          ? kInfinite
                          : counts_.runs[n] * (Leave(id, left, held, mover) + whole);
        if (!is_pinned && TurnsUnasked(n, id, left, held.form, {modes.LeftBy(0)[r], space_.layouts(id)[0]}))
          cost = std::max(cost, refused_seconds_);
        costs.push_back(cost);
      }
    }
    return costs;
  });
}

std::vector<double> LayoutCosts::Arithmetic(int n, MoreArithmetic more) const {
  const Node& node = nodes_[n];
  const double flops = FlopsOf(pinned_, node);
  double elements = 0;
  for (ValueId id : node.operands) elements += static_cast<double>(pinned_.value(id).type.num_elements());
  for (ValueId id : node.results) elements += static_cast<double>(pinned_.value(id).type.num_elements());
  const bool is_heavy = more != MoreArithmetic::kAny && (node.row->is_product || flops > kHeavy * elements);
  const double seconds = counts_.runs[n] * flops / topology_.flops();
  const OpModes& modes = space_.modes(n);
  // Padding counts only if arithmetic is weighed against communication; otherwise more would be sent to avoid padding.
  const std::vector<double>& parts = more == MoreArithmetic::kAny ? modes.parts : modes.even_parts;
  const auto is_forbidden = [&](size_t mode) {
    if (!is_heavy || parts[mode] <= parts[0]) return false;
    if (more == MoreArithmetic::kNone) return true;
    return parts[mode] * TermsOf(node, modes, 0) > parts[0] * TermsOf(node, modes, mode);
  };
  std::vector<double> costs;
  costs.reserve(modes.count);
  for (size_t m = 0; m < parts.size(); ++m) costs.push_back(is_forbidden(m) ? kInfinite : seconds * parts[m]);
  return costs;
}

double LayoutCosts::TermsOf(const Node& node, const OpModes& modes, size_t mode) const {
  AxisSet owed;
  for (size_t i = 0; i < node.operands.size(); ++i)
    owed = owed.Union(space_.TableOf(node.operands[i]).layout(modes.WantedBy(mode)[i]).PartialAxes());
  return static_cast<double>(pinned_.mesh().GroupSize(owed.ToList()));
}

// What Localize writes for the op, run so, without the op.
double LayoutCosts::ExchangeSeconds(const Node& node, const Choice& choice) const {
  Graph local(pinned_.mesh());
  const auto placed = [&](ValueId id, const Layout& layout) {
    const Type& type = pinned_.value(id).type;
    return ValueInfo{.type = {type.dtype, layout.LocalShape(type.shape)}, .global = type, .layout = layout};
  };
  absl::InlinedVector<ValueId, 4> operands;
  absl::InlinedVector<const ValueInfo*, 4> infos;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    operands.push_back(
        local.AddArgument(placed(node.operands[i], choice.operands[i]), /*is_variable=*/false));
    infos.push_back(&local.value(operands.back()));
  }
  const std::vector<WindowedDim> windows = CutWindows(*choice.rule, infos);
  if (windows.empty()) return 0;
  if (node.row->exchange != nullptr) {
    const Exchange exchange =
        node.row->exchange({TypesOf(pinned_, node.operands), TypesOf(pinned_, node.results), node.attrs});
    absl::InlinedVector<ValueId, 4> moved;
    for (size_t o = 0; o < exchange.dims[0].offsets.size(); ++o)
      moved.push_back(operands[MovedOperand(o, operands.size())]);
    AddExchange(local, moved, exchange, placed(node.results[0], choice.results[0]));
  } else {
    for (size_t i = 0; i < operands.size(); ++i)
      if (std::optional<Halo> halo = HaloOf(*choice.rule, windows, i, *infos[i]))
        AddExchange(local, {{operands[i]}}, halo->exchange, std::move(halo->result));
  }
  const StepCost cost = CostOf(local, topology_);
  double seconds = LinkSeconds(cost, topology_) + collective_seconds_ * static_cast<double>(cost.collectives);
  if (node.row->exchange == nullptr) seconds += CountFlops(local) / topology_.flops();
  return seconds;
}

std::vector<double> LayoutCosts::Exchanges(int n) {
  const OpModes& modes = space_.modes(n);
  if (space_.RuleAt(n).windows.empty()) return {};
  auto [known, is_new] = exchanges_.try_emplace(space_.modes_id(n));
  // Ways that differ in what has no windows have the same exchanges.
  std::map<std::vector<int>, double> of_layouts;
  for (size_t m = 0; is_new && m < modes.count; ++m) {
    const Choice choice = space_.ChoiceOf(n, m);
    std::vector<int> layouts;
    for (const WindowedDim& w : choice.rule->windows) layouts.push_back(modes.WantedBy(m)[w.operand]);
    const auto [seconds, is_other] = of_layouts.try_emplace(std::move(layouts));
    if (is_other) seconds->second = ExchangeSeconds(nodes_[n], choice);
    known->second.push_back(seconds->second);
  }
  std::vector<double> costs = known->second;
  for (double& cost : costs) cost *= counts_.runs[n];
  return costs;
}

std::vector<double> LayoutCosts::Argument(ValueId id) {
  LayoutTable& table = space_.TableOf(id);
  const int lies = space_.layouts(id)[0];
  const int first = held_.FirstReader(id);
  const Node* reader = first < 0 ? nullptr : &nodes_[first];
  const std::span<const ValueId> results =
      reader == nullptr ? std::span<const ValueId>() : std::span<const ValueId>(reader->results);
  std::vector<double> costs;
  for (const Held& held : held_.of(id)) {
    double cost = held.other < 0 ? 0 : Move(id, held.form, held.other, {results, reader});
    if (table.sharded(held.form).empty() && !table.sharded(lies).empty() &&
        replication_.Refuses(id, {}, table.layout(lies), table.layout(held.form)))
      cost += refused_seconds_;
    costs.push_back(counts_.values[id] * cost);
  }
  return costs;
}

std::vector<double> LayoutCosts::Memory(ValueId id, double byte_seconds) {
  LayoutTable& table = space_.TableOf(id);
  const double price = counts_.values[id] * byte_seconds * static_cast<double>(table.type().bytes());
  const Shape& shape = table.type().shape;
  const auto elements = static_cast<double>(std::max<int64_t>(1, NumElements(shape)));
  const auto part = [&](int layout) {
    return price * static_cast<double>(NumElements(table.layout(layout).LocalShape(shape))) / elements;
  };
  std::vector<double> costs;
  for (const Held& held : held_.of(id))
    costs.push_back(part(held.form) + (held.other < 0 ? 0 : part(held.other)));
  return costs;
}

std::vector<double> LayoutCosts::Update(ValueId value, ValueId variable, double times) {
  std::vector<double> costs;
  for (const Held& held : held_.of(value))
    for (const Held& kept : held_.of(variable))
      costs.push_back(times * Read(value, held, kept.form, {{&variable, 1}}));
  return costs;
}

std::vector<double> LayoutCosts::Alike(ValueId a, ValueId b) const {
  std::vector<double> costs;
  for (const Held& x : held_.of(a))
    for (const Held& y : held_.of(b)) costs.push_back(x.form == y.form ? 0 : kInfinite);
  return costs;
}

}  // namespace meshwork
