#include "meshwork/runtime/cuda/fusion_order.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <variant>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/cuda/cuda_group.h"
#include "meshwork/runtime/cuda/touched.h"

namespace meshwork {
namespace {

// The most steps that are passed over in the search for steps that join a group.
constexpr size_t kMostPassed = 32;

// Orders the steps in `left`, which are in the order of the plan. Makes one group after the other: each begins with
// the first step that is left.
std::vector<size_t> FusedOrderOf(const StepPlan& plan, const std::vector<Touched>& touched,
                                 std::deque<size_t> left) {
  const auto conflicts = [&](size_t step, const std::vector<size_t>& with) {
    return std::any_of(with.begin(), with.end(),
                       [&](size_t other) { return touched[step].Conflicts(touched[other]); });
  };
  // The steps of `passed` that must be done before `step`.
  const auto needed_by = [&](size_t step, const std::vector<size_t>& passed) {
    std::vector<size_t> needed;
    for (size_t p = passed.size(); p-- > 0;)
      if (touched[passed[p]].Conflicts(touched[step]) || conflicts(passed[p], needed))
        needed.push_back(passed[p]);
    std::reverse(needed.begin(), needed.end());
    return needed;
  };
  const auto is_light = [&](size_t step) {
    const auto* const compute = std::get_if<ComputeStep>(&plan.steps[step]);
    return compute != nullptr && !plan.graph->nodes()[static_cast<size_t>(compute->node)].row->is_product;
  };
  std::vector<size_t> order;
  while (!left.empty()) {
    CudaGroupMaker group(plan);
    // A step that is passed over runs behind the group, or before it if a step that joins must run after it.
    std::vector<size_t> before, members = {left[0]}, behind;
    size_t seen = 1;
    if (group.Add(plan.steps[left[0]])) {
      for (; seen < left.size() && before.size() + behind.size() < kMostPassed; ++seen) {
        const size_t step = left[seen];
        if (std::holds_alternative<NestedStep>(plan.steps[step])) break;
        // `needed`: the steps of `behind` that must run before this one. Those that Spread may join with it, unless
        // one of `first`, which must run before the group, depends on them.
        const std::vector<size_t> needed = needed_by(step, behind);
        std::vector<size_t> first, spreads;
        for (size_t n = needed.size(); n-- > 0;)
          (Spreads(plan, plan.steps[needed[n]]) && !conflicts(needed[n], first) ? spreads : first)
              .push_back(needed[n]);
        std::reverse(spreads.begin(), spreads.end());
        const auto joins = [&] {
          const bool may_move = std::none_of(first.begin(), first.end(), [&](size_t other) {
            return conflicts(other, members) || !is_light(other);
          });
          return may_move && AddBehind(plan, spreads, step, group);
        };
        if (!joins()) {
          const bool has_spreads = !spreads.empty();
          spreads.clear();
          first = needed;
          if (!has_spreads || !joins()) {
            behind.push_back(step);
            continue;
          }
        }
        members.insert(members.end(), spreads.begin(), spreads.end());
        members.push_back(step);
        before.insert(before.end(), first.begin(), first.end());
        std::erase_if(behind,
                      [&](size_t other) { return std::binary_search(needed.begin(), needed.end(), other); });
      }
    }
    // Adds a reduction of columns as the last step of the group, if one can be.
    for (size_t b = 0; b < behind.size(); ++b) {
      const size_t step = behind[b];
      const std::vector<size_t> first =
          needed_by(step, {behind.begin(), behind.begin() + static_cast<ptrdiff_t>(b)});
      if (!first.empty() || !group.Close(plan.steps[step])) continue;
      members.push_back(step);
      behind.erase(behind.begin() + static_cast<ptrdiff_t>(b));
      break;
    }
    if (members.size() == 1) {
      order.push_back(left[0]);
      left.pop_front();
      continue;
    }
    // The steps that run before the group may form groups, too.
    left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(seen));
    left.insert(left.begin(), behind.begin(), behind.end());
    std::sort(before.begin(), before.end());
    for (const size_t step : FusedOrderOf(plan, touched, {before.begin(), before.end()}))
      order.push_back(step);
    order.insert(order.end(), members.begin(), members.end());
  }
  return order;
}

}  // namespace

void MoveToReaders(StepPlan& plan) {
  std::vector<std::pair<Touched, Step>> steps;
  for (Step& step : plan.steps) steps.emplace_back(TouchedBy(plan, step), std::move(step));
  for (auto at = steps.end(); at != steps.begin();) {
    --at;
    if (!Spreads(plan, at->second)) continue;
    const auto reader = std::find_if(at + 1, steps.end(),
                                     [&](const auto& other) { return other.first.Conflicts(at->first); });
    if (reader != steps.end()) std::rotate(at, at + 1, reader);
  }
  for (size_t i = 0; i < steps.size(); ++i) plan.steps[i] = std::move(steps[i].second);
}

std::vector<size_t> FusedOrder(const StepPlan& plan) {
  std::vector<Touched> touched;
  std::deque<size_t> all;
  for (const Step& step : plan.steps) {
    all.push_back(all.size());
    touched.push_back(TouchedBy(plan, step));
  }
  return FusedOrderOf(plan, touched, std::move(all));
}

}  // namespace meshwork
