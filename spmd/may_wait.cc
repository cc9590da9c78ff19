#include "spmd/may_wait.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "ops/row.h"

namespace meshwork {
namespace {

// A constant that was reshaped and broadcast, and the like, is found through so many ops.
constexpr int kMaxDepth = 8;

// Between which numbers, without their signs, all elements lie.
struct Magnitude {
  double least, most;
};

std::optional<Magnitude> MagnitudeOf(const Graph& graph, ValueId id) {
  for (int depth = 0; depth < kMaxDepth && graph.value(id).node >= 0; ++depth) {
    const Node& node = graph.nodes()[graph.value(id).node];
    if (node.row->name == "constant") {
      const double value = std::abs(node.attrs.Get<double>("value"));
      return Magnitude{value, value};
    }
    if (node.row->name == "iota") {
      const int64_t size = graph.value(id).type.shape[node.attrs.Get<int64_t>("dim")];
      return Magnitude{0, static_cast<double>(std::max<int64_t>(size - 1, 0))};
    }
    const bool moves =
        node.operands.size() == 1 && (node.row->kind == OpKind::kIdentity ||
                                      (node.row->rule != nullptr && OnlyMoves(RuleOf(graph, node))));
    if (!moves) return std::nullopt;
    id = node.operands[0];
  }
  return std::nullopt;
}

double PrecisionOf(DType dtype) {
  return 2 / (dtype == F64 ? std::numeric_limits<double>::epsilon()
                           : double{std::numeric_limits<float>::epsilon()});
}

}  // namespace

bool OnlyMoves(const Rule& rule) {
  return std::all_of(std::begin(kAllReduceOps), std::end(kAllReduceOps), [&](ReduceOp op) {
    return std::any_of(rule.passes.begin(), rule.passes.end(),
                       [&](const PartialPass& pass) { return pass.in == op && pass.out == op; });
  });
}

bool MayWait(const Graph& graph, const Node& node, const Rule& rule, std::span<const PartialSet> owed) {
  const auto owes_sum = [](const PartialSet& set) {
    return !set.empty() && set.front().op == ReduceOp::kSum;
  };
  if (std::none_of(owed.begin(), owed.end(), owes_sum)) return true;
  const bool divides = std::any_of(rule.passes.begin(), rule.passes.end(), [](const PartialPass& pass) {
    return pass.operands == Which::kFirst && pass.in == ReduceOp::kSum;
  });
  for (size_t i = 0; i < owed.size(); ++i) {
    const Type& type = graph.value(node.operands[i]).type;
    if (!owed[i].empty() || !IsFloat(type.dtype)) continue;
    const std::optional<Magnitude> magnitude = MagnitudeOf(graph, node.operands[i]);
    if (!magnitude.has_value()) continue;
    const double precision = PrecisionOf(type.dtype);
    if (divides ? magnitude->least * precision < 1 : magnitude->most > precision) return false;
  }
  return true;
}

}  // namespace meshwork
