#include "meshwork/spmd/regroup_sums.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/local/bucket.h"
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/replication.h"
#include "meshwork/spmd/propagate.h"

namespace meshwork {
namespace {

// Larger sums stay as they are: their regrouped form could not be proven (terms.h).
constexpr size_t kMostTerms = 64;

struct Summand {
  ValueId value;
  bool is_negative = false;
};

bool IsSum(const Node& node) { return node.row->name == "add" || node.row->name == "sub"; }

// A tree of sums. Its leaves are the values that are no sums.
struct Tree {
  Type type;
  std::vector<Summand> leaves;  // in order
  std::vector<int> inner;       // nodes within, but for the root
  // Per inner node and the root: its leaves, [begin, end).
  std::vector<std::pair<size_t, size_t>> spans;
};

class Regrouper {
 public:
  explicit Regrouper(const Graph& graph)
      : graph_(graph), readers_(ReadersOf(graph)), trees_(graph.nodes().size()) {
    std::vector<bool> is_inner(graph.nodes().size(), false);
    for (size_t n = graph.nodes().size(); n-- > 0;) {
      if (is_inner[n] || !IsSum(graph.nodes()[n])) continue;
      Tree tree{.type = graph.value(graph.nodes()[n].results[0]).type};
      Descend(static_cast<int>(n), false, tree);
      if (IsTooLarge(tree) || !MayBeScattered(tree)) continue;
      for (int inner : tree.inner) is_inner[inner] = true;
      trees_[n] = std::move(tree);
    }
  }

  bool HasTrees() const {
    return std::any_of(trees_.begin(), trees_.end(), [](const auto& tree) { return tree.has_value(); });
  }

  // The program regrouped; nothing if no sum of it is scattered. `propagated`: the program after Propagate.
  std::optional<Graph> Run(const Graph& propagated, const Topology& topology) {
    choices_ = ChooseCuts(propagated, topology, Replication());
    std::vector<bool> is_dropped(graph_.nodes().size(), false);
    for (std::optional<Tree>& tree : trees_) {
      if (!tree.has_value()) continue;
      if (!IsScattered(*tree)) {
        tree.reset();
        continue;
      }
      for (int inner : tree->inner) is_dropped[inner] = true;
    }
    if (!HasTrees()) return std::nullopt;
    Rewriter rewriter(graph_);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (trees_[n].has_value()) Write(graph_.nodes()[n], *trees_[n], rewriter);
      else if (!is_dropped[n]) rewriter.Copy(graph_.nodes()[n]);
    }
    return std::move(rewriter).Finish();
  }

 private:
  // Stops in the middle of a sum that is too large.
  void Descend(int n, bool is_negative, Tree& tree) {
    if (IsTooLarge(tree)) return;
    const Node& node = graph_.nodes()[n];
    const size_t begin = tree.leaves.size();
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      const bool sign = is_negative != (node.row->name == "neg" || (i == 1 && node.row->name == "sub"));
      const int from = graph_.value(id).node;
      if (!IsInner(id, tree.type)) {
        tree.leaves.push_back({id, sign});
        continue;
      }
      tree.inner.push_back(from);
      Descend(from, sign, tree);
    }
    tree.spans.emplace_back(begin, tree.leaves.size());
  }

  static bool IsTooLarge(const Tree& tree) {
    return tree.leaves.size() > kMostTerms || tree.inner.size() > 4 * kMostTerms;
  }

  bool IsInner(ValueId id, const Type& type) const {
    const ValueInfo& info = graph_.value(id);
    if (info.node < 0 || !readers_.IsReadOnce(id) || info.layout.has_value() || info.type != type)
      return false;
    const Node& node = graph_.nodes()[info.node];
    return IsSum(node) || node.row->name == "neg";
  }

  // The op that, depending on its axes, leaves a term owing a sum: a reduction after which the term is only scaled.
  // -1 if there is none.
  int Reduction(ValueId id, const Type& type) const {
    const ValueInfo& info = graph_.value(id);
    if (info.node < 0 || !readers_.IsReadOnce(id) || info.layout.has_value() || info.type != type) return -1;
    const Node& node = graph_.nodes()[info.node];
    auto is_scalar = [&](size_t i) { return graph_.value(node.operands[i]).type.rank() == 0; };
    const std::string_view op = node.row->name;
    if (op == "neg" || ((op == "mul" || op == "div") && is_scalar(1)))
      return Reduction(node.operands[0], type);
    if (op == "mul" && is_scalar(0)) return Reduction(node.operands[1], type);
    const Rule rule = RuleOf(graph_, node);
    const bool reduces = std::any_of(rule.letters.begin(), rule.letters.end(),
                                     [](const Letter& letter) { return letter.reduced; });
    return reduces && rule.reduce == ReduceOp::kSum ? info.node : -1;
  }

  // Whether reductions meet only after other terms, if all of them owe the same. This looks at no layouts; most
  // programs cost no more than this check.
  bool MayBeScattered(const Tree& tree) const {
    if (tree.leaves.size() < 3) return false;
    std::vector<bool> reduces;
    for (const Summand& leaf : tree.leaves) reduces.push_back(Reduction(leaf.value, tree.type) >= 0);
    const auto reductions = static_cast<size_t>(std::count(reduces.begin(), reduces.end(), true));
    return reductions >= 2 && reductions < reduces.size() && !Meet(tree, reduces);
  }

  // Whether a part of the tree is the sum of these leaves and no others.
  static bool Meet(const Tree& tree, const std::vector<bool>& leaves) {
    const auto size = static_cast<size_t>(std::count(leaves.begin(), leaves.end(), true));
    return std::any_of(tree.spans.begin(), tree.spans.end(), [&](const auto& span) {
      return span.second - span.first == size &&
             std::all_of(leaves.begin() + static_cast<int64_t>(span.first),
                         leaves.begin() + static_cast<int64_t>(span.second),
                         [](bool is_one) { return is_one; });
    });
  }

  std::vector<PartialSet> OwedBy(const Tree& tree) const {
    std::vector<PartialSet> owed;
    for (const Summand& leaf : tree.leaves) {
      const int from = Reduction(leaf.value, tree.type);
      owed.push_back(from >= 0 && choices_[from].has_value() ? choices_[from]->reduced : PartialSet());
    }
    return owed;
  }

  // Whether terms that owe the same meet only after other terms, so that no part of the tree is just their sum.
  bool IsScattered(const Tree& tree) const {
    const std::vector<PartialSet> owed = OwedBy(tree);
    for (size_t first = 0; first < owed.size(); ++first) {
      if (owed[first].empty()) continue;
      std::vector<bool> same;
      for (const PartialSet& set : owed) same.push_back(set == owed[first]);
      const bool meet = std::count(same.begin(), same.end(), true) < 2 || Meet(tree, same);
      if (!meet) return true;
    }
    return false;
  }

  // Writes the sum of each group of terms that owe the same, then adds these sums, in the order of their first
  // terms, and then the other terms.
  void Write(const Node& root, const Tree& tree, Rewriter& rewriter) const {
    const std::vector<PartialSet> owed = OwedBy(tree);
    std::vector<Summand> groups, others;
    std::vector<bool> is_taken(owed.size(), false);
    for (size_t first = 0; first < owed.size(); ++first) {
      if (is_taken[first]) continue;
      std::vector<Summand> group;
      for (size_t i = first; i < owed.size(); ++i) {
        if (i != first && (owed[first].empty() || owed[i] != owed[first])) continue;
        is_taken[i] = true;
        group.push_back({rewriter.Map(tree.leaves[i].value), tree.leaves[i].is_negative});
      }
      (owed[first].empty() ? others : groups).push_back(Sum(group, root, rewriter));
    }
    groups.insert(groups.end(), others.begin(), others.end());
    Summand sum = Sum(groups, root, rewriter);
    if (sum.is_negative) sum = {Add("neg", {sum.value}, root, rewriter)};
    const ValueInfo& info = graph_.value(root.results[0]);
    ValueInfo& written = rewriter.to().mutable_value(sum.value);
    written.name = info.name;
    written.layout = info.layout;
    written.modes = info.modes;
    written.gather = info.gather;
    rewriter.Set(root.results[0], sum.value);
  }

  // Adds the terms in order, but begins with the first one that is not negative. If all are negative, adds their
  // negated values, and marks the sum as negative.
  Summand Sum(std::vector<Summand> terms, const Node& root, Rewriter& rewriter) const {
    const auto first =
        std::find_if(terms.begin(), terms.end(), [](const Summand& t) { return !t.is_negative; });
    const bool is_negative = first == terms.end();
    if (!is_negative) std::rotate(terms.begin(), first, first + 1);
    ValueId sum = terms[0].value;
    for (size_t i = 1; i < terms.size(); ++i)
      sum = Add(terms[i].is_negative == is_negative ? "add" : "sub", {sum, terms[i].value}, root, rewriter);
    return {sum, is_negative};
  }

  static ValueId Add(std::string_view op, const std::vector<ValueId>& operands, const Node& root,
                     Rewriter& rewriter) {
    Graph& to = rewriter.to();
    return to.nodes()[to.TryAdd(GetOp(op), operands, {}, root.location).value()].results[0];
  }

  const Graph& graph_;
  const Readers readers_;
  std::vector<std::optional<Tree>> trees_;  // per node: the tree of which it is the root
  std::vector<std::optional<Choice>> choices_;
};

// The cost of a step, with collectives put together.
StepCost BucketedCost(const PlannedStep& step, const Topology& topology) {
  StepCost cost = CostOf(BucketReductions(step.local), topology);
  cost.refused = step.refused;
  return cost;
}

// Whether `other` is cheaper, because it sends fewer bytes, in no more collectives.
bool IsCheaper(const PlannedStep& other, const PlannedStep& step, const Topology& topology) {
  const StepCost a = BucketedCost(other, topology), b = BucketedCost(step, topology);
  return a < b && a.bytes < b.bytes && a.collectives <= b.collectives;
}

}  // namespace

Graph RegroupSums(Graph graph, const StepPlanning& planning) {
  Regrouper regrouper(graph);
  if (!regrouper.HasTrees()) return graph;
  const Graph propagated = Propagate(graph).graph;
  std::optional<Graph> regrouped = regrouper.Run(propagated, planning.topology);
  if (!regrouped.has_value() || !IsCheaper(PlanStep(*regrouped, Propagate(*regrouped).graph, planning),
                                           PlanStep(graph, propagated, planning), planning.topology))
    return graph;
  return *std::move(regrouped);
}

}  // namespace meshwork
