#include "meshwork/runtime/plan/reduce_early.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/sharing.h"

namespace meshwork {
namespace {

class Mover {
 public:
  Mover(const Graph& local, AxisSet across)
      : local_(local), across_(across), rewriter_(local), readers_(ReadersOf(local)) {}

  Graph Run() && {
    const auto nodes = static_cast<int>(local_.nodes().size());
    std::vector<std::vector<int>> passed(nodes);  // per all_reduce, the ops to move behind it, in order
    std::vector<bool> moves(nodes, false);
    for (int n = 0; n < nodes; ++n) {
      passed[n] = Passed(n);
      for (int p : passed[n]) moves[p] = true;
    }
    for (int n = 0; n < nodes; ++n) {
      if (moves[n]) continue;
      if (passed[n].empty()) rewriter_.Copy(local_.nodes()[n]);
      else Move(n, passed[n]);
    }
    return std::move(rewriter_).Finish();
  }

 private:
  // The ops that the operand of all_reduce `n` passed, in order; empty for other nodes.
  std::vector<int> Passed(int n) const {
    const Node& reduce = local_.nodes()[n];
    std::vector<int> passed;
    if (reduce.row->collective != CollectiveKind::kAllReduce || reduce.operands.size() != 1 ||
        MovesOver(local_, reduce, across_))
      return passed;
    for (ValueId owed = reduce.operands[0];;) {
      const int maker = local_.value(owed).node;
      if (maker < 0 || !readers_.IsReadOnce(owed)) break;
      const ValueId before = OwedOperand(local_.nodes()[maker], owed);
      if (before == kNoValue || !readers_.IsReadOnce(before)) break;
      passed.push_back(maker);
      owed = before;
    }
    std::reverse(passed.begin(), passed.end());
    return passed;
  }

  // The operand whose pending sum `node` lets pass by its rule; kNoValue if there is none. It is the only partial
  // operand. Unless the node is a view, its type and layout are those of the result.
  ValueId OwedOperand(const Node& node, ValueId result) const {
    const bool is_view = node.row->is_view;
    if (node.row->rule == nullptr || (!node.row->is_light && !is_view) || node.results.size() != 1)
      return kNoValue;
    const ValueInfo& info = local_.value(result);
    ValueId owed = kNoValue;
    for (ValueId operand : node.operands) {
      if (!local_.value(operand).layout->is_partial()) continue;
      if (owed != kNoValue) return kNoValue;
      owed = operand;
    }
    if (owed == kNoValue) return kNoValue;
    const ValueInfo& before = local_.value(owed);
    const bool is_alike = before.type == info.type && *before.layout == *info.layout;
    return (is_alike || is_view) && Passes(node) ? owed : kNoValue;
  }

  // Whether the rule gives the result the pending reductions that it has here; a hand-written program may say anything.
  bool Passes(const Node& node) const {
    const std::vector<Type> operands = TypesOf(local_, node.operands),
                            results = TypesOf(local_, node.results);
    std::vector<PartialSet> owed;
    AxisSet sharded;
    for (ValueId operand : node.operands) {
      owed.push_back(local_.value(operand).layout->partials());
      sharded = sharded.Union(local_.value(operand).layout->ShardedAxes());
    }
    return node.row->rule({operands, results, node.attrs}).PassOn(owed, sharded) ==
           local_.value(node.results[0]).layout->partials();
  }

  void Move(int n, const std::vector<int>& passed) {
    const Node& reduce = local_.nodes()[n];
    const Node& first = local_.nodes()[passed[0]];
    const PartialSet& rest = local_.value(reduce.results[0]).layout->partials();
    ValueId owed = OwedOperand(first, first.results[0]);
    ValueInfo of_sum = local_.value(owed);
    of_sum.name = local_.value(reduce.results[0]).name;
    ValueId sum = Emit(reduce, std::move(of_sum), rest, owed, rewriter_.Map(owed));
    for (int p : passed) {
      const Node& node = local_.nodes()[p];
      sum = Emit(node, local_.value(node.results[0]), rest, owed, sum);
      owed = local_.nodes()[p].results[0];
    }
    rewriter_.Set(reduce.results[0], sum);
  }

  // Adds a copy of a node that reads `sum` in place of `owed` (a collective: in place of its operand). Its result is
  // `info`, with `rest` as its pending reductions.
  ValueId Emit(const Node& node, ValueInfo info, const PartialSet& rest, ValueId owed, ValueId sum) {
    Node copy = node;
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const bool is_owed = node.row->kind == OpKind::kCollective || node.operands[o] == owed;
      copy.operands[o] = is_owed ? sum : rewriter_.Map(node.operands[o]);
    }
    info.layout = info.layout->WithPartials(rest);
    const int index = rewriter_.to().AddNode(std::move(copy), {std::move(info)});
    return rewriter_.to().nodes()[index].results[0];
  }

  const Graph& local_;
  const AxisSet across_;
  Rewriter rewriter_;
  const Readers readers_;
};

}  // namespace

Graph ReduceEarly(const Graph& local, AxisSet across) { return Mover(local, across).Run(); }

}  // namespace meshwork
