#include "meshwork/spmd/insert_relayouts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/spmd/partial_flow.h"
#include "meshwork/spmd/planner/choose_cuts.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/planner/move_seconds.h"

namespace meshwork {
namespace {

// Whether a value that owes `owed` can be taken to `need`.
bool Owes(const Layout& need, const PartialSet& owed) {
  return std::all_of(need.partials().begin(), need.partials().end(), [&](const Partial& partial) {
    return std::find(owed.begin(), owed.end(), partial) != owed.end();
  });
}

// The purpose of a relayout: an op that reads the value, or a variable that is to hold it.
struct Reader {
  int node = -1;
  ValueId variable = kNoValue;
};

struct Read {
  Reader reader;
  Layout layout;
};

// A form that is read within the next kMostAhead nodes may be made first, if that saves at least this part of the time.
// It is held until those nodes have read it.
constexpr int kMostAhead = 16;
constexpr double kWorthReading = 0.01;

// Writes the program with its relayouts.
class Inserter {
 public:
  // `flows`: what values owe follows from how ops run; else `choices` and the layouts of `graph` say it.
  Inserter(const Graph& graph, const Topology& topology, const Replication& replication,
           std::vector<std::optional<Choice>> choices, bool flows)
      : graph_(graph),
        topology_(topology),
        replication_(replication),
        rewriter_(graph, /*more=*/graph.nodes().size() / 4),
        kept_(KeptValues(graph)),
        forms_(graph.values().size()),
        readers_(ReadersOf(graph)),
        source_(graph.values().size()),
        choices_(std::move(choices)) {
    for (size_t id = 0; id < source_.size(); ++id) source_[id] = static_cast<ValueId>(id);
    for (const Argument& argument : graph.arguments())
      forms_[argument.value].push_back(rewriter_.Map(argument.value));
    if (flows) flow_.emplace(graph, choices_);
  }

  InsertedRelayouts Run() {
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      if (choices_[n].has_value()) Write(static_cast<int>(n));
      else if (MovesKept(node, kept_)) WriteKept(node);
      else WriteRelayout(node);
    }
    Graph& to = rewriter_.to();
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId id = graph_.arguments()[update.argument].value;
      const ValueInfo& variable = graph_.value(id);
      to.AddUpdate({update.argument, As(update.value, *variable.layout, Reader{.variable = id}, [&] {
                      return fmt::format("variable \"{}\" is kept as {}", variable.name,
                                         variable.layout->ToString());
                    })});
    }
    for (const OutputInfo& output : graph_.outputs())
      to.AddOutput({output.name, rewriter_.Map(output.value)});
    const std::vector<bool> live = LiveValues(to);
    std::vector<RefusedGather> refused;
    for (auto& [gather, form] : refused_)
      if (live[form]) refused.push_back(std::move(gather));
    std::vector<InsertedRelayouts::Moved> moved;
    for (const auto& [move, form] : moved_)
      if (live[form]) moved.push_back(move);
    return {std::move(to), std::move(refused), std::move(choices_), std::move(moved)};
  }

 private:
  void Write(int n) {
    const Node& node = graph_.nodes()[n];
    const Choice& choice = *choices_[n];
    Node copy = node;
    copy.operands.clear();
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Layout need = Need(n, i);
      copy.operands.push_back(As(node.operands[i], need, Reader{n}, [&] { return ReadAs(n, need); }));
    }
    std::vector<ValueInfo> infos;
    for (size_t i = 0; i < node.results.size(); ++i) {
      ValueInfo info = graph_.value(node.results[i]);
      info.layout = Left(n, i);
      infos.push_back(std::move(info));
    }
    Graph& to = rewriter_.to();
    const int index = to.AddNode(std::move(copy), std::move(infos));
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId id = node.results[i];
      const ValueId natural = to.nodes()[index].results[i];
      forms_[id].push_back(natural);
      rewriter_.Set(id, natural);
      const std::optional<Layout> want = Wanted(id);
      if (want.has_value() && *to.value(natural).layout != *want &&
          !IsReadOtherwise(id, *to.value(natural).layout, *want))
        rewriter_.Set(id, Relay(id, natural, *want, Reader{n}, Reason(node, choice, id, *want)));
    }
  }

  // The layouts in which node n reads its operand i, and leaves its result i.
  Layout Need(int n, size_t i) const {
    const Layout& layout = choices_[n]->operands[i];
    return flow_.has_value() ? layout.WithPartials(flow_->seen(graph_.nodes()[n].operands[i])) : layout;
  }
  Layout Left(int n, size_t i) const {
    const Layout& layout = choices_[n]->results[i];
    return flow_.has_value() ? layout.WithPartials(flow_->owed(graph_.nodes()[n].results[i])) : layout;
  }

  // The layout in which the value is wanted, with what it may still owe. Nothing if it is wanted along an axis over
  // which it owes a sum: no reader takes it so, and it stays as it is.
  std::optional<Layout> Wanted(ValueId id) const {
    const Layout& wish = *graph_.value(id).layout;
    if (!flow_.has_value()) return wish;
    const PartialSet owed = flow_->seen(id);
    if (std::any_of(owed.begin(), owed.end(),
                    [&](const Partial& p) { return wish.ShardedAxes().Contains(p.axis); }))
      return std::nullopt;
    return wish.WithPartials(owed);
  }

  // Whether it takes less time to make all that the readers of a value need from what its op yields, than to first
  // make the layout in which it is wanted, and all else from that.
  bool IsReadOtherwise(ValueId id, const Layout& natural, const Layout& want) const {
    if (readers_[id].empty() || readers_.exits(id) > 0) return false;
    const Type& type = graph_.value(id).type;
    double direct = 0, by_want = RelayoutSeconds(natural, want, type, topology_);
    absl::InlinedVector<Layout, 2> needs;
    for (const auto [n, i] : readers_[id]) {
      if (!choices_[n].has_value()) return false;
      Layout need = Need(n, i);
      if (need == want) return false;
      if (std::find(needs.begin(), needs.end(), need) != needs.end()) continue;
      if (!Owes(need, natural.partials()) || !Owes(need, want.partials())) return false;
      direct += RelayoutSeconds(natural, need, type, topology_);
      by_want += RelayoutSeconds(want, need, type, topology_);
      needs.push_back(std::move(need));
    }
    return direct < by_want;
  }

  // Writes a use: moves a kept value for one op. The result is not shared with other uses of the value.
  void WriteKept(const Node& node) {
    const ValueId id = node.results[0];
    const Layout& want = *graph_.value(id).layout;
    const std::string cause =
        node.cause.empty() ? fmt::format("{} asks for {}", Where(node), want.ToString()) : node.cause.str();
    const ValueId kept = rewriter_.Map(node.operands[0]);
    const ValueId moved = MoveKept(id, node.operands[0], want, cause);
    forms_[id].push_back(kept);
    if (moved != kept) forms_[id].push_back(moved);
    rewriter_.Set(id, moved);
  }

  // Brings `from`, which is kept in blocks, to `want` for the use `id`. Or moves what it is computed from, and
  // computes it once more. Values made on the way are no forms that others may read: each use is moved by itself.
  ValueId MoveKept(ValueId id, ValueId from, const Layout& want, const std::string& cause) {
    const ValueId kept = rewriter_.Map(from);
    const ValueInfo& info = graph_.value(from);
    if (*rewriter_.to().value(kept).layout == want) return kept;
    const auto elsewhere = ElsewhereSeconds(graph_, from, want, topology_);
    if (!elsewhere.has_value() || *elsewhere >= RelayoutSeconds(*info.layout, want, info.type, topology_))
      return AddRelayout(id, kept, want, std::nullopt, cause);
    return RunElsewhere(from, want, std::nullopt, [&](ValueId operand, const Layout& layout) {
      return kept_[operand] ? MoveKept(id, operand, layout, cause)
                            : As(operand, layout, std::nullopt, [&] { return cause; });
    });
  }

  void WriteRelayout(const Node& node) {
    const Layout& want = *graph_.value(node.results[0]).layout;
    const ValueId id = As(node.operands[0], want, std::nullopt,
                          [&] { return fmt::format("{} asks for {}", Where(node), want.ToString()); });
    rewriter_.Set(node.results[0], id);
    source_[node.results[0]] = source_[node.operands[0]];
  }

  // `id` in the layout `need`: the form in which it is wanted, if it has that layout; else made from the existing
  // form from which that costs least. So a gather that only a slice reads is never read, and dropped as dead code.
  // No reader: the user asks for the layout.
  template <typename Cause>
  ValueId As(ValueId id, const Layout& need, std::optional<Reader> reader, Cause&& cause) {
    const Graph& to = rewriter_.to();
    const ValueId wanted = rewriter_.Map(id);
    if (*to.value(wanted).layout == need) return wanted;
    ValueId best = kNoValue;
    double best_seconds = 0;
    for (ValueId form : forms_[source_[id]]) {
      const ValueInfo& info = to.value(form);
      if (*info.layout == need) return form;
      if (!Owes(need, info.layout->partials())) continue;
      const double seconds = LeastSeconds(*info.layout, need, info.type, topology_);
      if (best != kNoValue && seconds >= best_seconds)
        continue;  // of equal forms the earlier, which exists anyhow
      best = form;
      best_seconds = seconds;
    }
    if (best_seconds > 0) {
      if (const ValueId moved = UseOnceMore(source_[id], need, best_seconds, cause); moved != kNoValue) {
        NoteRefused(id, *to.value(best).layout, need, reader, moved);
        return forms_[source_[id]].emplace_back(moved);
      }
      const auto seconds = ElsewhereSeconds(graph_, source_[id], need, topology_);
      if (seconds.has_value() && *seconds < best_seconds && NothingOwedBefore(source_[id]))
        return forms_[source_[id]].emplace_back(RunElsewhere(
            source_[id], need, reader,
            [&](ValueId operand, const Layout& layout) { return As(operand, layout, std::nullopt, cause); }));
    }
    if (best_seconds > 0 && reader.has_value() && reader->node >= 0) {
      if (const std::optional<Read> first =
              ReadFirst(id, reader->node, *to.value(best).layout, need, best_seconds))
        best = Relay(id, best, first->layout, first->reader, ReadAs(first->reader.node, first->layout));
    }
    return Relay(id, best, need, reader, cause());
  }

  // Another layout in which the value is read soon after node `at`, if making that layout first, and `need` from it,
  // takes less time than making each by itself. Of several, the one that saves most. alone: the time to make `need`
  // from `now`.
  std::optional<Read> ReadFirst(ValueId id, int at, const Layout& now, const Layout& need, double alone) {
    if (readers_.count(id) < 2) return std::nullopt;
    const Type& type = graph_.value(id).type;
    const auto seconds = [&](const Layout& from, const Layout& to) {
      return LeastSeconds(from, to, type, topology_);
    };
    std::optional<Read> best;
    double most_saved = 0;
    for (const auto [n, i] : readers_[id]) {
      if (n < at || n > at + kMostAhead || !choices_[n].has_value()) continue;
      Layout other = Need(n, i);
      if (other == need || !Owes(need, other.partials()) || !Owes(other, now.partials())) continue;
      const auto is_made = [&](ValueId form) { return *rewriter_.to().value(form).layout == other; };
      if (std::any_of(forms_[source_[id]].begin(), forms_[source_[id]].end(), is_made)) continue;
      const double to_other = seconds(now, other);
      const double later = Owes(other, need.partials()) ? std::min(to_other, seconds(need, other)) : to_other;
      const double saved = alone + later - to_other - seconds(other, need);
      if (saved <= kWorthReading * (alone + later) || saved <= most_saved) continue;
      most_saved = saved;
      best = Read{Reader{n}, std::move(other)};
    }
    return best;
  }

  // For a use that one op reads in two layouts: the kept value, brought to `need` by computing it once more, if
  // that takes less than `seconds`. kNoValue: `id` is no use, or that does not take less.
  template <typename Cause>
  ValueId UseOnceMore(ValueId id, const Layout& need, double seconds, Cause&& cause) {
    const int n = graph_.value(id).node;
    if (n < 0 || choices_[n].has_value() || !MovesKept(graph_.nodes()[n], kept_)) return kNoValue;
    const ValueId from = graph_.nodes()[n].operands[0];
    const auto elsewhere = ElsewhereSeconds(graph_, from, need, topology_);
    return elsewhere.has_value() && *elsewhere < seconds ? MoveKept(id, from, need, cause()) : kNoValue;
  }

  bool NothingOwedBefore(ValueId id) {
    const int n = graph_.value(id).node;
    const Node& node = graph_.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (Need(n, i).is_partial()) return false;
    return std::none_of(node.results.begin(), node.results.end(), [&](ValueId result) {
      return rewriter_.to().value(forms_[result][0]).layout->is_partial();
    });
  }

  // Runs the op of `id` once more, so that its result has layout `need`, on the operands that
  // `bring(operand, layout)` returns. Whether this is a refused gather is asked for `id`, not for the operands.
  template <typename Bring>
  ValueId RunElsewhere(ValueId id, const Layout& need, std::optional<Reader> reader, Bring&& bring) {
    Node copy = graph_.nodes()[graph_.value(id).node];
    const std::vector<Layout> layouts = *OperandsElsewhere(graph_, copy, need);
    for (size_t i = 0; i < layouts.size(); ++i) copy.operands[i] = bring(copy.operands[i], layouts[i]);
    ValueInfo info = graph_.value(id);
    info.name.clear();
    info.layout = need;
    Graph& to = rewriter_.to();
    const ValueId form = to.nodes()[to.AddNode(std::move(copy), {std::move(info)})].results[0];
    NoteRefused(id, *graph_.value(id).layout, need, reader, form);
    return form;
  }

  // Notes `form`, which is `id` taken from one layout to another for the reader, if it is a refused gather.
  void NoteRefused(ValueId id, const Layout& from, const Layout& to, std::optional<Reader> reader,
                   ValueId form) {
    if (reader.has_value() && replication_.Refuses(id, ResultsOf(*reader), from, to) &&
        !replication_.IsImplied(id, reader->node, from))
      refused_.emplace_back(RefusedGather{id, from, reader->node, reader->variable}, form);
  }

  // A new form of the old value `id`, made of the form `from`.
  ValueId Relay(ValueId id, ValueId from, const Layout& to, std::optional<Reader> reader, std::string cause) {
    const ValueId form = AddRelayout(id, from, to, reader, std::move(cause));
    forms_[source_[id]].push_back(form);
    return form;
  }

  // `from` in the layout `to`, for the old value `id`.
  ValueId AddRelayout(ValueId id, ValueId from, const Layout& to, std::optional<Reader> reader,
                      std::string cause) {
    Graph& graph = rewriter_.to();
    ValueInfo info = graph.value(from);
    const Layout blocks = *info.layout;
    Node node{.row = &GetOp("relayout"),
              .attrs = {{"layout", LayoutPin{to}}},
              .location = info.location,
              .cause = std::move(cause)};
    node.operands.push_back(from);
    info.name.clear();
    info.layout = to;
    info.gather = Gathering::kWithinBudget;
    const ValueId form = graph.nodes()[graph.AddNode(std::move(node), {std::move(info)})].results[0];
    moved_.emplace_back(
        InsertedRelayouts::Moved{id, reader.has_value() ? reader->node : graph_.value(id).node,
                                 RelayoutSeconds(blocks, to, graph.value(form).type, topology_)},
        form);
    NoteRefused(id, blocks, to, reader, form);
    return form;
  }

  std::span<const ValueId> ResultsOf(const Reader& reader) const {
    if (reader.node < 0) return {&reader.variable, 1};
    return graph_.nodes()[reader.node].results;
  }

  std::string ReadAs(int n, const Layout& need) const {
    return fmt::format("{} reads it as {}", Where(graph_.nodes()[n]), need.ToString());
  }

  std::string Where(const Node& node) const { return graph_.Describe(node.row->name, node.location); }

  // Why a value needs a relayout after its op.
  std::string Reason(const Node& node, const Choice& choice, ValueId id, const Layout& want) {
    std::string out = fmt::format("{} leaves {} {}", Where(node), graph_.value(id).type.ToString(),
                                  rewriter_.to().value(forms_[id][0]).layout->ToString());
    for (size_t l = 0; l < choice.rule->letters.size(); ++l) {
      const Letter& letter = choice.rule->letters[l];
      const AxisList axes = AxesOf(choice.cuts[l]).ToList();
      if (letter.reduced && !axes.empty())
        out += fmt::format(" (letter {} of {} is reduced over {})", letter.name, choice.rule->ToString(),
                           graph_.mesh().AxesToString(axes));
    }
    return out + fmt::format(" and it is wanted as {}", want.ToString());
  }

  const Graph& graph_;
  const Topology& topology_;
  const Replication& replication_;
  Rewriter rewriter_;
  std::vector<bool> kept_;  // per old value
  // Per old value the new ones that hold it, in the order in which they are made; the first is what its op
  // yields. Relayouts of a value are further forms of it.
  std::vector<absl::InlinedVector<ValueId, 2>> forms_;
  const Readers readers_;
  std::vector<ValueId> source_;  // per old value: the one it is a relayout of, else itself
  std::vector<std::optional<Choice>> choices_;
  std::optional<PartialFlow> flow_;
  std::vector<std::pair<RefusedGather, ValueId>> refused_;           // and the new value that is gathered
  std::vector<std::pair<InsertedRelayouts::Moved, ValueId>> moved_;  // and the new value that is made
};

}  // namespace

bool GathersBoundWeights(const InsertedRelayouts& inserted, const Replication& replication) {
  return std::any_of(inserted.refused.begin(), inserted.refused.end(),
                     [&](const RefusedGather& gather) { return replication.IsBoundWeight(gather.value); });
}

Graph InsertRelayouts(const Graph& graph, const Topology& topology) {
  return InsertRelayouts(graph, topology, Replication()).graph;
}

InsertedRelayouts InsertRelayouts(const Graph& graph, const Topology& topology,
                                  const Replication& replication) {
  return InsertRelayouts(graph, topology, replication, ChooseCuts(graph, topology, replication));
}

InsertedRelayouts InsertRelayouts(const Graph& graph, const Topology& topology,
                                  const Replication& replication,
                                  std::vector<std::optional<Choice>> choices) {
  return Inserter(graph, topology, replication, std::move(choices), /*flows=*/true).Run();
}

InsertedRelayouts InsertOwing(const Graph& graph, const Topology& topology, const Replication& replication,
                              std::vector<std::optional<Choice>> choices) {
  return Inserter(graph, topology, replication, std::move(choices), /*flows=*/false).Run();
}

}  // namespace meshwork
