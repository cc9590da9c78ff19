#include "meshwork/ops/control/batch_parts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// The flags of these values; and whether any of them is true.
template <typename Ids>
std::vector<bool> Of(const std::vector<bool>& of_value, const Ids& ids) {
  std::vector<bool> found;
  for (ValueId id : ids) found.push_back(of_value[id]);
  return found;
}

template <typename Ids>
bool OfAny(const std::vector<bool>& of_value, const Ids& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return of_value[id]; });
}

// Per value of the body: whether `id` depends on it.
std::vector<bool> ReadFor(const Graph& body, ValueId id) {
  std::vector<bool> reads(body.values().size(), false);
  reads[id] = true;
  for (size_t n = body.nodes().size(); n-- > 0;) {
    const Node& node = body.nodes()[n];
    if (!OfAny(reads, node.results)) continue;
    for (ValueId operand : ComputedFrom(node)) reads[operand] = true;
  }
  return reads;
}

// Whether the node is linear, or affine, in these operands together.
bool IsLinearIn(const Graph& body, const Node& node, const std::vector<bool>& operands) {
  if (node.row->name == "cast") return IsFloat(body.value(node.results[0]).type.dtype);
  if (IsNote(node)) return true;
  if (node.row->rule == nullptr || node.results.size() != 1) return false;
  const Rule rule = RuleOf(body, node);
  const PartialSet sum = {{0, ReduceOp::kSum}};
  const auto passes = [&](auto&& owes) {
    std::vector<PartialSet> owed;
    for (size_t o = 0; o < operands.size(); ++o) owed.push_back(owes(o) ? sum : PartialSet());
    return rule.PassOn(owed, AxisSet()) == sum;
  };
  return passes([&](size_t o) { return operands[o]; }) || passes([](size_t) { return true; }) ||
         (!operands[0] && passes([](size_t o) { return o > 0; }));
}

}  // namespace

RandomPlace BatchParts::Place() {
  RandomPlace place = around_.random_place();
  const LocationScope around(around_, location_), inside(builder_.body(), location_);
  const Value part = builder_.Iteration(),
              parts = DimensionSize(xs_[0], 0, I64);  // other ones for a short batch
  const bool are_nested = place.parts.valid();
  place.part = are_nested ? Add(Mul(part, place.parts), place.part) : part;
  place.parts = are_nested ? Mul(parts, place.parts) : parts;
  return place;
}

Value BatchParts::MeanWeight(const Value& weight) {
  const Graph& body = builder_.body();
  const std::vector<bool> reads = ReadFor(body, weight.id());
  RegionParts parts;
  Node node{.row = &GetOp("scan"), .location = location_};
  const std::vector<RegionParts::Part>& own = builder_.parts().arguments;
  for (size_t a = 0; a < own.size(); ++a) {
    if (own[a].value == kNoValue || !reads[own[a].value]) continue;
    if (own[a].is_variable) {
      builder_.Fail(
          "how much a mean leaves out depends on random numbers, or on the part before; make it of the rows of the part "
          "alone.");
      return {};
    }
    parts.arguments.push_back(own[a]);
    node.operands.push_back(xs_[a - carries_.size()].id());
  }
  const auto slices = static_cast<int64_t>(parts.arguments.size());
  if (slices == 0) return weight;  // the same in all parts
  for (const auto& [outer, inner] : body.captured()) {
    if (!reads[inner]) continue;
    parts.arguments.push_back({.value = inner, .type = body.value(inner).type});
    node.operands.push_back(outer);
  }
  parts.outputs = {weight.id()};
  node.attrs = {{"length", xs_[0].shape()[0]},
                {"slices", slices},
                {"sums", int64_t{1}},
                {"reverse", false},
                {"recompute", false}};
  node.regions.push_back(std::make_shared<const Graph>(MakeRegion(body, parts)));
  const std::vector<Value> sum = AddNodeOf(around_, std::move(node));
  if (sum.empty()) return {};
  const LocationScope scope(around_, location_);
  const Value mean =
      around_.Capture(Graph::MeanWeight(Div(sum[0], DimensionSize(xs_[0], 0, weight.dtype())), location_));
  if (mean.valid()) mean_weights_.push_back(mean.id());
  return mean;
}

void BatchParts::CheckLoss(ValueId loss) {
  CheckMeans(loss);
  CheckDivisors(loss);
}

void BatchParts::CheckMeans(ValueId loss) {
  const Graph& body = builder_.body();
  const std::vector<bool> differs = DiffersByPart(), reads = ReadFor(body, loss);
  std::vector<bool> is_weight(body.values().size(), false), has_mean = is_weight;
  // MeanOver may compute other values from a mean weight before it divides by it; they are in the enclosing
  // graph, too.
  std::vector<bool> weighs(around_.values().size(), false);
  for (ValueId id : mean_weights_) weighs[id] = true;
  for (const Node& node : around_.nodes())
    for (ValueId id : node.results) weighs[id] = weighs[id] || OfAny(weighs, node.operands);
  for (const auto& [outer, inner] : body.captured()) is_weight[inner] = weighs[outer];
  for (size_t n = 0; n < body.nodes().size(); ++n) {
    const Node& node = body.nodes()[n];
    const bool is_of_mean = OfAny(has_mean, node.operands), is_of_weight = OfAny(is_weight, node.operands),
               differs_by_part = OfAny(differs, node.operands);
    if (is_of_mean && OfAny(reads, node.results) && !IsLinearIn(body, node, Of(has_mean, node.operands)))
      return builder_.Fail(
          "the loss of a part is the {} of a mean that leaves rows out, and the mean over the parts is not that of the "
          "batch; return a loss that is a sum of such means, each times a number.",
          body.Describe(static_cast<int>(n)));
    for (ValueId id : node.results) {
      has_mean[id] = is_of_mean || (is_of_weight && differs_by_part);  // divided by it
      is_weight[id] = is_of_weight && !has_mean[id];
    }
  }
}

std::vector<bool> BatchParts::DiffersByPart() const {
  const Graph& body = builder_.body();
  std::vector<bool> differs(body.values().size(), false);
  for (const RegionParts::Part& part : builder_.parts().arguments)
    if (part.value != kNoValue) differs[part.value] = true;
  for (const Node& node : body.nodes())
    for (ValueId id : node.results)
      differs[id] = node.row->name != "dimension_size" && OfAny(differs, node.operands);
  return differs;
}

void BatchParts::CheckDivisors(ValueId loss) {
  const Graph& body = builder_.body();
  const std::vector<bool> differs = DiffersByPart();
  std::vector<bool> reaches(body.values().size(), false);  // the loss, linearly
  reaches[loss] = true;
  for (size_t n = body.nodes().size(); n-- > 0;) {
    const Node& node = body.nodes()[n];
    if (!OfAny(reaches, node.results)) continue;
    const bool divides = node.row->name == "div" || node.row->name == "div_no_nan";
    if (divides && differs[node.operands[1]] && body.value(node.operands[1]).type.rank() == 0)
      return builder_.Fail(
          "the loss of a part is divided by a number of its own in {}, so that the mean over the parts is not that over "
          "the rows; divide by MeanOver, which knows the numbers of all parts, or leave rows out by the options of the loss.",
          body.Describe(static_cast<int>(n)));
    for (size_t o = 0; o < node.operands.size(); ++o) {
      std::vector<bool> operands;
      for (ValueId id : node.operands) operands.push_back(id == node.operands[o]);
      if (IsLinearIn(body, node, operands)) reaches[node.operands[o]] = true;
    }
  }
}

}  // namespace meshwork
