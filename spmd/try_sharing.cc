#include "meshwork/spmd/try_sharing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "meshwork/ir/program.h"
#include "meshwork/spmd/move_seconds.h"
#include "meshwork/spmd/share_relayouts.h"

namespace meshwork {
namespace {

// What a program takes for communication, and in all.
struct Seconds {
  double sent = 0, total = 0;

  bool IsLessThan(const Seconds& other) const {
    return sent < other.sent * kLess && total < other.total * kLess;
  }
};

bool RunAlike(const std::optional<Choice>& a, const std::optional<Choice>& b) {
  return !a.has_value() ||
         (a->operands == b->operands && a->results == b->results && a->reduced == b->reduced);
}

// Per value: the one of `group` that it has its layout from, -1 if none; of values in it, as it says.
// `group`: per value. Linear in the program.
std::vector<int> DecidedBy(const PropagateResult& propagated, const std::vector<int>& group) {
  constexpr int kUnknown = -2;
  std::vector<std::vector<int>> known;  // per value and dim
  for (size_t id = 0; id < group.size(); ++id)
    known.emplace_back(propagated.origins[id].size(), group[id] >= 0 ? group[id] : kUnknown);
  std::vector<int> decided = group;
  std::vector<Origin> path;
  for (size_t id = 0; id < group.size(); ++id) {
    for (int d = 0; d < static_cast<int>(known[id].size()) && decided[id] < 0; ++d) {
      path.clear();
      int found = -1;
      for (Origin at{static_cast<ValueId>(id), d}; at.value != kNoValue;
           at = propagated.origins[at.value][at.dim]) {
        int& here = known[at.value][at.dim];
        if (here != kUnknown) {
          found = here;
          break;
        }
        here = -1;  // so that rings end
        path.push_back(at);
      }
      for (const Origin& at : path) known[at.value][at.dim] = found;
      decided[id] = found;
    }
  }
  return decided;
}

// Tries other layouts for results that are not pinned, and keeps the program that costs least.
class Trials {
 public:
  Trials(const Graph& pinned, const InsertedRelayouts& now, const Topology& topology,
         const Replication& replication)
      : pinned_(pinned),
        topology_(topology),
        replication_(replication),
        was_refused_(!now.refused.empty()),
        least_(SecondsOf(now)) {}

  std::optional<SharedProgram> Run(const Graph& propagated, const InsertedRelayouts& now) {
    Choices choices = ChooseCuts(propagated, topology_, replication_, /*share=*/true);
    if (!std::equal(choices.begin(), choices.end(), now.choices.begin(), RunAlike)) {
      PropagateResult same = Propagate(pinned_);
      InsertedRelayouts inserted = InsertRelayouts(same.graph, topology_, replication_, std::move(choices));
      KeepIfLess(std::move(same), std::move(inserted));
    }
    Graph laid = pinned_;
    if (!Round(propagated, now, laid)) return std::move(best_);
    // Where values now lie otherwise, others may be shared.
    const SharedProgram first = *best_;
    Round(first.propagated.graph, first.inserted, laid);
    return std::move(best_);
  }

 private:
  // Looks for what could be shared in a program. True if another costs less, `laid` then being what it is
  // made of.
  bool Round(const Graph& propagated, const InsertedRelayouts& now, Graph& laid) {
    const std::vector<Shareable> all =
        Shareables(propagated, topology_, replication_, now.choices, Locked(laid));
    if (all.empty()) return false;
    const Graph before = laid;
    std::vector<Shareable> better;
    bool kept = Try(before, all, propagated, now, better, laid);
    if (better.empty() || better.size() == all.size()) return kept;
    std::vector<Shareable> unused;
    return Try(before, better, propagated, now, unused, laid) || kept;
  }

  // Per value: whether it must lie as it does.
  static std::vector<bool> Locked(const Graph& graph) {
    std::vector<bool> locked;
    for (const ValueInfo& info : graph.values()) locked.push_back(info.layout.has_value());
    for (const VariableUpdate& update : graph.updates()) locked[update.value] = true;
    return locked;
  }

  Seconds SecondsOf(const InsertedRelayouts& inserted) const {
    Seconds seconds;
    for (const InsertedRelayouts::Moved& moved : inserted.moved) seconds.sent += moved.seconds;
    seconds.total = seconds.sent;
    for (size_t n = 0; n < inserted.choices.size(); ++n) {
      if (!inserted.choices[n].has_value()) continue;
      const auto shards =
          static_cast<double>(pinned_.mesh().GroupSize(inserted.choices[n]->sharded().ToList()));
      seconds.total += FlopsOf(pinned_, pinned_.nodes()[n]) / shards / topology_.flops();
    }
    return seconds;
  }

  bool KeepIfLess(PropagateResult propagated, InsertedRelayouts inserted) {
    if (!inserted.refused.empty()) return false;
    const Seconds seconds = SecondsOf(inserted);
    const bool first_allowed = was_refused_ && !best_.has_value();
    if (!first_allowed && !seconds.IsLessThan(least_)) return false;
    least_ = seconds;
    best_ = SharedProgram{std::move(propagated), std::move(inserted)};
    return true;
  }

  // Lays the results out so; true if that costs less. `gaining`: those in whose part of the program less is
  // sent than there is now.
  bool Try(const Graph& before, const std::vector<Shareable>& shareables, const Graph& propagated,
           const InsertedRelayouts& now, std::vector<Shareable>& gaining, Graph& laid) {
    Graph trial = before;
    std::vector<int> group(before.values().size(), -1);
    for (size_t g = 0; g < shareables.size(); ++g) {
      for (const auto& [id, layout] : shareables[g].results) {
        trial.mutable_value(id).layout = layout;
        group[id] = static_cast<int>(g);
      }
    }
    PropagateResult other = Propagate(trial);
    InsertedRelayouts inserted =
        InsertRelayouts(other.graph, topology_, replication_,
                        ChooseCuts(other.graph, topology_, replication_, /*share=*/true));
    std::vector<int> decided = DecidedBy(other, group);
    for (size_t id = 0; id < group.size(); ++id)
      if (other.graph.values()[id].layout == propagated.values()[id].layout) decided[id] = group[id];
    std::vector<double> more(shareables.size(), 0);
    Attribute(inserted, decided, 1, more);
    Attribute(now, decided, -1, more);
    for (size_t g = 0; g < shareables.size(); ++g)
      if (more[g] < 0) gaining.push_back(shareables[g]);
    if (!KeepIfLess(std::move(other), std::move(inserted))) return false;
    laid = std::move(trial);
    return true;
  }

  // Adds what is moved to the group of the op that it is moved for, or of the value.
  void Attribute(const InsertedRelayouts& inserted, const std::vector<int>& group, double sign,
                 std::vector<double>& seconds) const {
    for (const InsertedRelayouts::Moved& moved : inserted.moved) {
      int g = group[moved.value];
      if (moved.node >= 0) {
        const Node& node = pinned_.nodes()[moved.node];
        for (ValueId id : node.results) g = g < 0 ? group[id] : g;
        for (ValueId id : node.operands) g = g < 0 ? group[id] : g;
      }
      if (g >= 0) seconds[g] += sign * moved.seconds;
    }
  }

  const Graph& pinned_;
  const Topology& topology_;
  const Replication& replication_;
  const bool was_refused_;
  Seconds least_;
  std::optional<SharedProgram> best_;
};

}  // namespace

std::optional<SharedProgram> CheaperByShared(const Graph& pinned, const Graph& propagated,
                                             const InsertedRelayouts& now, const Topology& topology,
                                             const Replication& replication) {
  if (!MayShare(propagated, now.choices)) return std::nullopt;
  return Trials(pinned, now, topology, replication).Run(propagated, now);
}

}  // namespace meshwork
