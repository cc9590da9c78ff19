// Crew: the members of a team (ir/kernel.h) share the tasks of a kernel.
//
//   Crew crew(args.team, state);                        // `state`: one for all members
//   crew.ForEach(blocks, [&](int64_t b) { … });         // block b is the same member's each time
//   crew.Share(slices, [&](int64_t s) { … });           // whoever is free takes the next slice
//   crew.Finish();
//
// After ForEach, Share and First all members meet, and see what the others wrote. A task may throw: then no member
// begins another task, all members still meet as often as they would have, and Finish throws in the member whose task
// threw.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "meshwork/ir/kernel.h"

namespace meshwork {

// The state that all members of a crew share.
struct CrewState {
  std::atomic<bool> has_failed{false};
  std::atomic<int64_t> next[2] = {0, 0};  // the next task, of Shares in turn
};

class Crew {
 public:
  // `team` is null for a caller that is alone.
  Crew(Team* team, CrewState& state) : team_(team), state_(state) {}

  int size() const { return team_ == nullptr ? 1 : team_->size(); }
  int member() const { return team_ == nullptr ? 0 : team_->member(); }

  // Each member runs f by itself; nobody meets.
  template <typename F>
  void Try(F&& f) {
    if (state_.has_failed.load(std::memory_order_relaxed)) return;
    try {
      f();
    } catch (...) {
      error_ = std::current_exception();
      state_.has_failed.store(true, std::memory_order_relaxed);
    }
  }
  template <typename F>
  void First(F&& f) {
    if (member() == 0) Try(f);
    Meet();
  }
  template <typename F>
  void ForEach(int64_t tasks, F&& f) {
    Try([&] {
      for (int64_t t = member(); t < tasks; t += size()) f(t);
    });
    Meet();
  }
  template <typename F>
  void Share(int64_t tasks, F&& f) {
    std::atomic<int64_t>& next = state_.next[turn_];
    Try([&] {
      for (int64_t t = next++; t < tasks; t = next++) f(t);
    });
    Meet();
    // All members see this when the next Share, which counts by the other number, has ended.
    if (member() == 0) next.store(0, std::memory_order_relaxed);
    turn_ = 1 - turn_;
  }
  void Meet() {
    if (team_ != nullptr) team_->Meet();
  }
  void Finish() {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  Team* const team_;
  CrewState& state_;
  int turn_ = 0;
  std::exception_ptr error_;
};

// A loop over units, each of which a team runs together. If a unit fails in one member only, the other members go on to
// the next unit and wait for that member there. So that member goes on, too, and throws the first error after the loop.
//
//   TeamUnits units(args.team);
//   for (…) units.Run([&] { … });
//   units.Finish();
//
// A caller that is alone throws at once.
class TeamUnits {
 public:
  // `team` is null for a caller that is alone.
  explicit TeamUnits(const Team* team) : is_alone_(team == nullptr) {}

  template <typename F>
  void Run(F&& f) {
    if (is_alone_) return f();
    try {
      f();
    } catch (...) {
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }
  void Finish() {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const bool is_alone_;
  std::exception_ptr error_;
};

}  // namespace meshwork
