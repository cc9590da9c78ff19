#include "meshwork/spmd/choose_layouts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "meshwork/ir/plan/step_cost.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/spmd/local/bucket.h"
#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/planner/cut.h"
#include "meshwork/spmd/planner/move_seconds.h"
#include "meshwork/spmd/planner/solve_layouts.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {
namespace {

// The local program without superfluous nodes, and with collectives joined that run together.
Graph MadeOf(const Graph& local) { return BucketReductions(DropDeadCode(ShareSubexpressions(local))); }

// Limits of programs that are searched once more. If a value could have more layouts, finding the plans between each
// two of them would take longer than all the rest.
constexpr size_t kFewAxes = 2;   // of the mesh, also those that cut nothing: plans may go by them
constexpr size_t kFewWays = 16;  // in which axes cut one dim each, or none, of a value
// Arithmetic that is not less by this factor is no reason to change layouts.
constexpr double kWorthIt = 0.9;
constexpr int kMostPrices = 6;  // of a collective, between none and what it takes by the assumed topology

bool HasFewLayouts(const Graph& pinned) {
  if (pinned.nodes().size() > kFewOps) return false;
  if (AxesThatCut(pinned.mesh()).size() > kFewAxes) return false;
  AxisSet named;
  int rank = 0;
  for (const ValueInfo& info : pinned.values()) {
    if (info.layout.has_value()) named = named.Union(info.layout->ShardedAxes());
    rank = std::max(rank, info.type.rank());
  }
  size_t ways = 1;
  for (size_t axes = named.ToList().size(); axes > 0; --axes) ways *= static_cast<size_t>(rank) + 1;
  return ways <= kFewWays;
}

// Whether some op runs on blocks of a dim that it sees through a window, so that it may exchange their ends.
bool HasExchanges(const InsertedRelayouts& now) {
  return std::any_of(now.choices.begin(), now.choices.end(), [](const std::optional<Choice>& choice) {
    if (!choice.has_value()) return false;
    const std::vector<WindowedDim>& windows = choice->rule->windows;
    return std::any_of(windows.begin(), windows.end(), [&](const WindowedDim& w) {
      return choice->operands[w.operand].NumShards(w.dim) > 1;
    });
  });
}

// Keeps the best of the programs that searches find (SendsLess).
class Chooser {
 public:
  Chooser(const Graph& pinned, const Graph& propagated, const InsertedRelayouts& now,
          const std::vector<OpenedLoop>& loops, const Topology& topology, const Replication& replication,
          int64_t memory_budget, bool is_short, SearchWork& work)
      : pinned_(pinned),
        propagated_(propagated),
        now_(now),
        loops_(loops),
        topology_(topology),
        replication_(replication),
        memory_budget_(memory_budget),
        gathers_bound_weights_(GathersBoundWeights(now, replication)),
        work_(work) {
    if (is_short) fold_ = Unfolded(pinned);
  }

  // Searches the layouts that flow from pins.
  void TryFlowing() {
    std::optional<SolvedLayouts> solved = Solve({.fold = fold_.has_value() ? &*fold_ : nullptr});
    if (!solved.has_value() || !solved->is_better) return;
    InsertedRelayouts inserted = Inserted(*solved);
    Keep(*std::move(solved), std::move(inserted));
  }

  // Searches all layouts for the program of the fewest bytes, for that of the fewest collectives, and for those
  // between: at the price of a collective at which two programs cost the same, a third one may cost less. Then searches
  // again as if all gathers ran as one, and as if all reductions did.
  void TryAllLayouts() {
    const std::optional<Tried> least = TryAt(/*price=*/0);
    if (!least.has_value() || !topology_.is_assumed()) return;
    if (!TryUpTo(*least)) return;
    for (const RelayoutKind free : {RelayoutKind::kAllGather, RelayoutKind::kAllReduce}) {
      free_ = free;
      TryUpTo(*least);
    }
  }

  std::optional<ChosenLayouts> best() && { return std::move(best_); }

 private:
  // The time of a program without the price of its collectives, and their number.
  struct Tried {
    double seconds;
    int64_t collectives;
    int64_t gathers, reductions;  // of these

    bool operator==(const Tried&) const = default;
  };

  std::optional<SolvedLayouts> Solve(SolveOptions options) {
    options.work = &work_;
    options.gathers_bound_weights = gathers_bound_weights_;
    return SolveLayouts(pinned_, propagated_, now_.choices, topology_, replication_, options);
  }
  InsertedRelayouts Inserted(SolvedLayouts& solved) const {
    return InsertOwing(solved.propagated, topology_, replication_, std::move(solved.choices));
  }

  void Keep(SolvedLayouts solved, InsertedRelayouts inserted) {
    if (SendsLess(inserted, best_.has_value() ? best_->inserted : now_, loops_, topology_, memory_budget_))
      best_ = {std::move(solved.propagated), std::move(inserted), std::move(solved.decisions)};
  }

  // Nothing if the search is too large.
  std::optional<Tried> TryAt(double price) {
    std::optional<SolvedLayouts> solved = Solve({.open = {.is_wide = true, .pool = &pool_},
                                                 .price = {price, free_},
                                                 .max_table_entries = kTableEntriesOfFewOps});
    if (!solved.has_value()) return std::nullopt;
    if (!solved->is_better) return TriedOf(now_);
    InsertedRelayouts inserted = Inserted(*solved);
    const Tried tried = TriedOf(inserted);
    Keep(*std::move(solved), std::move(inserted));
    return tried;
  }

  // Returns false if the program of the fewest bytes also has the fewest collectives, or if the search is too large.
  bool TryUpTo(const Tried& least) {
    const std::optional<Tried> fewest = TryAt(Topology::kAssumedLink.latency);
    if (!fewest.has_value() || CountOf(least) <= CountOf(*fewest)) return false;
    num_prices_ = 0;
    TryBetween(least, *fewest);
    return true;
  }

  void TryBetween(const Tried& less, const Tried& fewer) {
    const int64_t more = CountOf(less) - CountOf(fewer);
    if (more <= 0 || less.seconds >= fewer.seconds || num_prices_ >= kMostPrices) return;
    ++num_prices_;
    const std::optional<Tried> between = TryAt((fewer.seconds - less.seconds) / static_cast<double>(more));
    if (!between.has_value() || *between == less || *between == fewer) return;
    TryBetween(less, *between);
    TryBetween(*between, fewer);
  }

  Tried TriedOf(const InsertedRelayouts& inserted) const {
    const Graph local = LocalOf(inserted, loops_, topology_);
    const StepCost cost = CostOf(local, topology_);
    const auto count = [&](std::string_view name) {
      return std::count_if(local.nodes().begin(), local.nodes().end(),
                           [&](const Node& node) { return node.row->name == name; });
    };
    return {LinkSeconds(cost, topology_) + CountFlops(local) / topology_.flops(), cost.collectives,
            count("all_gather"), count("all_reduce")};
  }

  // The number of collectives that have a price.
  int64_t CountOf(const Tried& tried) const {
    if (!free_.has_value()) return tried.collectives;
    return tried.collectives - (free_ == RelayoutKind::kAllGather ? tried.gathers : tried.reductions);
  }

  const Graph& pinned_;
  const Graph& propagated_;
  const InsertedRelayouts& now_;
  const std::vector<OpenedLoop>& loops_;
  const Topology& topology_;
  const Replication& replication_;
  const int64_t memory_budget_;
  const bool gathers_bound_weights_;
  SearchWork& work_;
  std::optional<Fold> fold_;  // a short program is not folded again
  CutPool pool_;
  int num_prices_ = 0;
  std::optional<RelayoutKind> free_;  // these have no price now
  std::optional<ChosenLayouts> best_;
};

}  // namespace

Graph LocalOf(const InsertedRelayouts& inserted, const std::vector<OpenedLoop>& loops,
              const Topology& topology) {
  const LocalizeOptions options{.topology = topology};
  return loops.empty() ? Localize(inserted.graph, options)
                       : Localize(CloseLoops(inserted.graph, loops), options);
}

bool SendsLess(const InsertedRelayouts& a, const InsertedRelayouts& b, const std::vector<OpenedLoop>& loops,
               const Topology& topology, int64_t memory_budget) {
  // If gathers are refused in any case, the error is about `b`, the present program.
  if (!a.refused.empty()) return false;
  if (!b.refused.empty()) return true;
  const Graph local_a = LocalOf(a, loops, topology), local_b = LocalOf(b, loops, topology);
  const StepCost cost_a = CostOf(local_a, topology), cost_b = CostOf(local_b, topology);
  if (memory_budget > 0 && cost_a.peak_bytes > std::max(memory_budget, cost_b.peak_bytes)) return false;
  if (!topology.is_assumed()) return cost_a.seconds < cost_b.seconds * kLess;
  if (cost_a.bytes > cost_b.bytes) return false;
  const bool is_equal = cost_a.bytes == cost_b.bytes;
  if (!is_equal && (cost_a.collectives <= cost_b.collectives || 2 * cost_a.bytes <= cost_b.bytes))
    return true;
  const Graph made_a = MadeOf(local_a), made_b = MadeOf(local_b);
  const int64_t collectives_a = CostOf(made_a, topology).collectives,
                collectives_b = CostOf(made_b, topology).collectives;
  if (!is_equal || collectives_a > collectives_b) return collectives_a <= collectives_b;
  const double flops_a = CountFlops(made_a), flops_b = CountFlops(made_b);
  return flops_a < flops_b * kWorthIt || (flops_a <= flops_b && collectives_a < collectives_b);
}

std::optional<ChosenLayouts> ChooseLayouts(const Graph& pinned, const Graph& propagated,
                                           const InsertedRelayouts& now, const std::vector<OpenedLoop>& loops,
                                           const Topology& topology, const Replication& replication,
                                           int64_t memory_budget, bool is_short, SearchWork& work) {
  // A program that moves nothing cannot become cheaper.
  if (now.moved.empty() && now.refused.empty() && !HasExchanges(now)) return std::nullopt;
  Chooser chooser(pinned, propagated, now, loops, topology, replication, memory_budget, is_short, work);
  chooser.TryFlowing();
  if (!is_short && now.refused.empty() && HasFewLayouts(pinned)) chooser.TryAllLayouts();
  return std::move(chooser).best();
}

}  // namespace meshwork
