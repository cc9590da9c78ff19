#include "meshwork/search/bounded_search.h"

#include <algorithm>
#include <utility>

#include "meshwork/search/elimination.h"
#include "meshwork/search/elimination_order.h"
#include "meshwork/search/local_search.h"
#include "meshwork/search/reparametrization.h"
#include "meshwork/search/shrink.h"

namespace meshwork {
namespace {

// What a round may take of all entries that there are: for message passing, for mini-buckets, and for each of two local
// searches. What is left after the rounds is for one more search.
constexpr double kForMessages = 0.2, kForBuckets = 0.02, kForSearch = 0.02;

// What one variable may take that is eliminated on the way.
constexpr double kMaxJoint = 1'000'000, kForJoint = 0.01;

// What an exact elimination may take, as long as rounds make it cheaper.
constexpr double kForExact = 0.1;

constexpr int kMaxRounds = 40;

// Rounds are over where less than this part of the states is dropped.
constexpr double kFewDropped = 0.001;

// Message passing ends where a few passes raise the bound by less than this part of the gap.
constexpr double kSlow = 0.01;
constexpr int kPassesBetween = 5;

class BoundedSearch {
 public:
  BoundedSearch(const CostModel& model, std::vector<int> start, double max_entries,
                const std::vector<int>& order)
      : model_(model), max_entries_(max_entries), order_(order), best_(std::move(start)) {
    if (best_.empty()) best_.assign(model.states.size(), 0);
    cost_ = SumOf(model, best_);
  }

  BoundedResult Run() {
    Shrunk now(model_, std::min(kMaxJoint, kForJoint * max_entries_));
    entries_ += now.entries();
    for (int round = 0; round < kMaxRounds && !TryExact(now, kForExact * max_entries_); ++round) {
      Reparametrization messages(now.model(), order_);
      PassMessages(messages);
      Search(FromBuckets(messages.Model(), now), now, kForSearch * max_entries_);
      Search(now.Into(best_), now, kForSearch * max_entries_);
      if (IsDone() || entries_ >= max_entries_ || !DropDear(messages, now)) break;
    }
    if (!IsDone() && !TryExact(now, max_entries_)) Search(now.Into(best_), now, max_entries_ - entries_);
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
    double left = std::min(max_entries_ * kForMessages, max_entries_ - entries_);
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
  std::vector<int> FromBuckets(CostModel model, const Shrunk& now) {
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

  void Search(std::vector<int> assignment, const Shrunk& now, double max_entries) {
    Improve(now.model(), bound_ * kEqual, max_entries, assignment, entries_);
    Consider(now.Original(assignment));
  }

  // Drops states of which all assignments cost more than the best one. False if there are few.
  bool DropDear(const Reparametrization& messages, Shrunk& now) {
    if (cost_ == kNever) return false;
    CostModel left = messages.Model();
    const std::vector<std::vector<double>> bounds = messages.BoundPerState();
    size_t states = 0, dropped = 0;
    for (size_t v = 0; v < bounds.size(); ++v) {
      CostTable may_be{{static_cast<int>(v)}, {}};
      for (double bound : bounds[v]) may_be.costs.push_back(bound > cost_ * kEqual ? kNever : 0);
      const auto never = std::count(may_be.costs.begin(), may_be.costs.end(), kNever);
      states += may_be.costs.size();
      dropped += static_cast<size_t>(never);
      if (never > 0) left.tables.push_back(std::move(may_be));
    }
    if (static_cast<double>(dropped) <= kFewDropped * static_cast<double>(states)) return false;
    const double before = now.entries();
    now.Replace(std::move(left));
    entries_ += now.entries() - before;
    return true;
  }

  // Eliminates what is left, if that takes no more entries.
  bool TryExact(const Shrunk& now, double max_entries) {
    if (!now.IsInfeasible()) {
      const double most = std::min(max_entries, max_entries_ - entries_);
      const EliminationOrder order = FindOrder(now.model(), most);
      if (order.entries > most) return false;
      Consider(now.Original(Eliminate(now.model(), order.order).assignment));
    }
    bound_ = cost_;
    return true;
  }

  const CostModel& model_;
  const double max_entries_;
  const std::vector<int>& order_;
  double entries_ = 0, bound_ = 0, cost_ = kNever;
  std::vector<int> best_;
};

}  // namespace

BoundedResult SearchBounded(const CostModel& model, const std::vector<int>& start, double max_entries,
                            const std::vector<int>& order) {
  return BoundedSearch(model, start, max_entries, order).Run();
}

}  // namespace meshwork
