#include "meshwork/spmd/planner/may_wait.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "meshwork/ir/exchange.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// A constant that was reshaped and broadcast, and the like, is found through so many ops.
constexpr int kMaxOps = 8;

// Bounds of the absolute values of all elements.
struct Magnitude {
  double least, most;
};

// The absolute value with which a node that moves elements fills the space around or between them; nothing if it fills
// none.
std::optional<double> FillOf(const Graph& graph, const Node& node) {
  if (node.row->on_windows != nullptr) return 0;  // windows may leave gaps
  if (node.row->exchange == nullptr) return std::nullopt;
  const std::vector<Type> operands = TypesOf(graph, node.operands), results = TypesOf(graph, node.results);
  const Exchange exchange = node.row->exchange({operands, results, node.attrs});
  const int32_t source = 0;
  if (!MovementOf(exchange, operands, {&source, 1}, results[0]).fill.has_value()) return std::nullopt;
  return std::abs(exchange.value);
}

std::optional<Magnitude> MagnitudeOf(const Graph& graph, ValueId id) {
  Magnitude filled{.least = std::numeric_limits<double>::infinity(), .most = 0};
  const auto with_filled = [&](double least, double most) {
    return Magnitude{std::min(filled.least, least), std::max(filled.most, most)};
  };
  for (int depth = 0; depth < kMaxOps && graph.value(id).node >= 0; ++depth) {
    const Node& node = graph.nodes()[graph.value(id).node];
    if (node.row->name == "constant") {
      const double value = std::abs(node.attrs.Get<double>("value"));
      return with_filled(value, value);
    }
    if (node.row->name == "iota") {
      const int64_t size = graph.value(id).type.shape[node.attrs.Get<int64_t>("dim")];
      return with_filled(0, static_cast<double>(std::max<int64_t>(size - 1, 0)));
    }
    const bool moves = node.operands.size() == 1 &&
                       (IsNote(node) || (node.row->rule != nullptr && OnlyMoves(RuleOf(graph, node))));
    if (!moves) return std::nullopt;
    if (const std::optional<double> fill = FillOf(graph, node); fill.has_value())
      filled = with_filled(*fill, *fill);
    id = node.operands[0];
  }
  return std::nullopt;
}

double PrecisionOf(DType dtype) {
  return 2 / (dtype == F64 ? std::numeric_limits<double>::epsilon()
                           : double{std::numeric_limits<float>::epsilon()});
}

}  // namespace

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

bool AsksForMagnitudes(const Graph& graph, const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
    return IsFloat(graph.value(id).type.dtype) && MagnitudeOf(graph, id).has_value();
  });
}

}  // namespace meshwork
