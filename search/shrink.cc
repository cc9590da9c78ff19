#include "meshwork/search/shrink.h"

#include <algorithm>
#include <utility>

namespace meshwork {
namespace {

// A variable that is eliminated on the way leaves a table of no more entries than its tables had, or of so many.
constexpr double kMaxMade = 1000;

}  // namespace

void Shrunk::Reduce(CostModel model) {
  Reduced reduced = meshwork::Reduce(std::move(model));
  is_infeasible_ |= reduced.IsInfeasible();
  model_ = std::move(reduced.model);
  steps_.push_back(std::move(reduced));
}

void Shrunk::Condense() {
  Condensed condensed = meshwork::Condense(std::move(model_), max_joint_, std::min(kMaxMade, max_joint_));
  entries_ += condensed.entries;
  CostModel left = std::move(condensed.model);
  steps_.push_back(std::move(condensed));
  Reduce(std::move(left));
}

void Shrunk::Replace(CostModel model) {
  Reduce(std::move(model));
  if (!is_infeasible_) Condense();
}

std::vector<int> Shrunk::Original(std::vector<int> assignment) const {
  for (size_t i = steps_.size(); i-- > 0;)
    assignment = std::visit([&](const auto& step) { return step.Original(assignment); }, steps_[i]);
  return assignment;
}

std::vector<int> Shrunk::Into(std::vector<int> original) const {
  for (const auto& step : steps_)
    original = std::visit([&](const auto& one) { return one.Into(original); }, step);
  return original;
}

}  // namespace meshwork
