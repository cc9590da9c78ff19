#include "meshwork/spmd/solver/bounded_search.h"

#include <algorithm>
#include <utility>

#include "meshwork/spmd/solver/elimination.h"
#include "meshwork/spmd/solver/elimination_order.h"
#include "meshwork/spmd/solver/local_search.h"
#include "meshwork/spmd/solver/reparametrization.h"
#include "meshwork/spmd/solver/shrink.h"

namespace meshwork {
namespace {

// Parts of max_entries that one round may take: for message passing, for mini-buckets, and for each of two local
// searches. kForBranches: the part of the entries left after the rounds that branches may take.
constexpr double kForMessages = 0.1, kForBuckets = 0.01, kForSearch = 0.01, kForBranches = 0.9;

// A variable is eliminated on the way if that takes at most so many combinations, and at most this part of max_entries.
constexpr double kMaxJoint = 1'000'000, kForJoint = 0.01;

// Parts of max_entries that an exact elimination may take in a round, when further rounds could make it cheaper, and in
// a branch.
constexpr double kForExact = 0.1, kForExactBranch = 0.002;

constexpr int kMaxRounds = 40;

// Branches are tried only if the bound is at least this part of the least known cost; otherwise there would be too
// many.
constexpr double kClose = 0.95;

// The whole problem and the branches within each other are at most so many parts, because each part holds its tables.
constexpr size_t kMostDeep = 24;

// Rounds end when one drops less than this part of the states.
constexpr double kFewDropped = 0.02;

// Message passing ends when a few passes raise the bound by less than this part of the gap.
constexpr double kSlow = 0.001;
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
    Shrunk all(model_, MaxJoint());
    entries_ += all.entries();
    path_ = {&all};
    double bound = Rounds(all, 0, kForExact * max_entries_);
    if (!IsDone(bound) && TryExact(all, max_entries_)) bound = cost_;
    if (!IsDone(bound) && bound >= kClose * cost_) {
      end_of_branches_ = entries_ + kForBranches * (max_entries_ - entries_);
      bound = BoundOfBranches(all, bound);
    }
    if (!IsDone(bound)) Search(BestInPart(), all, bound, max_entries_ - entries_);
    return {std::move(best_), std::min(bound, cost_), entries_};
  }

 private:
  double MaxJoint() const { return std::min(kMaxJoint, kForJoint * max_entries_); }

  bool IsDone(double bound) const { return cost_ <= bound * kEqual; }

  void Consider(std::vector<int> assignment) {
    for (size_t i = path_.size(); i-- > 0;) assignment = path_[i]->Original(std::move(assignment));
    const double cost = SumOf(model_, assignment);
    if (cost >= cost_) return;
    cost_ = cost;
    best_ = std::move(assignment);
  }

  // The best assignment, in the states of the last part of `path_`. A state that this part has dropped is replaced by
  // another one, so the sum may differ.
  std::vector<int> BestInPart() const {
    std::vector<int> best = best_;
    for (const Shrunk* part : path_) best = part->Into(std::move(best));
    return best;
  }

  // Makes `part`, the last of `path_`, smaller. Returns a lower bound of its sums, or `bound`, which is known, if that
  // is more. States were dropped because they only occur in sums above the best cost, so the returned bound never
  // exceeds the best cost. If nothing is left of the part, the best cost is the bound.
  double Rounds(Shrunk& part, double bound, double max_exact) {
    for (int round = 0; round < kMaxRounds; ++round) {
      if (TryExact(part, max_exact)) return cost_;
      Reparametrization messages(part.model(), order_);
      bound = std::max(bound, std::min(PassMessages(messages), cost_));
      if (path_.size() == 1) {
        std::vector<int> found = FromBuckets(messages.Model(), bound);
        Search(std::move(found), part, bound, kForSearch * max_entries_);
        Search(BestInPart(), part, bound, kForSearch * max_entries_);
      }
      if (IsDone(bound) || entries_ >= max_entries_ || !DropDear(messages, part)) break;
    }
    return part.IsInfeasible() ? cost_ : bound;
  }

  double PassMessages(Reparametrization& messages) {
    double left = std::min(max_entries_ * kForMessages, max_entries_ - entries_);
    const auto pass = [&] {
      messages.Pass();
      left -= messages.EntriesPerPass();
      entries_ += messages.EntriesPerPass();
    };
    double bound = messages.Bound();
    bool is_worth_it = true;
    while (is_worth_it && !IsDone(bound) && left >= messages.EntriesPerPass()) {
      for (int i = 0; i < kPassesBetween && left >= messages.EntriesPerPass(); ++i) pass();
      const double before = std::exchange(bound, messages.Bound());
      is_worth_it = bound - before > kSlow * (cost_ < kNever ? std::max(0.0, cost_ - bound) : bound);
    }
    return bound;
  }

  // An assignment by mini-buckets. Raises `bound` to their bound, if that is more.
  std::vector<int> FromBuckets(CostModel model, double& bound) {
    double joint = max_entries_ * kForBuckets, entries = 0;
    std::vector<int> order;
    for (;; joint /= 4) {
      order = OrderForGroups(model, joint);
      entries = EntriesToEliminate(model, order, joint);
      if (joint <= 1 || entries <= max_entries_ * kForBuckets) break;
    }
    entries_ += entries;
    Eliminated eliminated = Eliminate(std::move(model), order, joint);
    bound = std::max(bound, std::min(eliminated.bound, cost_));
    Consider(eliminated.assignment);
    return std::move(eliminated.assignment);
  }

  void Search(std::vector<int> assignment, const Shrunk& part, double bound, double max_entries) {
    Improve(part.model(), bound * kEqual, max_entries, assignment, entries_);
    Consider(std::move(assignment));
  }

  // Drops states whose assignments all cost more than the best one. Returns false if it drops few.
  bool DropDear(const Reparametrization& messages, Shrunk& part) {
    if (cost_ == kNever) return false;
    CostModel left = messages.Model();
    const std::vector<std::vector<double>> bounds = messages.BoundPerState();
    size_t states = 0, dropped = 0;
    for (size_t v = 0; v < bounds.size(); ++v) {
      std::vector<double> may_be;
      for (double bound : bounds[v]) may_be.push_back(bound > cost_ * kEqual ? kNever : 0);
      const auto never = std::count(may_be.begin(), may_be.end(), kNever);
      if (may_be.size() > 1) states += may_be.size();
      dropped += static_cast<size_t>(never);
      if (never > 0) left.tables.push_back({{static_cast<int>(v)}, std::move(may_be)});
    }
    const double before = part.entries();
    part.Replace(std::move(left));
    entries_ += part.entries() - before;
    return static_cast<double>(dropped) > kFewDropped * static_cast<double>(states);
  }

  // Eliminates all variables of `part`, if that takes at most max_entries entries.
  bool TryExact(const Shrunk& part, double max_entries) {
    if (part.IsInfeasible()) return true;
    const double most = std::min({max_entries, max_entries_ - entries_, kMostExact});
    const EliminationOrder order = FindOrder(part.model(), most);
    if (order.entries > most) return false;
    entries_ += order.entries;
    Consider(Eliminate(part.model(), order.order).assignment);
    return true;
  }

  // Fixes one variable of `part`, the last of `path_`, to each of its states in turn: messages then give better bounds
  // near it. It chooses the variable whose state in the best assignment has the largest bound, because there messages
  // and the best assignment disagree most. Returns the least bound of the branches, or `bound`, which is known, if that
  // is more.
  double BoundOfBranches(const Shrunk& part, double bound) {
    Reparametrization messages(part.model(), order_);
    PassMessages(messages);
    const std::vector<std::vector<double>> bounds = messages.BoundPerState();
    const std::vector<int> best = BestInPart();
    size_t variable = 0;
    for (size_t v = 0; v < best.size(); ++v)
      if (bounds[v].size() > 1 &&
          (bounds[variable].size() == 1 || bounds[v][best[v]] > bounds[variable][best[variable]]))
        variable = v;
    if (bounds[variable].size() == 1) return bound;
    std::vector<std::pair<double, size_t>> by_bound;
    for (size_t s = 0; s < bounds[variable].size(); ++s) by_bound.emplace_back(bounds[variable][s], s);
    std::sort(by_bound.begin(), by_bound.end());
    const CostModel model = messages.Model();
    double least = cost_;
    for (const auto& [of_state, state] : by_bound) {
      const double known = std::max(bound, of_state);
      if (IsDone(known)) break;
      entries_ += messages.EntriesPerPass();  // to copy and reduce the tables
      least =
          std::min(least, entries_ < end_of_branches_ ? BoundOfBranch(model, variable, state, known) : known);
    }
    return std::max(bound, std::min(least, cost_));
  }

  double BoundOfBranch(CostModel model, size_t variable, size_t state, double bound) {
    std::vector<double> may_be(static_cast<size_t>(model.states[variable]), kNever);
    may_be[state] = 0;
    model.tables.push_back({{static_cast<int>(variable)}, std::move(may_be)});
    Shrunk part(MaxJoint());
    part.Replace(std::move(model));
    entries_ += part.entries();
    path_.push_back(&part);
    bound = Rounds(part, bound, kForExactBranch * max_entries_);
    if (!IsDone(bound) && path_.size() < kMostDeep) bound = BoundOfBranches(part, bound);
    path_.pop_back();
    return bound;
  }

  const CostModel& model_;
  const double max_entries_;
  const std::vector<int>& order_;
  double entries_ = 0, end_of_branches_ = 0, cost_ = kNever;
  std::vector<int> best_;
  std::vector<const Shrunk*> path_;  // the whole problem and the branches in each other, the current one last
};

}  // namespace

BoundedResult SearchBounded(const CostModel& model, const std::vector<int>& start, double max_entries,
                            const std::vector<int>& order) {
  return BoundedSearch(model, start, max_entries, order).Run();
}

}  // namespace meshwork
