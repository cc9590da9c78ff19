#include "meshwork/ir/collective_spec.h"

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The op of a kind, its attributes that name dims, and the relayout step that it carries out.
struct KindRow {
  CollectiveKind kind;
  std::string_view op;
  std::string_view dim = {}, to_dim = {};  // names of attributes
  std::optional<RelayoutKind> relayout = {};
};
constexpr KindRow kKinds[] = {
    {.kind = CollectiveKind::kAllReduce, .op = "all_reduce", .relayout = RelayoutKind::kAllReduce},
    {.kind = CollectiveKind::kReduceScatter,
     .op = "reduce_scatter",
     .dim = "dim",
     .relayout = RelayoutKind::kReduceScatter},
    {.kind = CollectiveKind::kAllGather,
     .op = "all_gather",
     .dim = "dim",
     .relayout = RelayoutKind::kAllGather},
    {.kind = CollectiveKind::kAllToAll,
     .op = "all_to_all",
     .dim = "from",
     .to_dim = "to",
     .relayout = RelayoutKind::kAllToAll},
    {.kind = CollectiveKind::kAllToAllV, .op = "all_to_all_v", .relayout = RelayoutKind::kAllToAllV},
    {.kind = CollectiveKind::kPermute,
     .op = "collective_permute",
     .relayout = RelayoutKind::kCollectivePermute},
    {.kind = CollectiveKind::kExchange, .op = "exchange"},
};

const KindRow& RowOf(CollectiveKind kind) {
  for (const KindRow& row : kKinds)
    if (row.kind == kind) return row;
  MESHWORK_CHECK(false, "collective {} has no row", static_cast<int>(kind));
  return kKinds[0];
}

}  // namespace

CollectiveSpec CollectiveOf(const OpRow& op, const Attrs& attrs) {
  CollectiveSpec collective{.kind = op.collective};
  if (op.collective == CollectiveKind::kNone) return collective;
  const KindRow& row = RowOf(op.collective);
  if (collective.has_axes()) collective.axes = attrs.Get<AxisList>("axes");
  if (!row.dim.empty()) collective.dim = attrs.Get<int64_t>(row.dim);
  if (!row.to_dim.empty()) collective.to_dim = attrs.Get<int64_t>(row.to_dim);
  if (collective.reduces()) collective.op = attrs.Get<ReduceOp>("op");
  return collective;
}

CollectiveSpec CollectiveOf(const Node& node) { return CollectiveOf(*node.row, node.attrs); }

std::string_view CollectiveOp(CollectiveKind kind) { return RowOf(kind).op; }

Attrs AttrsOf(const CollectiveSpec& collective) {
  MESHWORK_CHECK(collective.kind != CollectiveKind::kExchange, "an exchange has attributes of its own");
  const KindRow& row = RowOf(collective.kind);
  Attrs attrs;
  if (collective.has_axes()) attrs.Set("axes", collective.axes);
  if (!row.dim.empty()) attrs.Set(row.dim, collective.dim);
  if (!row.to_dim.empty()) attrs.Set(row.to_dim, collective.to_dim);
  if (collective.reduces()) attrs.Set("op", collective.op);
  return attrs;
}

std::optional<RelayoutKind> RelayoutKindOf(CollectiveKind kind) { return RowOf(kind).relayout; }

std::optional<CollectiveSpec> CollectiveOf(const RelayoutStep& step) {
  for (const KindRow& row : kKinds) {
    if (row.relayout != step.kind) continue;
    return CollectiveSpec{
        .kind = row.kind, .axes = step.axes, .dim = step.dim, .to_dim = step.to_dim, .op = step.op};
  }
  return std::nullopt;
}

}  // namespace meshwork
