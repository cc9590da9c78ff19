#include "meshwork/spmd/local/localize.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/halo.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/layout/relayout_cost.h"
#include "meshwork/ops/control/manual_body.h"

namespace meshwork {
namespace {

// One relayout, and what its steps may take.
struct Move {
  const ValueInfo& value;
  const Layout& to;
  const Topology& topology;

  RelayoutPlan Plan(int64_t peak_elements = 0) const {
    RelayoutOptions options{.peak_elements = peak_elements, .topology = topology};
    // The size of elements matters for times alone; without it, one plan serves values of every type.
    if (!topology.is_assumed()) options.element_bytes = DTypeSize(value.global.dtype);
    return PlanRelayout(*value.layout, to, value.global.shape, options).value();
  }

  // A plan that takes less than `plan`, if there is one.
  std::optional<RelayoutPlan> SmallerThan(const RelayoutPlan& plan) const {
    if (plan.peak_elements <= 1) return std::nullopt;
    RelayoutPlan smaller = Plan(plan.peak_elements - 1);
    if (smaller.peak_elements >= plan.peak_elements) return std::nullopt;
    return smaller;
  }

  // The cheapest plan of those whose steps take at most `elements` (0: any number), or takes least.
  RelayoutPlan PlanWithin(int64_t elements) const {
    RelayoutPlan plan = Plan();
    if (elements == 0 || plan.peak_elements <= elements) return plan;
    RelayoutPlan fitting = Plan(elements);
    if (fitting.peak_elements <= elements) return fitting;
    while (auto smaller = SmallerThan(plan)) plan = *std::move(smaller);
    return plan;
  }
};

// Per value: whether all that it owes is picked, by its op or an earlier one (see OnlyMoves).
std::vector<bool> PickedValues(const Graph& graph) {
  std::vector<bool> picked(graph.values().size(), false);
  const auto adds_nothing = [&](ValueId id) { return picked[id] || !graph.value(id).layout->is_partial(); };
  for (const Node& node : graph.nodes()) {
    if (IsControl(node)) continue;
    const bool is_picked = node.row->name == "relayout"
                               ? picked[node.operands[0]]
                               : OnlyMoves(RuleOf(graph, node)) &&
                                     std::all_of(node.operands.begin(), node.operands.end(), adds_nothing);
    for (ValueId id : node.results) picked[id] = is_picked;
  }
  return picked;
}

// The bf16 values that are carried in f32, because they owe sums.
class WideSums {
 public:
  WideSums(const Graph& graph, const LocalizeOptions& options) : graph_(graph), narrow_(options.narrow_sums) {
    const auto num_values = static_cast<ValueId>(graph.values().size());
    bool any = false;
    for (ValueId id = 0; id < num_values && !any; ++id) any = IsWideUnlessPicked(id);
    if (any) picked_ = PickedValues(graph);
  }

  bool Contains(ValueId id) const { return IsWideUnlessPicked(id) && !picked_[id]; }
  // Whether the value would be carried in f32 if it were not picked.
  bool IsWideUnlessPicked(ValueId id) const {
    const ValueInfo& info = graph_.value(id);
    return !narrow_ && CarriedDType(info.type.dtype, info.layout->partials()) != info.type.dtype;
  }

 private:
  const Graph& graph_;
  const bool narrow_;
  std::vector<bool> picked_;  // per value; empty if none is wide
};

class Localizer {
 public:
  // The last `num_sums` outputs of the graph, which is a loop's body, are added up over the iterations.
  Localizer(const Graph& graph, const LocalizeOptions& options, size_t num_sums = 0)
      : graph_(graph),
        options_(options),
        num_sums_(num_sums),
        rewriter_(graph, /*more=*/graph.nodes().size() / 4),
        to_(rewriter_.to()),
        wide_(graph, options) {
    for (const Argument& argument : to_.arguments()) ToBlock(to_.mutable_value(argument.value));
  }

  Graph Run() && {
    for (const Node& node : graph_.nodes()) {
      if (node.row->name == "relayout") Spell(node);
      else if (IsControl(node)) WriteControl(node);
      else Write(node);
    }
    for (const OutputInfo& output : std::span(graph_.outputs()).last(num_sums_)) WidenSum(output.value);
    return std::move(rewriter_).Finish();
  }

 private:
  static void ToBlock(ValueInfo& info) {
    info.type.shape = info.layout->LocalShape(info.global.shape);
    if (info.gather == Gathering::kAllowed)
      info.gather = Gathering::kWithinBudget;  // it has served its purpose
  }

  // relayout -> slices and collectives.
  void Spell(const Node& node) {
    ValueId at = rewriter_.Map(node.operands[0]);
    const Layout& target = *graph_.value(node.results[0]).layout;
    if (wide_.Contains(node.operands[0])) at = Widened(at, node);
    const ValueInfo& from = to_.value(at);
    // A limit below one element is as good as one of an element: nothing stays below.
    const int64_t elements = options_.relayout_bytes == 0
                                 ? 0
                                 : std::max<int64_t>(1, options_.relayout_bytes / DTypeSize(from.type.dtype));
    const RelayoutPlan plan = Move{from, target, options_.topology}.PlanWithin(elements);
    for (const RelayoutStep& step : plan.steps) {
      at = WriteStep(step, at, node);
      // Rounds as soon as nothing is owed, so that later gathers send bf16.
      if (IsWide(at, node.results[0]) && !to_.value(at).layout->is_partial())
        at = WriteRounding("narrow", at, "the sum is whole", node);
    }
    rewriter_.Set(node.results[0], at);
  }

  // ---- Sums of bf16.

  // Whether the local value is f32 where the global one is bf16.
  bool IsWide(ValueId local, ValueId global) const {
    return to_.value(local).global.dtype != graph_.value(global).global.dtype;
  }

  // Whether the op runs in f32 on operands of bf16.
  bool RunsWide(const Node& node) const {
    for (ValueId id : node.operands)
      if (IsWide(rewriter_.Map(id), id)) return true;
    return std::any_of(node.results.begin(), node.results.end(),
                       [&](ValueId id) { return wide_.Contains(id); });
  }

  ValueId WriteRounding(std::string_view op, ValueId id, std::string cause, const Node& node) {
    const int added = AddLocalNode(to_, op, {{id}}, {}, node.location, std::move(cause));
    return to_.nodes()[added].results[0];
  }
  ValueId Widened(ValueId id, const Node& node) {
    if (to_.value(id).type.dtype != BF16) return id;
    return WriteRounding("widen", id, "sums of bf16 are owed in f32", node);
  }
  // An output that is added up over the iterations is no longer picked, so it is carried in f32.
  void WidenSum(ValueId output) {
    const int producer = graph_.value(output).node;
    if (producer >= 0 && wide_.IsWideUnlessPicked(output))
      rewriter_.Set(output, Widened(rewriter_.Map(output), graph_.nodes()[producer]));
  }

  // Makes the result of an op that runs in f32 an f32 value.
  static void ToWide(ValueInfo& info) {
    if (info.type.dtype == BF16) info.type.dtype = info.global.dtype = F32;
  }

  ValueId WriteStep(const RelayoutStep& step, ValueId at, const Node& node) {
    if (MovesByLayouts(step.kind) || step.kind == RelayoutKind::kReshape) return WriteAs(step, at, node);
    const std::optional<CollectiveSpec> collective = CollectiveOf(step);
    const Attrs attrs = collective.has_value()
                            ? AttrsOf(*collective)
                            : Attrs{{"axes", step.axes}, {"dim", static_cast<int64_t>(step.dim)}};
    const int added =
        AddLocalNode(to_, RelayoutKindName(step.kind), {{at}}, attrs, node.location, node.cause);
    return to_.nodes()[added].results[0];
  }

  // Writes a step whose result does not follow from the operand's layout.
  ValueId WriteAs(const RelayoutStep& step, ValueId at, const Node& node) {
    Node local{.row = &GetOp(RelayoutKindName(step.kind)), .location = node.location, .cause = node.cause};
    local.operands.push_back(at);
    ValueInfo info = to_.value(at);
    info.name.clear();
    info.gather = Gathering::kWithinBudget;
    info.layout = step.result;
    info.global.shape = step.shape;
    info.type.shape = step.result.LocalShape(step.shape);
    if (step.kind == RelayoutKind::kReshape) local.attrs = {{"shape", ToInts(info.type.shape)}};
    return to_.nodes()[to_.AddNode(std::move(local), {std::move(info)})].results[0];
  }

  void Write(const Node& node) {
    std::optional<Rule> rule;
    if (NeedsRule(node)) rule = RuleOf(graph_, node);
    std::vector<WindowedDim> windows;
    if (rule.has_value()) windows = WindowsOf(*rule, node);
    const bool is_wide = RunsWide(node);
    if (!windows.empty() && node.row->exchange != nullptr) return WriteExchange(node, is_wide);
    absl::InlinedVector<ValueId, 4> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      // What is exchanged has padding of its own along other dims.
      // Padding is masked last: where a block is all padding, no other op runs.
      ValueId whole = rewriter_.Map(node.operands[i]);
      if (!windows.empty()) whole = WithWindows(whole, *rule, windows, i, node);
      if (is_wide) whole = Widened(whole, node);
      operands.push_back(rule.has_value() ? Masked(whole, *rule, i, node) : whole);
    }
    Node& added = to_.mutable_node(to_.AddCopy(graph_, node));
    added.operands = std::move(operands);
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueInfo& info = to_.mutable_value(added.results[i]);
      ToBlock(info);
      if (is_wide) ToWide(info);
      rewriter_.Set(node.results[i], added.results[i]);
    }
    added.attrs = BlockAttrs(node, added);
    if (!windows.empty()) added.attrs = node.row->on_windows(added.attrs, windows);
  }

  // Whether blocks of the operands may need masks, or the op has windows.
  bool NeedsRule(const Node& node) const {
    if (node.row->exchange != nullptr || node.row->on_windows != nullptr) return true;
    return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
      const ValueInfo& info = to_.value(rewriter_.Map(id));
      for (int d = 0; d < info.layout->rank(); ++d)
        if (info.layout->IsPadded(info.global.shape, d)) return true;
      return false;
    });
  }

  // The attributes of a global node for `local`, which runs on blocks.
  Attrs BlockAttrs(const Node& node, const Node& local) const {
    const Shape& shape = to_.value(local.results[0]).type.shape;
    if (node.row->resize == nullptr) return WithResultShape(*node.row, node.attrs, shape);
    const std::vector<Type> operands = TypesOf(graph_, node.operands),
                            results = TypesOf(graph_, node.results);
    return ResizedAttrs(*node.row, {operands, results, node.attrs}, TypesOf(to_, local.operands), shape)
        .value();
  }

  // The windows along letters that are cut.
  std::vector<WindowedDim> WindowsOf(const Rule& rule, const Node& node) const {
    if (rule.windows.empty()) return {};
    absl::InlinedVector<const ValueInfo*, 4> operands;
    for (ValueId id : node.operands) operands.push_back(&graph_.value(id));
    return CutWindows(rule, operands);
  }

  // Writes an op that only moves elements as an exchange.
  void WriteExchange(const Node& node, bool is_wide) {
    const std::vector<Type> operands = TypesOf(graph_, node.operands),
                            results = TypesOf(graph_, node.results);
    const Exchange exchange = node.row->exchange({operands, results, node.attrs});
    absl::InlinedVector<ValueId, 4> from;
    for (size_t o = 0; o < exchange.dims[0].offsets.size(); ++o)
      from.push_back(rewriter_.Map(node.operands[MovedOperand(o, node.operands.size())]));
    ValueInfo info = graph_.value(node.results[0]);
    ToBlock(info);
    if (is_wide) {
      for (ValueId& id : from) id = Widened(id, node);
      ToWide(info);
    }
    const std::string cause =
        fmt::format("{} along a dim that is sharded", graph_.Describe(node.row->name, node.location));
    rewriter_.Set(node.results[0], AddExchange(to_, from, exchange, std::move(info), node.location, cause));
  }

  // Operand i with the halos that its windows need. `windows`: all windows along letters that are cut.
  ValueId WithWindows(ValueId id, const Rule& rule, const std::vector<WindowedDim>& windows, size_t i,
                      const Node& node) {
    std::optional<Halo> halo = HaloOf(rule, windows, i, to_.value(id));
    if (!halo.has_value()) return id;
    halo->result.location = node.location;
    return AddExchange(
        to_, {{id}}, halo->exchange, std::move(halo->result), node.location,
        fmt::format("{} reads beyond its block", graph_.Describe(node.row->name, node.location)));
  }

  // A loop or a branch: its bodies are programs of their own.
  void WriteControl(const Node& node) {
    Node local = node;
    local.operands = rewriter_.Map(node.operands);
    size_t sums = 0;
    if (node.row->control == ControlKind::kScan) {
      BeginToOwe(local);
      sums = static_cast<size_t>(ShapeOfControl(node).sums);
    }
    for (std::shared_ptr<const Graph>& region : local.regions)
      region = std::make_shared<const Graph>(IsManual(node) ? ManualBody(*region, options_.narrow_sums)
                                                            : Localizer(*region, options_, sums).Run());
    std::vector<ValueInfo> infos;
    const size_t carries = node.results.size() - local.regions[0]->outputs().size();
    for (size_t r = 0; r < node.results.size(); ++r) {
      infos.push_back(graph_.value(node.results[r]));
      ToBlock(infos.back());
      if (!infos.back().layout->is_partial() || r < carries) continue;
      // A sum is owed in the dtype in which the body leaves it.
      const Graph& body = *local.regions[0];
      if (body.value(body.outputs()[r - carries].value).type.dtype == F32) ToWide(infos.back());
    }
    const int index = to_.AddNode(std::move(local), std::move(infos));
    for (size_t i = 0; i < node.results.size(); ++i)
      rewriter_.Set(node.results[i], to_.nodes()[index].results[i]);
  }

  // A carry that owes a sum throughout may begin whole: then it counts once.
  void BeginToOwe(Node& scan) {
    const Graph& body = *scan.regions[0];
    for (size_t c = 0; c < body.arguments().size() && body.arguments()[c].is_variable; ++c) {
      AxisList axes;
      for (const Partial& partial : body.value(body.arguments()[c].value).layout->partials())
        axes.push_back(partial.axis);
      if (axes.empty() || to_.value(scan.operands[c]).layout->is_partial()) continue;
      const int first = AddLocalNode(
          to_, "keep_first", {{scan.operands[c]}}, {{"axes", axes}}, scan.location,
          fmt::format("{} reduces a carry after its last iteration", graph_.Describe("scan", scan.location)));
      scan.operands[c] = to_.nodes()[first].results[0];
    }
  }

  // An operand whose padding a reduction would read gets the reduction's identity there.
  ValueId Masked(ValueId id, const Rule& rule, size_t operand, const Node& node) {
    const LetterList& letters = rule.operands[operand];
    const ValueInfo& info = to_.value(id);
    std::vector<int64_t> dims;
    for (size_t d = 0; d < letters.size(); ++d) {
      if (rule.FindWindow(operand, d) != nullptr) continue;  // what they hold is whole
      if (letters[d] != kNoLetter && rule.letters[letters[d]].reduced &&
          info.layout->IsPadded(info.global.shape, static_cast<int>(d)))
        dims.push_back(static_cast<int64_t>(d));
    }
    if (dims.empty()) return id;
    const Layout layout = *info.layout;
    const Shape shape = info.global.shape;
    if (!layout.is_strided()) return Mask(id, dims, rule.reduce, node);
    // Masks work on blocks. Each device has one block of the tensor of the factors' shape.
    const ValueId flat =
        WriteAs({.kind = RelayoutKind::kReshape, .result = layout.Flat(), .shape = layout.FactorShape(shape)},
                id, node);
    const ValueId masked = Mask(flat, PaddedFactors(layout, shape, dims), rule.reduce, node);
    return WriteAs({.kind = RelayoutKind::kReshape, .result = layout, .shape = shape}, masked, node);
  }

  ValueId Mask(ValueId id, const std::vector<int64_t>& dims, ReduceOp op, const Node& node) {
    const int mask = AddLocalNode(to_, "mask_padding", {{id}}, {{"dims", dims}, {"op", op}}, node.location,
                                  "padding must not be reduced");
    return to_.nodes()[mask].results[0];
  }

  // The positions, among all factors, of the factors of `dims` that have padding.
  static std::vector<int64_t> PaddedFactors(const Layout& layout, const Shape& shape,
                                            const std::vector<int64_t>& dims) {
    const Layout flat = layout.Flat();
    const Shape factors = layout.FactorShape(shape);
    std::vector<int64_t> padded;
    int64_t f = 0;
    for (int d = 0; d < layout.rank(); ++d) {
      const bool is_asked = std::find(dims.begin(), dims.end(), d) != dims.end();
      for (size_t i = 0; i < layout.Factors(d, shape[d]).size(); ++i, ++f)
        if (is_asked && flat.IsPadded(factors, static_cast<int>(f))) padded.push_back(f);
    }
    return padded;
  }

  const Graph& graph_;
  const LocalizeOptions& options_;
  const size_t num_sums_;
  Rewriter rewriter_;
  Graph& to_;
  const WideSums wide_;
};

}  // namespace

Graph Localize(const Graph& graph, const LocalizeOptions& options) { return Localizer(graph, options).Run(); }

namespace {

void AddRelayoutLimits(const Graph& graph, const LocalizeOptions& options, std::set<int64_t>& limits) {
  const WideSums wide(graph, options);
  for (const Node& node : graph.nodes()) {
    if (!IsManual(node))
      for (const std::shared_ptr<const Graph>& region : node.regions)
        AddRelayoutLimits(*region, options, limits);
    if (node.row->name != "relayout") continue;
    const ValueInfo& from = graph.value(node.operands[0]);
    const int64_t size = DTypeSize(wide.Contains(node.operands[0]) ? F32 : from.global.dtype);
    const Move move{from, *graph.value(node.results[0]).layout, options.topology};
    std::optional<RelayoutPlan> plan = move.SmallerThan(move.Plan());
    for (; plan.has_value(); plan = move.SmallerThan(*plan)) limits.insert(plan->peak_elements * size);
  }
}

}  // namespace

std::vector<int64_t> RelayoutLimits(const Graph& graph, const LocalizeOptions& options) {
  std::set<int64_t> limits;
  AddRelayoutLimits(graph, options, limits);
  return {limits.rbegin(), limits.rend()};
}

}  // namespace meshwork
