#include "meshwork/tools/report/cheapest_change.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace meshwork {
namespace {

// A line, its scope, and a type.
using MovedKey = std::pair<std::string, std::string>;
using MovingCosts = std::map<MovedKey, MovingCost>;

MovingCosts MovingCostsOf(const std::vector<ExplainedCollective>& collectives) {
  MovingCosts costs;
  for (const ExplainedCollective& collective : collectives) {
    double all = 0;
    for (const MovedValue& value : collective.values) all += static_cast<double>(value.bytes);
    for (const MovedValue& value : collective.values) {
      const double part =
          all == 0 ? 0 : static_cast<double>(value.bytes) / all * static_cast<double>(collective.times);
      MovingCost& cost = costs[{value.location, value.type}];
      cost.bytes += part * static_cast<double>(collective.bytes);
      cost.seconds += part * collective.seconds;
    }
  }
  return costs;
}

MovingCost CostOfAll(const MovingCosts& costs, const std::set<MovedKey>& keys) {
  MovingCost sum;
  for (const MovedKey& key : keys) {
    const auto found = costs.find(key);
    if (found == costs.end()) continue;
    sum.bytes += found->second.bytes;
    sum.seconds += found->second.seconds;
  }
  return sum;
}

}  // namespace

std::vector<std::optional<CheapestChange>> CheapestChanges(const Explanation& all) {
  const MovingCosts now = MovingCostsOf(all.collectives);
  std::vector<MovingCosts> then;
  for (const LayoutChange& change : all.search.changes) then.push_back(MovingCostsOf(change.collectives));
  // Sums of parts are rounded, so differences below 0.1 % do not count.
  const auto is_less = [&](const MovingCost& a, const MovingCost& b) {
    return all.has_times ? a.seconds < 0.999 * b.seconds : a.bytes < 0.999 * b.bytes;
  };
  std::vector<std::optional<CheapestChange>> changes;
  for (const ExplainedCollective& collective : all.collectives) {
    std::set<MovedKey> keys;
    for (const MovedValue& value : collective.values) keys.emplace(value.location, value.type);
    const MovingCost before = CostOfAll(now, keys);
    std::optional<CheapestChange> cheapest;
    for (size_t i = 0; i < then.size() && !cheapest.has_value(); ++i) {
      const MovingCost after = CostOfAll(then[i], keys);
      if (is_less(after, before)) cheapest = {.change = i, .before = before, .after = after};
    }
    changes.push_back(cheapest);
  }
  return changes;
}

}  // namespace meshwork
