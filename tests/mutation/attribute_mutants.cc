#include "mutation/attribute_mutants.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::StatusOr<std::vector<Type>> InferredWith(const MutantWriter& writer, const Node& node,
                                               const Attrs& attrs) {
  const Graph& local = writer.local();
  if (!IsControl(node)) return node.row->infer({TypesOf(local, node.operands), {}, attrs});
  Node other = node;
  other.attrs = attrs;
  return InferControl(other, TypesOf(local, node.operands));
}

void AddIfItFits(const MutantWriter& writer, std::string_view kind, const Node& node, const Attrs& attrs) {
  if (attrs == node.attrs) return;
  if (node.row->name != "exchange") {
    const absl::StatusOr<std::vector<Type>> types = InferredWith(writer, node, attrs);
    if (!types.ok() || *types != TypesOf(writer.local(), node.results)) return;
  }
  writer.AddChanged(std::string(kind), node, attrs);
}

}  // namespace

void OtherAttributes(const MutantWriter& writer, const Node& node) {
  if (node.row->kind != OpKind::kCompute && !IsControl(node)) return;
  for (const auto& [name, value] : node.attrs.entries()) {
    // Computing a body again changes nothing in its results.
    if (name == "recompute") continue;
    std::optional<AttrValue> other;
    if (const auto* flag = std::get_if<bool>(&value)) other = !*flag;
    else if (const auto* whole = std::get_if<int64_t>(&value)) other = *whole + 1;
    else if (const auto* real = std::get_if<double>(&value)) other = *real + 1;
    else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value);
             ints != nullptr && ints->size() > 1)
      other = std::vector<int64_t>(ints->rbegin(), ints->rend());
    if (!other.has_value()) continue;
    Attrs attrs = node.attrs;
    attrs.Set(name, *other);
    const absl::StatusOr<std::vector<Type>> types = InferredWith(writer, node, attrs);
    if (types.ok() && *types == TypesOf(writer.local(), node.results))
      writer.AddChanged("attribute", node, attrs);
  }
}

void OtherMoves(const MutantWriter& writer, const Node& node) {
  const Graph& local = writer.local();
  using Ints = std::vector<int64_t>;
  const auto moved = [&](std::string_view name, size_t d, int64_t by, std::string_view other = "",
                         int64_t other_by = 0) {
    Attrs attrs = node.attrs;
    for (const auto& [list, amount] : {std::pair(name, by), std::pair(other, other_by)}) {
      if (list.empty()) continue;
      Ints entries = attrs.Get<Ints>(list);
      if (entries.size() <= d) return;
      entries[d] += amount;
      attrs.Set(list, std::move(entries));
    }
    AddIfItFits(writer, "move", node, attrs);
  };
  for (const int64_t by : {-1, 1}) {
    for (size_t d = 0; d < static_cast<size_t>(local.value(node.operands[0]).type.rank()); ++d) {
      if (node.row->name == "slice") moved("start", d, by, "limit", by);
      if (node.row->name == "slice") moved("stride", d, by);
      if (node.row->name == "pad") moved("low", d, by, "high", -by);
      if (node.row->name != "exchange") continue;
      moved("stride", d, by);
      moved("spacing", d, by);
    }
    if (node.row->name == "exchange")
      for (size_t i = 0; i < node.attrs.Get<Ints>("offset").size(); ++i) moved("offset", i, by);
  }
  if (node.row->name == "reverse") {
    Ints dims = node.attrs.Get<Ints>("dims");
    if (!dims.empty()) dims.pop_back();
    else if (local.value(node.results[0]).type.rank() > 0) dims.push_back(0);
    Attrs attrs = node.attrs;
    attrs.Set("dims", std::move(dims));
    AddIfItFits(writer, "move", node, attrs);
  }
}

void OtherFills(const MutantWriter& writer, const Node& node) {
  if (node.row->kind != OpKind::kCompute && node.row->name != "exchange") return;
  for (const auto& [name, value] : node.attrs.entries()) {
    const auto* real = std::get_if<double>(&value);
    if (real == nullptr) continue;
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (const double other : {-*real, std::isnan(*real) ? 0 : kNan, kInfinity}) {
      if (SameAttr(other, value) || (std::isnan(other) && std::isnan(*real))) continue;
      Attrs attrs = node.attrs;
      attrs.Set(name, other);
      AddIfItFits(writer, "fill", node, attrs);
    }
  }
}

}  // namespace meshwork
