#include "spmd/insert_relayouts.h"

#include <algorithm>
#include <optional>

#include "base/status.h"
#include "ops/rewrite.h"
#include "ops/row.h"
#include "spmd/choose_cuts.h"

namespace meshwork {
namespace {

// Whether a value that owes `owed` can be taken to `need`.
bool Owes(const Layout& need, const PartialSet& owed) {
  return std::all_of(need.partials().begin(), need.partials().end(), [&](const Partial& partial) {
    return std::find(owed.begin(), owed.end(), partial) != owed.end();
  });
}

// Decides which values stay partial: starts from "all that can be" and takes back what some reader
// cannot accept, or what would be paid for when it has grown, until nothing changes.
class PartialFlow {
 public:
  PartialFlow(const Graph& graph, const std::vector<std::optional<Choice>>& choices)
      : graph_(graph), choices_(choices), owed_(graph.values().size()), kept_(graph.values().size(), true) {
    for (const VariableUpdate& update : graph.updates()) kept_[update.value] = false;
    for (const OutputInfo& output : graph.outputs()) kept_[output.value] = false;
    do {
      Forward();
    } while (TakeBack() || TakeBackGrowth());
  }

  // What the value owes when its op has run.
  const PartialSet& owed(ValueId id) const { return owed_[id]; }
  // What its readers see: the same if it stays partial, else nothing.
  PartialSet seen(ValueId id) const { return kept_[id] ? owed_[id] : PartialSet(); }

 private:
  void Forward() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (!choices_[n].has_value()) continue;  // relayout: whole in, whole out
      PartialSet owed = choices_[n]->reduced;
      if (const std::optional<PartialSet> passed = PassedOn(n))
        owed.insert(owed.end(), passed->begin(), passed->end());
      std::sort(owed.begin(), owed.end(), [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
      for (ValueId id : node.results) owed_[id] = owed;
    }
  }

  bool TakeBack() {
    bool changed = false;
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (choices_[n].has_value() && PassedOn(n).has_value()) continue;
      for (ValueId id : graph_.nodes()[n].operands) {
        if (seen(id).empty()) continue;
        kept_[id] = false;
        changed = true;
      }
    }
    return changed;
  }

  // A sum is paid before an op that makes it larger, unless it then meets one that is owed in any case:
  // in xW + (xA)B the sum of xA waits for that of xW.
  bool TakeBackGrowth() {
    const std::vector<bool> absorbed = Absorbed(RestOnGrowth());
    bool changed = false;
    for (const Node& node : graph_.nodes()) {
      for (ValueId id : node.operands) {
        if (seen(id).empty() || !Grows(node, id) || absorbed[node.results[0]]) continue;
        kept_[id] = false;
        changed = true;
      }
    }
    return changed;
  }

  bool Grows(const Node& node, ValueId operand) const {
    return graph_.value(node.results[0]).type.bytes() > graph_.value(operand).type.bytes();
  }

  // Per value: whether it owes only what was owed before it grew.
  std::vector<bool> RestOnGrowth() const {
    std::vector<bool> rests(graph_.values().size(), false);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      bool all = choices_[n].has_value() && choices_[n]->reduced.empty();
      for (ValueId id : node.operands) all = all && (seen(id).empty() || rests[id] || Grows(node, id));
      for (ValueId id : node.results) rests[id] = all;
    }
    return rests;
  }

  // Per value: whether every reader adds it to something that owes the same without having grown.
  std::vector<bool> Absorbed(const std::vector<bool>& rests) const {
    std::vector<bool> absorbed = kept_;
    for (size_t n = graph_.nodes().size(); n-- > 0;) {
      const Node& node = graph_.nodes()[n];
      for (ValueId id : node.operands) {
        const bool joins = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId other) {
          return other != id && !seen(other).empty() && !rests[other];
        });
        absorbed[id] = absorbed[id] && (joins || absorbed[node.results[0]]);
      }
    }
    return absorbed;
  }

  // What the op's results owe for its operands as they are seen; nothing if it cannot run on them.
  std::optional<PartialSet> PassedOn(size_t n) const {
    const Choice& choice = *choices_[n];
    absl::InlinedVector<PartialSet, 4> sets;
    for (ValueId id : graph_.nodes()[n].operands) sets.push_back(seen(id));
    std::optional<PartialSet> passed = choice.rule.PassOn(sets, choice.sharded());
    // Reductions of two kinds do not commute.
    if (passed.has_value() && !passed->empty() && !choice.reduced.empty() &&
        passed->front().op != choice.reduced.front().op)
      return std::nullopt;
    return passed;
  }

  const Graph& graph_;
  const std::vector<std::optional<Choice>>& choices_;
  std::vector<PartialSet> owed_;
  std::vector<bool> kept_;
};

// Writes the program with its relayouts.
class Inserter {
 public:
  Inserter(const Graph& graph, const Topology& topology)
      : graph_(graph),
        topology_(topology),
        rewriter_(graph),
        forms_(graph.values().size()),
        source_(graph.values().size()) {
    for (size_t id = 0; id < source_.size(); ++id) source_[id] = static_cast<ValueId>(id);
    for (const Argument& argument : graph.arguments())
      forms_[argument.value].push_back(rewriter_.Map(argument.value));
    choices_ = ChooseCuts(graph, topology);
    flow_.emplace(graph, choices_);
  }

  Graph Run() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      if (choices_[n].has_value()) Write(n);
      else WriteRelayout(graph_.nodes()[n]);
    }
    Graph& to = rewriter_.to();
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueInfo& variable = graph_.value(graph_.arguments()[update.argument].value);
      to.AddUpdate({update.argument, As(update.value, *variable.layout, [&] {
                      return fmt::format("variable \"{}\" is kept as {}", variable.name,
                                         variable.layout->ToString());
                    })});
    }
    for (const OutputInfo& output : graph_.outputs())
      to.AddOutput({output.name, rewriter_.Map(output.value)});
    return std::move(to);
  }

 private:
  void Write(size_t n) {
    const Node& node = graph_.nodes()[n];
    const Choice& choice = *choices_[n];
    Node copy = node;
    copy.operands.clear();
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Layout need = choice.operands[i].WithPartials(flow_->seen(node.operands[i]));
      copy.operands.push_back(As(node.operands[i], need, [&] {
        return fmt::format("{} reads it as {}", Where(node), need.ToString());
      }));
    }
    std::vector<ValueInfo> infos;
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueInfo info = graph_.value(node.results[i]);
      info.layout = choice.results[i].WithPartials(flow_->owed(node.results[i]));
      infos.push_back(std::move(info));
    }
    Graph& to = rewriter_.to();
    const int index = to.AddNode(std::move(copy), std::move(infos));
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId id = node.results[i];
      const ValueId natural = to.nodes()[index].results[i];
      forms_[id].push_back(natural);
      rewriter_.Set(id, natural);
      // Where the value is wanted: its layout, with what it still may owe. One that is wanted along an axis
      // over which it owes a sum stays as it is: no reader takes it so.
      const PartialSet owed = flow_->seen(id);
      const Layout& wish = *graph_.value(id).layout;
      if (std::any_of(owed.begin(), owed.end(),
                      [&](const Partial& p) { return wish.ShardedAxes().Contains(p.axis); }))
        continue;
      const Layout want = wish.WithPartials(owed);
      if (*to.value(natural).layout != want)
        rewriter_.Set(id, Relay(id, natural, want, Reason(node, choice, id, want)));
    }
  }

  void WriteRelayout(const Node& node) {
    const Layout& want = *graph_.value(node.results[0]).layout;
    const ValueId id = As(node.operands[0], want,
                          [&] { return fmt::format("{} asks for {}", Where(node), want.ToString()); });
    rewriter_.Set(node.results[0], id);
    source_[node.results[0]] = source_[node.operands[0]];
  }

  // `id` in the layout `need`: as it is wanted, or from the form it exists in that costs least. So a gather
  // that only a slice reads is never read, and dropped as dead.
  template <typename Cause>
  ValueId As(ValueId id, const Layout& need, Cause&& cause) {
    const Graph& to = rewriter_.to();
    const ValueId wanted = rewriter_.Map(id);
    if (*to.value(wanted).layout == need) return wanted;
    ValueId best = kNoValue;
    double best_seconds = 0;
    for (ValueId form : forms_[source_[id]]) {
      const ValueInfo& info = to.value(form);
      if (*info.layout == need) return form;
      if (!Owes(need, info.layout->partials())) continue;
      const double seconds = RelayoutSeconds(*info.layout, need, info.type, topology_);
      if (best != kNoValue && seconds >= best_seconds)
        continue;  // of equals the earlier, which is there anyhow
      best = form;
      best_seconds = seconds;
    }
    return Relay(id, best, need, cause());
  }

  // A new form of the old value `id`, made of the form `from`.
  ValueId Relay(ValueId id, ValueId from, const Layout& to, std::string cause) {
    Graph& graph = rewriter_.to();
    ValueInfo info = graph.value(from);
    Node node{.row = &GetOp("relayout"),
              .attrs = {{"layout", LayoutPin{to}}},
              .location = info.location,
              .cause = std::move(cause)};
    node.operands.push_back(from);
    info.name.clear();
    info.layout = to;
    const ValueId form = graph.nodes()[graph.AddNode(std::move(node), {std::move(info)})].results[0];
    forms_[source_[id]].push_back(form);
    return form;
  }

  std::string Where(const Node& node) const { return graph_.Describe(node.row->name, node.location); }

  // Why a value does not lie where its op leaves it.
  std::string Reason(const Node& node, const Choice& choice, ValueId id, const Layout& want) {
    std::string out = fmt::format("{} leaves {} {}", Where(node), graph_.value(id).type.ToString(),
                                  rewriter_.to().value(forms_[id][0]).layout->ToString());
    for (size_t l = 0; l < choice.rule.letters.size(); ++l) {
      const Letter& letter = choice.rule.letters[l];
      const AxisList axes = AxesOf(choice.cuts[l]).ToList();
      if (letter.reduced && !axes.empty())
        out += fmt::format(" (letter {} of {} is reduced over {})", letter.name, choice.rule.ToString(),
                           graph_.mesh().AxesToString(axes));
    }
    return out + fmt::format(" and it is wanted as {}", want.ToString());
  }

  const Graph& graph_;
  const Topology& topology_;
  Rewriter rewriter_;
  // Per old value the new ones that hold it, in the order in which they are made; the first is what its op
  // yields. Relayouts of a value are further forms of it.
  std::vector<absl::InlinedVector<ValueId, 2>> forms_;
  std::vector<ValueId> source_;  // per old value: the one it is a relayout of, else itself
  std::vector<std::optional<Choice>> choices_;
  std::optional<PartialFlow> flow_;
};

}  // namespace

Graph InsertRelayouts(const Graph& graph, const Topology& topology) {
  return Inserter(graph, topology).Run();
}

}  // namespace meshwork
