#include "mutation/mutants.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "mutation/attribute_mutants.h"
#include "mutation/collective_mutants.h"
#include "mutation/lies.h"
#include "mutation/mutant_writer.h"
#include "mutation/result_mutants.h"

namespace meshwork {
namespace {

bool IsSum(const Node& node) { return node.row->name == "add" || node.row->name == "sub"; }

bool IsReduction(const Node& node) { return node.attrs.Find("op") != nullptr; }

// Makes the mutants of the program's nodes, and asks other files for those of attributes and results.
class MutantMaker {
 public:
  MutantMaker(const Graph& local, const std::function<void(Mutant)>& use)
      : local_(local), use_(use), writer_(local, use), is_updating_(local.values().size(), false) {
    for (const VariableUpdate& update : local.updates()) is_updating_[update.value] = true;
    for (size_t n = local.nodes().size(); n-- > 0;) {
      const Node& node = local.nodes()[n];
      if (std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return is_updating_[id]; }))
        for (ValueId id : node.operands) is_updating_[id] = true;
    }
  }

  void Make() && {
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      writer_.GoTo(n);
      const Node& node = local_.nodes()[n];
      Skip(node);
      if (node.row->name == "reduce_scatter") SliceInstead(node);
      if (node.row->kind == OpKind::kCollective) Double(node);
      if (IsReduction(node)) OtherReductions(writer_, node);
      if (node.attrs.Find("axes") != nullptr) OtherAxes(writer_, node);
      if (node.row->name == "mask_padding") FewerDims(writer_, node);
      if (IsSum(node)) OtherSums(node);
      Relabel(node);
      OtherOperands(node);
      OtherAttributes(writer_, node);
      if (node.row->exchange != nullptr || node.row->name == "exchange") OtherMoves(writer_, node);
      OtherFills(writer_, node);
      if (node.row->name == "if") OtherBranch(node);
      for (size_t r = 0; r < node.regions.size(); ++r) InBody(node, r);
    }
    OtherResults(writer_);
  }

  // The arguments of a body claim other layouts than the values given to them.
  void RelabelArguments() && {
    for (const Argument& argument : local_.arguments()) {
      const ValueInfo& info = local_.value(argument.value);
      for (const Layout& lie : Lies(*info.layout, info.global.shape)) {
        Graph graph = local_;
        graph.mutable_value(argument.value).layout = lie;
        writer_.Emit("relabel", "argument %" + info.name, std::move(graph));
      }
    }
  }

 private:
  // ---- Bodies of loops and branches.

  void InBody(const Node& node, size_t r) {
    const int at = writer_.at();
    const std::function<void(Mutant)> use = [&](Mutant mutant) {
      Graph graph = local_;
      graph.mutable_node(at).regions[r] = std::make_shared<const Graph>(std::move(mutant.graph));
      use_({std::move(mutant.kind), local_.Describe(at) + fmt::format(", node {}: ", at) + mutant.what,
            std::move(graph), /*in_body=*/true});
    };
    MutantMaker(*node.regions[r], use).Make();
    MutantMaker(*node.regions[r], use).RelabelArguments();
  }

  void OtherBranch(const Node& node) {
    for (const bool second : {false, true}) {
      writer_.Add("branch", [&](Rewriter& rewriter) {
        Node copy = node;
        copy.regions[second ? 1 : 0] = copy.regions[second ? 0 : 1];
        rewriter.Copy(copy);
      });
    }
  }

  // ---- Nodes left out or repeated.

  // If a sum is missing that an update needs, a gradient is wrong.
  std::string KindOfSkip(const Node& node) const {
    const bool is_sum =
        node.row->name == "add" || (IsReduction(node) && node.row->kind == OpKind::kCollective);
    if (is_sum && is_updating_[node.results[0]]) return "gradient sum";
    return node.row->kind == OpKind::kCompute ? "skip" : "drop";
  }

  // Readers of a result read an operand of the same block in its place; a second mutant claims that the
  // operand has the result's layout.
  void Skip(const Node& node) {
    for (size_t r = 0; r < node.results.size(); ++r) {
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (node.row->num_results < 0 && o != r) continue;  // of a bucket, the same position
        const ValueInfo& operand = local_.value(node.operands[o]);
        const ValueInfo& result = local_.value(node.results[r]);
        if (operand.type != result.type) continue;
        for (const bool lie : {false, true}) {
          if (lie && (*operand.layout == *result.layout || operand.global != result.global)) continue;
          writer_.Add(KindOfSkip(node), [&](Rewriter& rewriter) {
            rewriter.Copy(node);
            const ValueId instead = rewriter.Map(node.operands[o]);
            if (lie) rewriter.to().mutable_value(instead).layout = result.layout;
            rewriter.Set(node.results[r], instead);
          });
        }
      }
    }
  }

  // A device takes its own block instead of the sum.
  void SliceInstead(const Node& node) {
    writer_.Add(KindOfSkip(node), [&](Rewriter& rewriter) {
      Node slice = node;
      slice.row = &GetOp("shard_slice");
      slice.attrs = {{"axes", node.attrs.Get<AxisList>("axes")}, {"dim", node.attrs.Get<int64_t>("dim")}};
      rewriter.Copy(slice);
    });
  }

  void Double(const Node& node) {
    if (TypesOf(local_, node.operands) != TypesOf(local_, node.results)) return;
    writer_.Add("double", [&](Rewriter& rewriter) {
      const int first = rewriter.Copy(node);
      Node again = node;
      std::vector<ValueInfo> infos;
      again.operands.clear();
      for (ValueId id : rewriter.to().nodes()[first].results) {
        again.operands.push_back(id);
        infos.push_back(rewriter.to().value(id));
      }
      const int second = rewriter.to().AddNode(std::move(again), std::move(infos));
      for (size_t r = 0; r < node.results.size(); ++r)
        rewriter.Set(node.results[r], rewriter.to().nodes()[second].results[r]);
    });
  }

  // ---- Sums.

  void OtherSums(const Node& node) {
    writer_.Add("sign", [&](Rewriter& rewriter) {
      Node other = node;
      other.row = &GetOp(node.row->name == "add" ? "sub" : "add");
      rewriter.Copy(other);
    });
    AddAgain("coefficient", node, node.results[0]);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (LiesAs(node.operands[i], node.results[0])) AddAgain("term twice", node, node.operands[i]);
      const int from = local_.value(node.operands[i]).node;
      if (from < 0 || !IsSum(local_.nodes()[from])) continue;
      for (size_t j = 0; j < 2; ++j) Exchange(node, i, local_.nodes()[from], j);
    }
  }

  bool LiesAs(ValueId a, ValueId b) const {
    return local_.value(a).type == local_.value(b).type && local_.value(a).global == local_.value(b).global &&
           *local_.value(a).layout == *local_.value(b).layout;
  }

  // A term is added once more to the result of a sum.
  void AddAgain(std::string kind, const Node& node, ValueId term) {
    writer_.Add(std::move(kind), [&](Rewriter& rewriter) {
      const int sum = rewriter.Copy(node);
      const ValueId result = rewriter.to().nodes()[sum].results[0];
      Node again = node;
      again.operands = {result, rewriter.Map(term)};
      const int second = rewriter.to().AddNode(std::move(again), {rewriter.to().value(result)});
      rewriter.Set(node.results[0], rewriter.to().nodes()[second].results[0]);
    });
  }

  // (a + b) + c as (a + c) + b, whatever the signs: right if b and c have the same.
  void Exchange(const Node& node, size_t i, const Node& inner, size_t j) {
    const ValueId outer_term = node.operands[1 - i], inner_term = inner.operands[j];
    if (outer_term == inner_term || !LiesAs(outer_term, inner_term)) return;
    writer_.Add("regrouped", [&](Rewriter& rewriter) {
      Node other = inner;
      other.operands.clear();
      for (ValueId id : inner.operands) other.operands.push_back(rewriter.Map(id));
      other.operands[j] = rewriter.Map(outer_term);
      const int first = rewriter.to().AddNode(std::move(other), {local_.value(inner.results[0])});
      const ValueId sum = rewriter.to().nodes()[first].results[0];
      Node last = node;
      last.operands = {sum, sum};
      last.operands[1 - i] = rewriter.Map(inner_term);
      const int second = rewriter.to().AddNode(std::move(last), {local_.value(node.results[0])});
      rewriter.Set(node.results[0], rewriter.to().nodes()[second].results[0]);
    });
  }

  // ---- Wrong layouts.

  void Relabel(const Node& node) {
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& info = local_.value(node.results[r]);
      for (const Layout& lie : Lies(*info.layout, info.global.shape)) {
        writer_.AddChanged("relabel", node, node.attrs, [&](size_t result, ValueInfo& changed) {
          if (result == r) changed.layout = lie;
        });
      }
    }
  }

  // ---- Other values in the place of the right ones.

  void OtherOperands(const Node& node) {
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const ValueId have = node.operands[o];
      for (const ValueId other : Alike(have, node.results[0])) {
        writer_.Add("operand", [&](Rewriter& rewriter) {
          Node copy = node;
          copy.operands[o] = other;
          rewriter.Copy(copy);
        });
      }
      for (size_t p = o + 1; p < node.operands.size(); ++p) {
        if (local_.value(have).type != local_.value(node.operands[p]).type || have == node.operands[p])
          continue;
        writer_.Add("swap", [&](Rewriter& rewriter) {
          Node copy = node;
          std::swap(copy.operands[o], copy.operands[p]);
          rewriter.Copy(copy);
        });
      }
    }
  }

  // Values of the same block that exist before node `before`: the first and the last ones.
  std::vector<ValueId> Alike(ValueId value, ValueId before) const {
    std::vector<ValueId> alike;
    for (ValueId id = 0; id < static_cast<ValueId>(local_.values().size()); ++id)
      if (id != value && IsBefore(id, before) && local_.value(id).type == local_.value(value).type)
        alike.push_back(id);
    if (alike.size() > 3) alike.erase(alike.begin() + 1, alike.end() - 2);
    return alike;
  }
  bool IsBefore(ValueId id, ValueId before) const {
    return local_.value(id).node < local_.value(before).node;
  }

  const Graph& local_;
  const std::function<void(Mutant)>& use_;
  MutantWriter writer_;
  std::vector<bool> is_updating_;  // per value: whether an update needs it
};

}  // namespace

void ForEachMutant(const Graph& local, const std::function<void(Mutant)>& use) {
  MutantMaker(local, use).Make();
}

}  // namespace meshwork
