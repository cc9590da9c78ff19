// How much the searches of the planner may look at.
//
// A question – a compile, a plan, what other pins would cost – takes several searches. All of them draw on one
// SearchWork. Once that is spent, searches end with the best that they have found, and say so: the gap between what a
// plan costs and the least that any could cost is then larger.
//
// Work is counted and never timed, so that results are the same in every run and on every machine. The unit is an entry
// of a table of costs that the solver adds up: a billion take a second or two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace meshwork {

// A program of so many ops is small: more of its layouts are looked at, and some are compiled one by one.
inline constexpr size_t kFewOps = 32;

// Of one question.
struct WorkLimits {
  double all;             // entries, for all searches together, of a program of few ops
  double per_op;          // and for each op
  size_t table_entries;   // of the problem of one search; a larger problem is not looked at
  double solver_entries;  // that the solver may look at in one search
};

// A compile, in which choose_layouts searches a few times.
inline constexpr WorkLimits kWorkOfCompile = {
    .all = 1e9, .per_op = 1e6, .table_entries = 4'000'000, .solver_entries = 2e7};
// FindLayouts on one mesh: some ten searches at each price of memory.
inline constexpr WorkLimits kWorkOfPlan = {
    .all = 8e8, .per_op = 1e7, .table_entries = 60'000'000, .solver_entries = 8e10};
// A search of FindLayouts that, on more than two axes, only finds a start: along some of the axes, or along joined
// axes.
inline constexpr double kSolverEntriesOfStart = 5e8;
// A search of choose_layouts at a further price of a collective, in a program of few ops.
inline constexpr size_t kTableEntriesOfFewOps = 10'000;
// CostsOfChanges.
inline constexpr WorkLimits kWorkOfChanges = {
    .all = 1e9, .per_op = 1e6, .table_entries = 1'000'000, .solver_entries = 3e5};

// What these take: one entry of a problem's tables; a move of a value from one layout to another, for which a plan is
// made or that is known from an earlier search; and a step that the search for such a plan looks at.
inline constexpr double kEntriesPerTableEntry = 10, kEntriesPerMove = 5000, kEntriesPerKnownMove = 800,
                        kEntriesPerStep = 15;

class SearchWork {
 public:
  SearchWork(const WorkLimits& limits, size_t ops) : limits_(limits), left_(Most(ops)) {}

  // What a program of so many ops may take, less what is taken, if that is less than what is left.
  void LimitTo(size_t ops) { left_ = std::min(left_, Most(ops) - taken_); }

  void Take(double entries) {
    left_ -= entries;
    taken_ += entries;
  }
  double taken() const { return taken_; }
  bool is_spent() const { return left_ <= 0; }

  // What the next search may take: a part of what is left, so that those after it have some, too; never nothing, so
  // that each finds something.
  size_t table_entries() const {
    const double part = std::max(kLeastEntries, kPartOfSearch * left_) / kEntriesPerTableEntry;
    return std::min(limits_.table_entries, static_cast<size_t>(part));
  }
  double solver_entries() const {
    return std::min(limits_.solver_entries, std::max(kLeastEntries, kPartOfSearch * left_));
  }

 private:
  static constexpr double kPartOfSearch = 0.5, kLeastEntries = 5e5;

  double Most(size_t ops) const { return limits_.all + limits_.per_op * static_cast<double>(ops); }

  const WorkLimits limits_;
  double left_, taken_ = 0;
};

}  // namespace meshwork
