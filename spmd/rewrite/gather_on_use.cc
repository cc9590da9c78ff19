#include "meshwork/spmd/rewrite/gather_on_use.h"

#include <algorithm>
#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/kept_values.h"

namespace meshwork {
namespace {

// Whether the op can run on the kept blocks: it reads nothing else that could be cut in another way.
bool RunsOnKept(const Graph& graph, const Node& node, const std::vector<bool>& kept,
                const std::vector<bool>& carries) {
  if (IsNote(node)) return true;
  if (carries[node.results[0]]) return false;
  if (!ReadsKeptAlone(graph, node, kept)) return false;
  const Rule rule = RuleOf(graph, node);
  const auto tensors = std::count_if(node.operands.begin(), node.operands.end(),
                                     [&](ValueId id) { return graph.value(id).type.rank() > 0; });
  return std::none_of(rule.letters.begin(), rule.letters.end(),
                      [&](const Letter& letter) { return letter.whole || (letter.reduced && tensors > 1); });
}

// A use of `id` by `reader`.
ValueId AddUse(const Graph& from, ValueId id, const Node& reader, Rewriter& rewriter) {
  ValueInfo info = from.value(id);
  LayoutPin open{Layout::Replicated(from.mesh(), info.type.rank())};
  open.modes.assign(static_cast<size_t>(info.type.rank()), DimMode::kOpen);
  Node use{.row = &GetOp("relayout"),
           .attrs = {{"layout", std::move(open)}},
           .location = reader.location,
           .cause = fmt::format("{} uses {}, which is gathered on use",
                                from.Describe(reader.row->name, reader.location),
                                info.name.empty() ? "a value" : "%" + info.name)};
  use.operands.push_back(rewriter.Map(id));
  info.name.clear();
  info.layout.reset();
  info.modes.clear();
  info.gather = Gathering::kAllowed;
  Graph& to = rewriter.to();
  return to.nodes()[to.AddNode(std::move(use), {std::move(info)})].results[0];
}

// Writes the nodes of a local program in another order.
class Placer {
 public:
  explicit Placer(const Graph& local)
      : local_(local),
        rewriter_(local),
        waits_(local.nodes().size()),
        written_(local.nodes().size()),
        sums_(local.values().size(), -1) {
    const std::vector<bool> kept = KeptValues(local);
    for (size_t n = 0; n < waits_.size(); ++n) {
      const Node& node = local.nodes()[n];
      waits_[n] = MovesKept(node, kept) || ContinuesMove(node);
      if (node.row->collective == CollectiveKind::kReduceScatter)
        sums_[node.operands[0]] = static_cast<int>(n);
    }
  }

  Graph Run() && {
    for (size_t n = 0; n < waits_.size(); ++n)
      if (!waits_[n]) Write(static_cast<int>(n));
    for (size_t n = 0; n < waits_.size(); ++n) Write(static_cast<int>(n));  // values that only leave the step
    return std::move(rewriter_).Finish();
  }

 private:
  // Whether the node is a further collective or slice of values whose nodes wait.
  bool ContinuesMove(const Node& node) const {
    return node.row->kind != OpKind::kCompute &&
           std::all_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
             return local_.value(id).node >= 0 && waits_[local_.value(id).node];
           });
  }

  void Write(int n) {
    if (written_[n]) return;
    written_[n] = true;
    const Node& node = local_.nodes()[n];
    for (ValueId id : node.operands)
      if (local_.value(id).node >= 0) Write(local_.value(id).node);
    rewriter_.Copy(node);
    for (ValueId id : node.results)
      if (sums_[id] >= 0) Write(sums_[id]);
  }

  const Graph& local_;
  Rewriter rewriter_;
  std::vector<bool> waits_, written_;  // per node
  std::vector<int> sums_;              // per value: its reduce_scatter, or -1
};

}  // namespace

Graph MarkUses(const Graph& graph, std::vector<ValueId>* to) {
  Rewriter rewriter(graph);
  std::vector<bool> kept(graph.values().size(), false);
  for (const Argument& argument : graph.arguments()) kept[argument.value] = IsKeptVariable(graph, argument);
  const std::vector<bool> carries = CarriesOf(graph);
  for (const Node& node : graph.nodes()) {
    if (RunsOnKept(graph, node, kept, carries)) {
      rewriter.Copy(node);
      MarkKept(graph, node, carries, kept);
      continue;
    }
    std::map<ValueId, ValueId> as_kept;  // of the copy
    for (ValueId id : node.operands)
      if (kept[id]) as_kept[id] = rewriter.Map(id);
    for (const auto& [id, copy] : as_kept) rewriter.Set(id, AddUse(graph, id, node, rewriter));
    rewriter.Copy(node);
    for (const auto& [id, copy] : as_kept) rewriter.Set(id, copy);
  }
  if (to != nullptr)
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id)
      to->push_back(rewriter.Map(id));
  return std::move(rewriter).Finish();
}

Graph PlaceGathers(const Graph& local) { return Placer(local).Run(); }

}  // namespace meshwork
