#include "meshwork/ir/movement.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

namespace meshwork {
namespace {

// A run of one position has no steps.
void SetCount(ExchangeRun& run, int64_t count) {
  run.count = count;
  if (count == 1) run.to_step = run.from_step = 1;
}

bool IsEmpty(const MovedPart& part) {
  return std::any_of(part.runs.begin(), part.runs.end(),
                     [](const ExchangeRun& run) { return run.count == 0; });
}

int64_t CoveredBy(const std::vector<MovedPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const MovedPart& part) { return sum + part.num_elements(); });
}

void Append(const ExchangeRun& run, std::vector<int64_t>& to) {
  to.insert(to.end(), {run.count, run.to, run.to_step, run.from, run.from_step});
}

// The runs of all dims but d.
std::vector<int64_t> BesideDim(const MovedPart& part, size_t d) {
  std::vector<int64_t> beside;
  for (size_t e = 0; e < part.runs.size(); ++e)
    if (e != d) Append(part.runs[e], beside);
  return beside;
}

// Extends `run` by those first positions of `next` that continue it; returns how many.
int64_t Extend(ExchangeRun& run, const ExchangeRun& next) {
  ExchangeRun longer = run;
  if (run.count == 1) {
    longer.to_step = next.to - run.to;
    longer.from_step = next.from - run.from;
    if (longer.to_step <= 0 || longer.from_step == 0) return 0;
  } else if (next.to != run.to + run.count * run.to_step ||
             next.from != run.from + run.count * run.from_step) {
    return 0;
  }
  const bool goes_on = next.to_step == longer.to_step && next.from_step == longer.from_step;
  const int64_t taken = goes_on ? next.count : 1;
  longer.count += taken;
  run = longer;
  return taken;
}

// Joins parts that differ along dim d alone into runs that are as long as possible, from the first position
// on. The result does not depend on how the parts were cut before.
void JoinAlong(size_t d, std::vector<MovedPart>& parts) {
  std::vector<std::pair<std::vector<int64_t>, MovedPart>> sorted;
  for (MovedPart& part : parts) sorted.emplace_back(BesideDim(part, d), std::move(part));
  std::stable_sort(sorted.begin(), sorted.end(), [d](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.runs[d].to < b.second.runs[d].to;
  });
  parts.clear();
  const std::vector<int64_t>* group = nullptr;
  for (auto& [beside, part] : sorted) {
    const bool may_join = group != nullptr && *group == beside && parts.back().source == part.source;
    group = &beside;
    ExchangeRun& run = part.runs[d];
    if (may_join) {
      const int64_t taken = Extend(parts.back().runs[d], run);
      if (taken == run.count) continue;
      run.to += taken * run.to_step;
      run.from += taken * run.from_step;
      SetCount(run, run.count - taken);
    }
    parts.push_back(std::move(part));
  }
}

bool IsBefore(const MovedPart& a, const MovedPart& b) {
  for (size_t d = 0; d < a.runs.size(); ++d)
    if (a.runs[d].to != b.runs[d].to) return a.runs[d].to < b.runs[d].to;
  return false;  // they are disjoint
}

Movement Normalized(Movement movement) {
  std::vector<MovedPart>& parts = movement.parts;
  parts.erase(std::remove_if(parts.begin(), parts.end(), IsEmpty), parts.end());
  for (MovedPart& part : parts)
    for (ExchangeRun& run : part.runs) SetCount(run, run.count);
  if (parts.size() > 1)
    for (size_t d = 0; d < movement.type.shape.size(); ++d) JoinAlong(d, parts);
  std::sort(parts.begin(), parts.end(), IsBefore);
  if (CoveredBy(parts) == movement.type.num_elements()) movement.fill.reset();
  return movement;
}

// Positions of `outer`, whose sources are the positions of `inner`.
ExchangeRun Through(const ExchangeRun& outer, const ExchangeRun& inner) {
  // Maps numbers of outer's positions to numbers of the positions of `inner` that they read.
  const ExchangeDim counts{
      .stride = outer.from_step, .spacing = inner.to_step, .offsets = {outer.from - inner.to}};
  ExchangeRun run = RunOf(counts, 0, {0, outer.count}, {0, inner.count});
  run.to = outer.to + run.to * outer.to_step;
  run.from = inner.from + run.from * inner.from_step;
  if (run.count > 1) {  // else they may overflow, and mean nothing
    run.to_step *= outer.to_step;
    run.from_step *= inner.from_step;
  }
  return run;
}

std::vector<MovedPart> Through(const MovedPart& outer, const Movement& inner) {
  std::vector<MovedPart> parts;
  for (const MovedPart& part : inner.parts) {
    MovedPart through{.source = part.source};
    for (size_t d = 0; d < outer.runs.size(); ++d)
      through.runs.push_back(Through(outer.runs[d], part.runs[d]));
    if (!IsEmpty(through)) parts.push_back(std::move(through));
  }
  return parts;
}

}  // namespace

int64_t MovedPart::num_elements() const {
  return std::accumulate(runs.begin(), runs.end(), int64_t{1},
                         [](int64_t product, const ExchangeRun& run) { return product * run.count; });
}

bool Movement::IsIdentity(const Type& source) const {
  if (type != source || fill.has_value() || parts.size() != 1) return false;
  return std::all_of(parts[0].runs.begin(), parts[0].runs.end(), [](const ExchangeRun& run) {
    return run.to == run.from && run.to_step == run.from_step;
  });
}

std::vector<int64_t> Movement::Key() const {
  std::vector<int64_t> key = {static_cast<int64_t>(type.dtype), type.rank(), fill.has_value() ? 1 : 0,
                              static_cast<int64_t>(fill.value_or(0))};
  key.insert(key.end(), type.shape.begin(), type.shape.end());
  for (const MovedPart& part : parts) {
    key.push_back(part.source);
    for (const ExchangeRun& run : part.runs) Append(run, key);
  }
  return key;
}

Movement MovementOf(const Exchange& exchange, std::span<const Type> operands,
                    std::span<const int32_t> sources, const Type& result) {
  Movement movement{.type = result, .fill = std::bit_cast<uint64_t>(exchange.value)};
  for (size_t o = 0; o < operands.size(); ++o) {
    MovedPart part{.source = sources[o]};
    for (size_t d = 0; d < exchange.dims.size(); ++d)
      part.runs.push_back(
          RunOf(exchange.dims[d], static_cast<int>(o), {0, result.shape[d]}, {0, operands[o].shape[d]}));
    movement.parts.push_back(std::move(part));
  }
  return Normalized(std::move(movement));
}

Movement Composed(const Movement& outer, const std::function<const Movement*(int32_t source)>& inner) {
  Movement composed{.type = outer.type, .fill = outer.fill};
  bool is_moved = false;
  for (const MovedPart& part : outer.parts) {
    const Movement* movement = inner(part.source);
    if (movement == nullptr) {
      composed.parts.push_back(part);
    } else {
      is_moved = true;
      std::vector<MovedPart> parts = Through(part, *movement);
      if (CoveredBy(parts) < part.num_elements()) {
        if (composed.fill.has_value() && composed.fill != movement->fill) return outer;
        composed.fill = movement->fill;
      }
      std::move(parts.begin(), parts.end(), std::back_inserter(composed.parts));
    }
  }
  if (!is_moved || composed.parts.size() > Movement::kMostParts) return outer;
  return Normalized(std::move(composed));
}

bool OnlyMoves(const Rule& rule) {
  return std::all_of(std::begin(kAllReduceOps), std::end(kAllReduceOps), [&](ReduceOp op) {
    return std::any_of(rule.passes.begin(), rule.passes.end(),
                       [&](const PartialPass& pass) { return pass.in == op && pass.out == op; });
  });
}

}  // namespace meshwork
