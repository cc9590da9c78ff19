#include "meshwork/spmd/rewrite/simplify.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/numbering.h"

namespace meshwork {
namespace {

// Finds nodes that compute the same.
class Sharing {
 public:
  explicit Sharing(const Graph& graph) : graph_(graph) {}

  // The first node that computes the same as `node` on these operands of a copy; `node` itself if there is none.
  const Node& FirstOf(const Node& node, absl::InlinedVector<ValueId, 4> operands) {
    uint64_t hash = HashOf(node.attrs);
    hash = MixedHash(hash, reinterpret_cast<uintptr_t>(node.row));
    for (ValueId id : operands) hash = MixedHash(hash, static_cast<uint64_t>(id));
    const auto [k, is_new] = numbering_.NumberOf(hash, [&](int other) {
      return operands == seen_[other].operands && AreSame(node, *seen_[other].node);
    });
    if (is_new) seen_.push_back({&node, std::move(operands)});
    return *seen_[k].node;
  }

 private:
  struct Seen {
    const Node* node;
    absl::InlinedVector<ValueId, 4> operands;
  };

  bool AreSame(const Node& a, const Node& b) const {
    return a.row == b.row && a.attrs == b.attrs && a.regions.size() == b.regions.size() && SameBodies(a, b) &&
           std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(),
                      [&](ValueId x, ValueId y) { return SameInfo(graph_.value(x), graph_.value(y)); });
  }

  static bool SameInfo(const ValueInfo& a, const ValueInfo& b) {
    return a.global == b.global && a.gather == b.gather && a.layout == b.layout && a.modes == b.modes;
  }

  // Names of values are no part of what a body computes.
  static bool SameBodies(const Node& a, const Node& b) {
    if (IsManual(a)) return SameRegions(a, b);
    for (size_t i = 0; i < a.regions.size(); ++i)
      if (!SameProgram(*a.regions[i], *b.regions[i])) return false;
    return true;
  }

  static bool SameProgram(const Graph& a, const Graph& b) {
    const auto are_same = [](const auto& of_a, const auto& of_b, auto&& same) {
      return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), same);
    };
    return &a == &b ||
           (are_same(a.values(), b.values(), SameInfo) &&
            are_same(a.arguments(), b.arguments(),
                     [](const Argument& x, const Argument& y) {
                       return x.value == y.value && x.is_variable == y.is_variable;
                     }) &&
            are_same(a.nodes(), b.nodes(),
                     [&](const Node& x, const Node& y) {
                       return x.results == y.results && x.operands == y.operands && x.row == y.row &&
                              x.attrs == y.attrs && x.regions.size() == y.regions.size() && SameBodies(x, y);
                     }) &&
            are_same(a.updates(), b.updates(),
                     [](const VariableUpdate& x, const VariableUpdate& y) {
                       return x.argument == y.argument && x.value == y.value;
                     }) &&
            are_same(a.outputs(), b.outputs(),
                     [](const OutputInfo& x, const OutputInfo& y) { return x.value == y.value; }));
  }

  const Graph& graph_;
  Numbering numbering_;
  std::vector<Seen> seen_;  // per number
};

// In place of `node`, its operand, or a relayout of it if the result is pinned.
void ReplaceByOperand(const Graph& graph, Node node, int operand, Rewriter& rewriter) {
  const ValueInfo& info = graph.value(node.results[0]);
  if (!info.layout.has_value()) {
    rewriter.Set(node.results[0], rewriter.Map(node.operands[operand]));
    return;
  }
  node.row = &GetOp("relayout");
  node.operands = {node.operands[operand]};
  node.attrs = {{"layout", LayoutPin{*info.layout, info.modes}}};
  rewriter.Copy(node);
}

}  // namespace

namespace {

// Whether the node is replaced by its first operand, or by a relayout of it if the result is pinned. A relayout stays.
bool IsDroppedNote(const Node& node) { return IsNote(node) && node.row->name != "relayout"; }

Graph FoldSizesOf(const Graph& graph, std::vector<ValueId>* values) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (IsDroppedNote(node)) {
      ReplaceByOperand(graph, node, 0, rewriter);
    } else if (node.row->name == "dimension_size") {
      int64_t size = 1;
      for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims"))
        size *= graph.value(node.operands[0]).type.shape[d];
      Graph& to = rewriter.to();
      const int folded = to.TryAdd(GetOp("constant"), {},
                                   {{"value", static_cast<double>(size)},
                                    {"dtype", node.attrs.Get<DType>("dtype")},
                                    {"shape", std::vector<int64_t>{}}},
                                   node.location)
                             .value();
      rewriter.Set(node.results[0], to.nodes()[folded].results[0]);
    } else {
      rewriter.Copy(node);
    }
  }
  if (values != nullptr) {
    values->clear();
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id)
      values->push_back(rewriter.Map(id));
  }
  return std::move(rewriter).Finish();
}

Graph ShareSubexpressionsOf(const Graph& graph) {
  Rewriter rewriter(graph);
  Sharing sharing(graph);
  const std::vector<bool> kept = KeptValues(graph);
  for (const Node& node : graph.nodes()) {
    const Node& first = MovesKept(node, kept) ? node : sharing.FirstOf(node, rewriter.Map(node.operands));
    if (&first == &node) {
      rewriter.Copy(node);
      continue;
    }
    for (size_t i = 0; i < node.results.size(); ++i)
      rewriter.Set(node.results[i], rewriter.Map(first.results[i]));
  }
  return std::move(rewriter).Finish();
}

// Whether the program, or a body in it, has a node for which `is_it` is true.
bool HasNode(const Graph& graph, bool (*is_it)(const Node&)) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return is_it(node) || std::any_of(node.regions.begin(), node.regions.end(),
                                      [&](const auto& region) { return HasNode(*region, is_it); });
  });
}

}  // namespace

Graph FoldSizes(Graph graph, std::vector<ValueId>* to) {
  const auto is_folded = [](const Node& node) {
    return IsDroppedNote(node) || node.row->name == "dimension_size";
  };
  if (!HasNode(graph, is_folded)) {
    if (to != nullptr) {
      to->resize(graph.values().size());
      std::iota(to->begin(), to->end(), 0);
    }
    return graph;
  }
  // The program itself comes last, after its bodies, so `to` ends up with its values.
  return WithRegions(graph, [&](const Graph& program) { return FoldSizesOf(program, to); });
}

Graph WithoutTraining(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (node.row->name == "when_training") {
      ReplaceByOperand(graph, node, 1, rewriter);
      continue;
    }
    Node copy = node;
    for (std::shared_ptr<const Graph>& region : copy.regions)
      region = std::make_shared<const Graph>(WithoutTraining(*region));
    rewriter.Copy(copy);
  }
  return std::move(rewriter).Finish();
}

Graph ShareSubexpressions(const Graph& graph) { return WithRegions(graph, ShareSubexpressionsOf); }

}  // namespace meshwork
