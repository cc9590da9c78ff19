#include "mutation/mutants.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "mutation/lies.h"

namespace meshwork {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool IsSum(const Node& node) { return node.row->name == "add" || node.row->name == "sub"; }

bool IsReduction(const Node& node) { return node.attrs.Find("op") != nullptr; }

class MutantMaker {
 public:
  MutantMaker(const Graph& local, const std::function<void(Mutant)>& use)
      : local_(local), use_(use), is_updating_(local.values().size(), false) {
    for (const VariableUpdate& update : local.updates()) is_updating_[update.value] = true;
    for (size_t n = local.nodes().size(); n-- > 0;) {
      const Node& node = local.nodes()[n];
      if (std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return is_updating_[id]; }))
        for (ValueId id : node.operands) is_updating_[id] = true;
    }
  }

  void Make() && {
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      at_ = n;
      const Node& node = local_.nodes()[n];
      Skip(node);
      if (node.row->name == "reduce_scatter") SliceInstead(node);
      if (node.row->kind == OpKind::kCollective) Double(node);
      if (IsReduction(node)) OtherReductions(node);
      if (node.attrs.Find("axes") != nullptr) OtherAxes(node);
      if (node.row->name == "mask_padding") FewerDims(node);
      if (IsSum(node)) OtherSums(node);
      Relabel(node);
      OtherOperands(node);
      OtherAttributes(node);
      if (node.row->exchange != nullptr || node.row->name == "exchange") OtherMoves(node);
      OtherFills(node);
      if (node.row->name == "if") OtherBranch(node);
      for (size_t r = 0; r < node.regions.size(); ++r) InBody(node, r);
    }
    OtherResults();
  }

  // The arguments of a body are said to lie otherwise than what they are given.
  void RelabelArguments() && {
    for (const Argument& argument : local_.arguments()) {
      const ValueInfo& info = local_.value(argument.value);
      for (const Layout& lie : Lies(*info.layout, info.global.shape)) {
        Graph graph = local_;
        graph.mutable_value(argument.value).layout = lie;
        Emit("relabel", "argument %" + info.name, std::move(graph));
      }
    }
  }

 private:
  using Edit = std::function<void(Rewriter&)>;  // writes the node in its own way

  void Emit(std::string kind, std::string what, Graph graph) {
    // The kernel of a slice would read beside its operand.
    if (SlicesAreWithin(graph)) use_({std::move(kind), std::move(what), std::move(graph)});
  }

  std::string Here() const { return local_.Describe(at_) + fmt::format(", node {}", at_); }

  Graph With(const Edit& edit) const {
    Rewriter rewriter(local_);
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
      if (n == at_) edit(rewriter);
      else rewriter.Copy(local_.nodes()[n]);
    }
    return std::move(rewriter).Finish();
  }

  void Add(std::string kind, const Edit& edit) { Emit(std::move(kind), Here(), With(edit)); }

  // The node with other attributes and, if they are given, other layouts of its results.
  void AddChanged(std::string kind, const Node& node, const Attrs& attrs,
                  const std::function<void(size_t, ValueInfo&)>& change = nullptr) {
    Add(std::move(kind), [&](Rewriter& rewriter) {
      Node copy = node;
      copy.attrs = attrs;
      const int index = rewriter.Copy(copy);
      for (size_t r = 0; r < node.results.size() && change != nullptr; ++r)
        change(r, rewriter.to().mutable_value(rewriter.to().nodes()[index].results[r]));
    });
  }

  // ---- Bodies of loops and branches.

  void InBody(const Node& node, size_t r) {
    const int at = at_;
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
      Add("branch", [&](Rewriter& rewriter) {
        Node copy = node;
        copy.regions[second ? 1 : 0] = copy.regions[second ? 0 : 1];
        rewriter.Copy(copy);
      });
    }
  }

  // ---- Nodes left out, or there twice.

  // Where a sum is missing that an update needs, a gradient is wrong.
  std::string KindOfSkip(const Node& node) const {
    const bool is_sum =
        node.row->name == "add" || (IsReduction(node) && node.row->kind == OpKind::kCollective);
    if (is_sum && is_updating_[node.results[0]]) return "gradient sum";
    return node.row->kind == OpKind::kCompute ? "skip" : "drop";
  }

  // Readers of a result read an operand of the same block in its place; then it is said to lie as the result
  // does, too.
  void Skip(const Node& node) {
    for (size_t r = 0; r < node.results.size(); ++r) {
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (node.row->num_results < 0 && o != r) continue;  // of a bucket
        const ValueInfo& operand = local_.value(node.operands[o]);
        const ValueInfo& result = local_.value(node.results[r]);
        if (operand.type != result.type) continue;
        for (const bool lie : {false, true}) {
          if (lie && (*operand.layout == *result.layout || operand.global != result.global)) continue;
          Add(KindOfSkip(node), [&](Rewriter& rewriter) {
            rewriter.Copy(node);
            const ValueId instead = rewriter.Map(node.operands[o]);
            if (lie) rewriter.to().mutable_value(instead).layout = result.layout;
            rewriter.Set(node.results[r], instead);
          });
        }
      }
    }
  }

  // A device takes its own block for the sum.
  void SliceInstead(const Node& node) {
    Add(KindOfSkip(node), [&](Rewriter& rewriter) {
      Node slice = node;
      slice.row = &GetOp("shard_slice");
      slice.attrs = {{"axes", node.attrs.Get<AxisList>("axes")}, {"dim", node.attrs.Get<int64_t>("dim")}};
      rewriter.Copy(slice);
    });
  }

  void Double(const Node& node) {
    if (TypesOf(local_, node.operands) != TypesOf(local_, node.results)) return;
    Add("double", [&](Rewriter& rewriter) {
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
    Add("sign", [&](Rewriter& rewriter) {
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

  // The result of a sum with a term added to it once more.
  void AddAgain(std::string kind, const Node& node, ValueId term) {
    Add(std::move(kind), [&](Rewriter& rewriter) {
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
    Add("regrouped", [&](Rewriter& rewriter) {
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

  // ---- Collectives and masks.

  void OtherReductions(const Node& node) {
    for (const ReduceOp op : kAllReduceOps) {
      if (op == node.attrs.Get<ReduceOp>("op") ||
          !CheckReduction(op, local_.value(node.operands[0]).type).ok())
        continue;
      Attrs attrs = node.attrs;
      attrs.Set("op", op);
      AddChanged(node.row->name == "mask_padding" ? "identity" : "operation", node, attrs);
    }
  }

  void OtherAxes(const Node& node) {
    const AxisList axes = node.attrs.Get<AxisList>("axes");
    const Mesh& mesh = local_.mesh();
    auto add = [&](std::string kind, const AxisList& other) {
      Attrs attrs = node.attrs;
      attrs.Set("axes", other);
      AddChanged(std::move(kind), node, attrs);
    };
    if (axes.size() > 1) {
      add("order", AxisList(axes.rbegin(), axes.rend()));
      add("axes", AxisList(axes.begin(), axes.end() - 1));
      OtherOrder(node, axes);
    }
    for (int other = 0; other < mesh.num_axes(); ++other) {
      if (AxisSet(axes).Contains(other)) continue;
      AxisList more = axes, replaced = axes;
      more.push_back(other);
      replaced.back() = other;
      add("axes", more);
      add("group", replaced);
      OtherBlock(node, axes, other);
    }
  }

  // The dim of the result that a node cuts, or -1.
  static int CutDim(const Node& node) {
    if (node.attrs.Find("dim") == nullptr && node.attrs.Find("to") == nullptr) return -1;
    if (node.row->name == "all_gather") return -1;
    return static_cast<int>(node.attrs.Get<int64_t>(node.row->name == "all_to_all" ? "to" : "dim"));
  }

  // A dim is cut by the axes in another order, as its layout says.
  void OtherOrder(const Node& node, const AxisList& axes) {
    const int d = CutDim(node);
    if (d < 0) return;
    const ValueInfo& result = local_.value(node.results[0]);
    AxisList dim = result.layout->dim(d);
    std::reverse(dim.end() - static_cast<int64_t>(axes.size()), dim.end());
    const Layout lie = result.layout->WithDim(d, dim);
    if (lie.LocalShape(result.global.shape) != result.type.shape) return;
    Attrs attrs = node.attrs;
    attrs.Set("axes", AxisList(axes.rbegin(), axes.rend()));
    AddChanged("order", node, attrs, [&](size_t, ValueInfo& info) { info.layout = lie; });
  }

  // Another block than the one that is meant: the axis is replaced in the result's layout, too.
  void OtherBlock(const Node& node, const AxisList& axes, int other) {
    const int d = CutDim(node);
    if (d < 0) return;
    const ValueInfo& result = local_.value(node.results[0]);
    const Mesh& mesh = local_.mesh();
    AxisList dim = result.layout->dim(d), replaced = axes;
    if (mesh.axis(other).size != mesh.axis(axes.back()).size) return;
    if (result.layout->ShardedAxes().Union(result.layout->PartialAxes()).Contains(other)) return;
    std::replace(dim.begin(), dim.end(), axes.back(), other);
    std::replace(replaced.begin(), replaced.end(), axes.back(), other);
    const Layout lie = result.layout->WithDim(d, dim);
    if (lie.LocalShape(result.global.shape) != result.type.shape) return;
    Attrs attrs = node.attrs;
    attrs.Set("axes", replaced);
    AddChanged("block", node, attrs, [&](size_t, ValueInfo& info) { info.layout = lie; });
  }

  void FewerDims(const Node& node) {
    const auto& dims = node.attrs.Get<std::vector<int64_t>>("dims");
    for (size_t i = 0; i < dims.size() && dims.size() > 1; ++i) {
      std::vector<int64_t> fewer = dims;
      fewer.erase(fewer.begin() + static_cast<int64_t>(i));
      Attrs attrs = node.attrs;
      attrs.Set("dims", fewer);
      AddChanged("mask", node, attrs);
    }
  }

  // ---- Layouts that are not so.

  void Relabel(const Node& node) {
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueInfo& info = local_.value(node.results[r]);
      for (const Layout& lie : Lies(*info.layout, info.global.shape)) {
        AddChanged("relabel", node, node.attrs, [&](size_t result, ValueInfo& changed) {
          if (result == r) changed.layout = lie;
        });
      }
    }
  }

  static bool SlicesAreWithin(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (node.row->name != "shard_slice") continue;
      const ValueInfo& from = graph.value(node.operands[0]);
      const ValueInfo& to = graph.value(node.results[0]);
      for (int64_t device = 0; device < graph.mesh().num_devices(); ++device) {
        const Block a = to.layout->BlockOf(to.global.shape, device);
        const Block b = from.layout->BlockOf(from.global.shape, device);
        if (a.size() != b.size()) return false;
        for (size_t d = 0; d < a.size(); ++d)
          if (a[d].start < b[d].start || a[d].start + a[d].size > b[d].start + b[d].size) return false;
      }
    }
    return true;
  }

  // ---- Values in the place of others.

  void OtherOperands(const Node& node) {
    for (size_t o = 0; o < node.operands.size(); ++o) {
      const ValueId have = node.operands[o];
      for (const ValueId other : Alike(have, node.results[0])) {
        Add("operand", [&](Rewriter& rewriter) {
          Node copy = node;
          copy.operands[o] = other;
          rewriter.Copy(copy);
        });
      }
      for (size_t p = o + 1; p < node.operands.size(); ++p) {
        if (local_.value(have).type != local_.value(node.operands[p]).type || have == node.operands[p])
          continue;
        Add("swap", [&](Rewriter& rewriter) {
          Node copy = node;
          std::swap(copy.operands[o], copy.operands[p]);
          rewriter.Copy(copy);
        });
      }
    }
  }

  // Values of the same block that are there before `before`: the first and the last ones.
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

  // ---- Attributes.

  void OtherAttributes(const Node& node) {
    if (node.row->kind != OpKind::kCompute && !IsControl(node)) return;
    for (const auto& [name, value] : node.attrs.entries()) {
      // That a body is computed again says nothing of what it computes.
      if (name == "recompute") continue;
      std::optional<AttrValue> other;
      if (const auto* flag = std::get_if<bool>(&value)) other = !*flag;
      else if (const auto* whole = std::get_if<int64_t>(&value)) other = *whole + 1;
      else if (const auto* real = std::get_if<double>(&value)) other = *real + 1;
      else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value);
               ints != nullptr && ints->size() > 1)
        other = std::vector<int64_t>(ints->rbegin(), ints->rend());
      if (!other.has_value()) continue;
      Attrs attrs = node.attrs;
      attrs.Set(name, *other);
      const absl::StatusOr<std::vector<Type>> types = InferredWith(node, attrs);
      if (types.ok() && *types == TypesOf(local_, node.results)) AddChanged("attribute", node, attrs);
    }
  }

  // Elements from beside the right ones: an amount of a move more or less, or of two lists, so that the
  // result keeps its size.
  void OtherMoves(const Node& node) {
    using Ints = std::vector<int64_t>;
    const auto moved = [&](std::string_view name, size_t d, int64_t by, std::string_view other = "",
                           int64_t other_by = 0) {
      Attrs attrs = node.attrs;
      for (const auto& [list, amount] : {std::pair(name, by), std::pair(other, other_by)}) {
        if (list.empty()) continue;
        Ints entries = attrs.Get<Ints>(list);
        if (entries.size() <= d) return;
        entries[d] += amount;
        attrs.Set(list, std::move(entries));
      }
      AddIfItFits("move", node, attrs);
    };
    for (const int64_t by : {-1, 1}) {
      for (size_t d = 0; d < static_cast<size_t>(local_.value(node.operands[0]).type.rank()); ++d) {
        if (node.row->name == "slice") moved("start", d, by, "limit", by);
        if (node.row->name == "slice") moved("stride", d, by);
        if (node.row->name == "pad") moved("low", d, by, "high", -by);
        if (node.row->name != "exchange") continue;
        moved("stride", d, by);
        moved("spacing", d, by);
      }
      if (node.row->name == "exchange")
        for (size_t i = 0; i < node.attrs.Get<Ints>("offset").size(); ++i) moved("offset", i, by);
    }
    if (node.row->name == "reverse") {
      Ints dims = node.attrs.Get<Ints>("dims");
      if (!dims.empty()) dims.pop_back();
      else if (local_.value(node.results[0]).type.rank() > 0) dims.push_back(0);
      Attrs attrs = node.attrs;
      attrs.Set("dims", std::move(dims));
      AddIfItFits("move", node, attrs);
    }
  }

  // Other values where a move fills in, and wherever else a real is an attribute of what is computed.
  void OtherFills(const Node& node) {
    if (node.row->kind != OpKind::kCompute && node.row->name != "exchange") return;
    for (const auto& [name, value] : node.attrs.entries()) {
      const auto* real = std::get_if<double>(&value);
      if (real == nullptr) continue;
      constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
      for (const double other : {-*real, std::isnan(*real) ? 0 : kNan, kInfinity}) {
        if (SameAttr(other, value) || (std::isnan(other) && std::isnan(*real))) continue;
        Attrs attrs = node.attrs;
        attrs.Set(name, other);
        AddIfItFits("fill", node, attrs);
      }
    }
  }

  void AddIfItFits(std::string_view kind, const Node& node, const Attrs& attrs) {
    if (attrs == node.attrs) return;
    if (node.row->name != "exchange") {
      const absl::StatusOr<std::vector<Type>> types = InferredWith(node, attrs);
      if (!types.ok() || *types != TypesOf(local_, node.results)) return;
    }
    AddChanged(std::string(kind), node, attrs);
  }

  absl::StatusOr<std::vector<Type>> InferredWith(const Node& node, const Attrs& attrs) const {
    if (!IsControl(node)) return node.row->infer({TypesOf(local_, node.operands), {}, attrs});
    Node other = node;
    other.attrs = attrs;
    return InferControl(other, TypesOf(local_, node.operands));
  }

  // ---- Outputs and updates.

  // The same nodes, with other updates and outputs.
  void AddWith(std::string kind, std::string what, const std::vector<VariableUpdate>& updates,
               const std::vector<OutputInfo>& outputs) {
    Graph graph = local_;
    graph.ClearUpdates();
    graph.ClearOutputs();
    for (const VariableUpdate& update : updates) graph.AddUpdate(update);
    for (const OutputInfo& output : outputs) graph.AddOutput(output);
    Emit(std::move(kind), std::move(what), std::move(graph));
  }

  // A value of the same block that lies alike.
  std::vector<ValueId> Substitutes(ValueId value) const {
    std::vector<ValueId> found;
    for (ValueId id = static_cast<ValueId>(local_.values().size()); id-- > 0 && found.size() < 2;)
      if (id != value && local_.value(id).type == local_.value(value).type &&
          local_.value(id).global == local_.value(value).global &&
          *local_.value(id).layout == *local_.value(value).layout)
        found.push_back(id);
    return found;
  }

  void OtherResults() {
    for (size_t o = 0; o < local_.outputs().size(); ++o) {
      for (const ValueId other : Substitutes(local_.outputs()[o].value)) {
        std::vector<OutputInfo> outputs = local_.outputs();
        outputs[o].value = other;
        AddWith("output", "output " + outputs[o].name, local_.updates(), outputs);
      }
    }
    for (size_t u = 0; u < local_.updates().size(); ++u) {
      const std::string what = "update of %" + local_.argument_name(local_.updates()[u].argument);
      std::vector<VariableUpdate> fewer = local_.updates();
      fewer.erase(fewer.begin() + static_cast<int64_t>(u));
      AddWith("no update", what, fewer, local_.outputs());
      for (const ValueId other : Substitutes(local_.updates()[u].value)) {
        std::vector<VariableUpdate> updates = local_.updates();
        updates[u].value = other;
        AddWith("update", what, updates, local_.outputs());
      }
      ReadNew(local_.updates()[u], what);
      ReadOld(static_cast<int>(u), what);
    }
  }

  // Reads of the old value, moved behind the update: nodes, each with all that follow from it, and outputs.
  void ReadNew(const VariableUpdate& update, const std::string& what) {
    const ValueId old = local_.arguments()[update.argument].value;
    for (int reader = 0; reader < static_cast<int>(local_.nodes().size()); ++reader) {
      const Node& node = local_.nodes()[reader];
      if (std::find(node.operands.begin(), node.operands.end(), old) == node.operands.end()) continue;
      const std::vector<bool> follows = FollowsFrom(reader);
      const int made = local_.value(update.value).node;
      if (update.value == old || (made >= 0 && follows[made])) continue;
      Rewriter rewriter(local_);
      for (const bool moved : {false, true}) {
        for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) {
          if (follows[n] != moved) continue;
          Node copy = local_.nodes()[n];
          if (n == reader) std::replace(copy.operands.begin(), copy.operands.end(), old, update.value);
          rewriter.Copy(copy);
        }
      }
      Emit("moved read", fmt::format("{}, read by node {}", what, reader), std::move(rewriter).Finish());
    }
    for (size_t o = 0; o < local_.outputs().size(); ++o) {
      if (local_.outputs()[o].value != old || update.value == old) continue;
      std::vector<OutputInfo> outputs = local_.outputs();
      outputs[o].value = update.value;
      AddWith("moved read", what + ", output " + outputs[o].name, local_.updates(), outputs);
    }
  }

  // Per node: whether it is this one or needs its results.
  std::vector<bool> FollowsFrom(int node) const {
    std::vector<bool> follows(local_.nodes().size(), false);
    follows[node] = true;
    for (size_t n = static_cast<size_t>(node) + 1; n < follows.size(); ++n)
      for (ValueId id : local_.nodes()[n].operands)
        if (local_.value(id).node >= 0 && follows[local_.value(id).node]) follows[n] = true;
    return follows;
  }

  // What is to read the new value reads the old one: nodes, outputs, the update itself.
  void ReadOld(int u, const std::string& what) {
    const VariableUpdate& update = local_.updates()[u];
    const ValueId old = local_.arguments()[update.argument].value;
    if (old == update.value || local_.value(old).type != local_.value(update.value).type) return;
    std::vector<VariableUpdate> updates = local_.updates();
    updates[u].value = old;
    AddWith("stale value", what, updates, local_.outputs());
    for (size_t o = 0; o < local_.outputs().size(); ++o) {
      if (local_.outputs()[o].value != update.value) continue;
      std::vector<OutputInfo> outputs = local_.outputs();
      outputs[o].value = old;
      AddWith("stale value", what + ", output " + outputs[o].name, local_.updates(), outputs);
    }
    for (at_ = 0; at_ < static_cast<int>(local_.nodes().size()); ++at_) {
      const Node& node = local_.nodes()[at_];
      if (std::find(node.operands.begin(), node.operands.end(), update.value) == node.operands.end())
        continue;
      Add("stale value", [&](Rewriter& rewriter) {
        Node copy = node;
        std::replace(copy.operands.begin(), copy.operands.end(), update.value, old);
        rewriter.Copy(copy);
      });
    }
  }

  const Graph& local_;
  const std::function<void(Mutant)>& use_;
  std::vector<bool> is_updating_;  // per value: whether an update needs it
  int at_ = 0;
};

}  // namespace

void ForEachMutant(const Graph& local, const std::function<void(Mutant)>& use) {
  MutantMaker(local, use).Make();
}

}  // namespace meshwork
