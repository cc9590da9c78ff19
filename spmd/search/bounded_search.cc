#include "meshwork/spmd/search/bounded_search.h"

#include <algorithm>
#include <utility>

#include "meshwork/spmd/search/elimination.h"
#include "meshwork/spmd/search/elimination_order.h"
#include "meshwork/spmd/search/local_search.h"
#include "meshwork/spmd/search/reduce.h"
#include "meshwork/spmd/search/reparametrization.h"

namespace meshwork {
namespace {

// What a round may take of all entries that there are: for message passing, for mini-buckets, and for each of two local
// searches. What is left after the rounds is for one more search.
constexpr double kForMessages = 0.05, kForBuckets = 0.1, kForSearch = 0.05;

constexpr int kMaxRounds = 3;

// Message passing ends where a few passes raise the bound by less than this part of the gap.
constexpr double kSlow = 0.01;
constexpr int kPassesBetween = 5;

class BoundedSearch {
 public:
  BoundedSearch(const CostModel& model, std::vector<int> start, double max_entries)
      : model_(model), max_entries_(max_entries), best_(std::move(start)) {
    if (best_.empty()) best_.assign(model.states.size(), 0);
    cost_ = SumOf(model, best_);
  }

  BoundedResult Run() {
    Reduced now = Reduce(model_);
    for (int round = 0; round < kMaxRounds && !IsDone(); ++round) {
      Reparametrization messages(now.model);
      PassMessages(messages);
      Search(FromBuckets(messages.Model(), now), now, kForSearch * max_entries_);
      Search(now.Into(best_), now, kForSearch * max_entries_);
      if (IsDone() || !DropDear(messages, now)) break;
      TryExact(now);
    }
    if (!IsDone()) Search(now.Into(best_), now, max_entries_ - entries_);
    return {std::move(best_), std::min(bound_, cost_)};
  }

 private:
  bool IsDone() const { return cost_ <= bound_ * kEqual; }

  // Where states were dropped because all that has them costs more than the best, no bound is above that.
  void RaiseBound(double bound) { bound_ = std::max(bound_, std::min(bound, cost_)); }

  void Consider(std::vector<int> assignment) {
    const double cost = SumOf(model_, assignment);
    if (cost >= cost_) return;
    cost_ = cost;
    best_ = std::move(assignment);
  }

  void PassMessages(Reparametrization& messages) {
    double left = max_entries_ * kForMessages;
    const auto pass = [&] {
      messages.Pass();
      left -= messages.EntriesPerPass();
      entries_ += messages.EntriesPerPass();
    };
    double bound = messages.Bound();
    bool is_worth_it = true;
    while (is_worth_it && left >= messages.EntriesPerPass()) {
      for (int i = 0; i < kPassesBetween && left >= messages.EntriesPerPass(); ++i) pass();
      const double before = std::exchange(bound, messages.Bound());
      is_worth_it = bound - before > kSlow * (cost_ < kNever ? std::max(0.0, cost_ - bound) : bound);
    }
    RaiseBound(bound);
  }

  // A bound, and the assignment that comes with it.
  std::vector<int> FromBuckets(CostModel model, const Reduced& now) {
    double joint = max_entries_ * kForBuckets, entries = 0;
    std::vector<int> order;
    for (;; joint /= 4) {
      order = OrderForGroups(model, joint);
      entries = EntriesToEliminate(model, order, joint);
      if (joint <= 1 || entries <= max_entries_ * kForBuckets) break;
    }
    entries_ += entries;
    const Eliminated eliminated = Eliminate(std::move(model), order, joint);
    RaiseBound(eliminated.bound);
    std::vector<int> assignment = eliminated.assignment;
    Consider(now.Original(assignment));
    return assignment;
  }

  void Search(std::vector<int> assignment, const Reduced& now, double max_entries) {
    Improve(now.model, bound_ * kEqual, max_entries, assignment, entries_);
    Consider(now.Original(assignment));
  }

  // Drops states of which all assignments cost more than the best one. False if there are none.
  bool DropDear(const Reparametrization& messages, Reduced& now) {
    if (cost_ == kNever) return false;
    CostModel left = now.model;
    const std::vector<std::vector<double>> bounds = messages.BoundPerState();
    bool drops = false;
    for (size_t v = 0; v < bounds.size(); ++v) {
      CostTable may_be{{static_cast<int>(v)}, {}};
      for (double bound : bounds[v]) may_be.costs.push_back(bound > cost_ * kEqual ? kNever : 0);
      if (std::find(may_be.costs.begin(), may_be.costs.end(), kNever) == may_be.costs.end()) continue;
      left.tables.push_back(std::move(may_be));
      drops = true;
    }
    if (drops) now = Then(std::move(now), Reduce(std::move(left)));
    return drops;
  }

  // Eliminates what is left, if that can be afforded by now.
  void TryExact(const Reduced& now) {
    if (!now.IsInfeasible()) {
      const EliminationOrder order = FindOrder(now.model, max_entries_ - entries_);
      if (order.entries > max_entries_ - entries_) return;
      Consider(now.Original(Eliminate(now.model, order.order).assignment));
    }
    bound_ = cost_;
  }

  const CostModel& model_;
  const double max_entries_;
  double entries_ = 0, bound_ = 0, cost_ = kNever;
  std::vector<int> best_;
};

}  // namespace

BoundedResult SearchBounded(const CostModel& model, const std::vector<int>& start, double max_entries) {
  return BoundedSearch(model, start, max_entries).Run();
}

}  // namespace meshwork
