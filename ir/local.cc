#include "meshwork/ir/local.h"

#include <algorithm>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/regions.h"

namespace meshwork {
namespace {

// Removes `axes` from the end of dim d.
absl::StatusOr<Layout> DropMinor(const Layout& layout, int64_t d, const AxisList& axes) {
  if (d < 0 || d >= layout.rank()) return InvalidArgument("dim {} is not in {}.", d, layout.ToString());
  AxisList have = layout.dim(static_cast<int>(d));
  if (axes.size() > have.size() || !std::equal(axes.rbegin(), axes.rend(), have.rbegin()))
    return InvalidArgument("axes {} are not the minor axes of dim {} of {}.",
                           layout.mesh().AxesToString(axes), d, layout.ToString());
  have.resize(have.size() - axes.size());
  return layout.WithDim(static_cast<int>(d), have);
}

absl::StatusOr<Layout> AddMinor(const Layout& layout, int64_t d, const AxisList& axes) {
  if (d < 0 || d >= layout.rank()) return InvalidArgument("dim {} is not in {}.", d, layout.ToString());
  const AxisSet used = layout.ShardedAxes().Union(layout.PartialAxes());
  if (used.Intersects(AxisSet(axes)))
    return InvalidArgument("axes {} are already used in {}.", layout.mesh().AxesToString(axes),
                           layout.ToString());
  AxisList have = layout.dim(static_cast<int>(d));
  have.insert(have.end(), axes.begin(), axes.end());
  return layout.WithDim(static_cast<int>(d), have);
}

absl::StatusOr<Layout> DropPartials(const Layout& layout, const AxisList& axes, ReduceOp op) {
  PartialSet rest = layout.partials();
  for (int axis : axes) {
    const auto found = std::find(rest.begin(), rest.end(), Partial{axis, op});
    if (found == rest.end())
      return InvalidArgument("the operand {} owes no {} over axis \"{}\".", layout.ToString(),
                             ReduceOpName(op), layout.mesh().axis(axis).name);
    rest.erase(found);
  }
  return layout.WithPartials(rest);
}

// Every device has the value; only one device's copy is to count in the sum.
absl::StatusOr<Layout> OweSum(const Layout& layout, const AxisList& axes) {
  PartialSet owed = layout.partials();
  for (int axis : axes) owed.push_back({axis, ReduceOp::kSum});
  const AxisSet used = layout.ShardedAxes().Union(layout.PartialAxes());
  if (used.Intersects(AxisSet(axes)) || AxisSet(axes).ToList().size() != axes.size())
    return InvalidArgument("axes {} are not all new in {}; it owes a sum over axes that nothing else names.",
                           layout.mesh().AxesToString(axes), layout.ToString());
  if (layout.is_partial() && layout.partials()[0].op != ReduceOp::kSum)
    return InvalidArgument("the operand is {}, and {} and sum do not commute; reduce it first.",
                           layout.ToString(), ReduceOpName(layout.partials()[0].op));
  return layout.WithPartials(owed);
}

bool HasLayouts(const Graph& graph, std::span<const ValueId> values) {
  return std::all_of(values.begin(), values.end(),
                     [&](ValueId id) { return graph.value(id).layout.has_value(); });
}

absl::Status CheckResult(const ValueInfo& result, const Type& global, const Layout& layout) {
  const Type local{global.dtype, layout.LocalShape(global.shape)};
  if (result.global != global || *result.layout != layout || result.type != local)
    return InvalidArgument("the result must be {} of {} {}, not {} of {} {}.", local.ToString(),
                           global.ToString(), layout.ToString(), result.type.ToString(),
                           result.global.ToString(), result.layout->ToString());
  return absl::OkStatus();
}

// Axes come and go only where the blocks before and after nest.
absl::Status CheckNests(const Layout& from, const Layout& to, const Shape& global) {
  for (int d = 0; d < from.rank(); ++d) {
    const AxisList& a = from.dim(d);
    const AxisList& b = to.dim(d);
    const AxisList& longer = a.size() > b.size() ? a : b;
    if (!Nests(from.mesh(), longer, std::min(a.size(), b.size()), global[d]))
      return InvalidArgument(
          "the blocks of {} do not nest in those of {} along dim {} of {} elements: a part of an axis "
          "comes or goes alone only where the axis divides the dim.",
          (a.size() > b.size() ? from : to).ToString(), (a.size() > b.size() ? to : from).ToString(), d,
          global[d]);
  }
  return absl::OkStatus();
}

// Blocks move to other devices, whole or in parts; the layouts say where.
absl::Status CheckMoves(const ValueInfo& from, const ValueInfo& to) {
  if (from.global != to.global || from.layout->partials() != to.layout->partials() ||
      to.type != Type{to.global.dtype, to.layout->LocalShape(to.global.shape)})
    return InvalidArgument(
        "the operand is {} of {} {}, the result {} of {} {}; what only moves keeps its type and what it "
        "owes.",
        from.type.ToString(), from.global.ToString(), from.layout->ToString(), to.type.ToString(),
        to.global.ToString(), to.layout->ToString());
  if (from.layout->is_strided() || to.layout->is_strided())
    return InvalidArgument("{} -> {}: this op works on plain dims, so reshape to the factors first.",
                           from.layout->ToString(), to.layout->ToString());
  return absl::OkStatus();
}

// A permute moves whole blocks: every block of the result must be one of the operand.
absl::Status CheckPermute(const ValueInfo& from, const ValueInfo& to) {
  MESHWORK_RETURN_IF_ERROR(CheckMoves(from, to));
  for (int d = 0; d < from.layout->rank(); ++d) {
    if (from.layout->dim(d) == to.layout->dim(d)) continue;
    if (from.layout->IsPadded(from.global.shape, d) || to.layout->IsPadded(to.global.shape, d) ||
        from.layout->NumShards(d) != to.layout->NumShards(d))
      return InvalidArgument("blocks of {} are not blocks of {} along dim {}.", from.layout->ToString(),
                             to.layout->ToString(), d);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsLocal(const Graph& graph) {
  auto is_local_op = [](const Node& node) {
    return node.row->kind == OpKind::kCollective || node.row->kind == OpKind::kLocal;
  };
  auto is_block = [](const ValueInfo& info) { return info.type != info.global; };
  auto has_local_body = [](const Node& node) {
    return std::any_of(node.regions.begin(), node.regions.end(), [](const auto& r) { return IsLocal(*r); });
  };
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), is_local_op) ||
         std::any_of(graph.values().begin(), graph.values().end(), is_block) ||
         std::any_of(graph.nodes().begin(), graph.nodes().end(), has_local_body);
}

absl::Status CheckReduction(ReduceOp op, const Type& type) {
  const bool of_bools = op == ReduceOp::kAnd || op == ReduceOp::kOr;
  if (of_bools == (type.dtype == BOOL)) return absl::OkStatus();
  if (of_bools)
    return InvalidArgument("{} combines bools, not {}; sum, max, min and prod combine numbers.",
                           ReduceOpName(op), type.ToString());
  return InvalidArgument("{} combines numbers, not {}; and and or combine bools.", ReduceOpName(op),
                         type.ToString());
}

absl::Status CheckPartials(const Layout& layout, const Type& type) {
  for (const Partial& partial : layout.partials())
    if (absl::Status status = CheckReduction(partial.op, type); !status.ok())
      return Annotate(status, fmt::format("layout {}: ", layout.ToString()));
  return absl::OkStatus();
}

DType CarriedDType(DType dtype, const PartialSet& owed) {
  const bool rounds =
      !owed.empty() && (owed.front().op == ReduceOp::kSum || owed.front().op == ReduceOp::kProd);
  return rounds ? WideDType(dtype) : dtype;
}

absl::StatusOr<Layout> ResultLayout(const OpRow& row, const Attrs& attrs, const Layout& layout) {
  if (row.name == "keep_first") return OweSum(layout, attrs.Get<AxisList>("axes"));
  if (layout.is_strided())
    return InvalidArgument(
        "the operand is {}; this op works on plain dims, so reshape it to its factors first.",
        layout.ToString());
  if (row.name == "shard_slice")
    return AddMinor(layout, attrs.Get<int64_t>("dim"), attrs.Get<AxisList>("axes"));
  const CollectiveSpec collective = CollectiveOf(row, attrs);
  switch (collective.kind) {
    case CollectiveKind::kAllReduce: return DropPartials(layout, collective.axes, collective.op);
    case CollectiveKind::kReduceScatter: {
      MESHWORK_ASSIGN_OR_RETURN(Layout whole, DropPartials(layout, collective.axes, collective.op));
      return AddMinor(whole, collective.dim, collective.axes);
    }
    case CollectiveKind::kAllGather: return DropMinor(layout, collective.dim, collective.axes);
    case CollectiveKind::kAllToAll: {
      MESHWORK_ASSIGN_OR_RETURN(Layout gathered, DropMinor(layout, collective.dim, collective.axes));
      return AddMinor(gathered, collective.to_dim, collective.axes);
    }
    default: break;
  }
  MESHWORK_CHECK(row.name == "mask_padding", "{}", row.name);
  for (int64_t d : attrs.Get<std::vector<int64_t>>("dims"))
    if (d < 0 || d >= layout.rank()) return InvalidArgument("dim {} is not in {}.", d, layout.ToString());
  return layout;
}

namespace {

// The dtypes that a `widen` or a `narrow` takes and gives.
struct Rounding {
  DType from, to;
};
std::optional<Rounding> RoundingOf(const OpRow& row) {
  if (row.name == "widen") return Rounding{BF16, F32};
  if (row.name == "narrow") return Rounding{F32, BF16};
  return std::nullopt;
}

absl::Status CheckRounding(const Rounding& rounding, const ValueInfo& from, const ValueInfo& to) {
  if (from.type.dtype != rounding.from)
    return InvalidArgument("takes {}, got {}.", DTypeName(rounding.from), from.type.ToString());
  if (rounding.to == BF16 && from.layout->is_partial())
    return InvalidArgument("the operand is {}; what is owed must be reduced before it is rounded.",
                           from.layout->ToString());
  return CheckResult(to, {rounding.to, from.global.shape}, *from.layout);
}

}  // namespace

int AddLocalNode(Graph& graph, std::string_view op, std::span<const ValueId> operands, const Attrs& attrs,
                 const SourceLocation& location, SharedText cause) {
  const OpRow& row = GetOp(op);
  Node node{.row = &row,
            .attrs = Graph::CompleteAttrs(row, attrs).value(),
            .location = location,
            .cause = std::move(cause)};
  node.operands.assign(operands.begin(), operands.end());
  std::vector<ValueInfo> results;
  for (ValueId id : operands) {
    const ValueInfo& operand = graph.value(id);
    const std::optional<Rounding> rounding = RoundingOf(row);
    Layout layout =
        rounding.has_value() ? *operand.layout : ResultLayout(row, node.attrs, *operand.layout).value();
    Type global{rounding.has_value() ? rounding->to : operand.global.dtype, operand.global.shape};
    Type local{global.dtype, layout.LocalShape(global.shape)};
    results.push_back({.type = std::move(local),
                       .global = std::move(global),
                       .layout = std::move(layout),
                       .location = location});
  }
  return graph.AddNode(std::move(node), std::move(results));
}

absl::Status CheckLocalNode(const Graph& graph, const Node& node) {
  MESHWORK_CHECK(HasLayouts(graph, node.operands) && HasLayouts(graph, node.results));
  if (IsNote(node))
    return InvalidArgument("has no meaning in a local program; write the collectives instead.");
  if (node.row->kind == OpKind::kControl) return CheckLocalControl(graph, node);
  switch (node.row->collective) {
    case CollectiveKind::kPermute:
      return CheckPermute(graph.value(node.operands[0]), graph.value(node.results[0]));
    case CollectiveKind::kAllToAllV:
      return CheckMoves(graph.value(node.operands[0]), graph.value(node.results[0]));
    case CollectiveKind::kExchange: return CheckExchange(graph, node);
    default: break;
  }
  if (const std::optional<Rounding> rounding = RoundingOf(*node.row))
    return CheckRounding(*rounding, graph.value(node.operands[0]), graph.value(node.results[0]));
  if (node.row->kind == OpKind::kCompute) {
    if (node.row->reads_block) {
      for (std::span<const ValueId> values :
           {std::span<const ValueId>(node.operands), std::span<const ValueId>(node.results)})
        for (ValueId id : values)
          if (graph.value(id).layout->is_strided())
            return InvalidArgument(
                "works on plain dims, not on {}; make the value of the factors' shape and reshape it.",
                graph.value(id).layout->ToString());
    }
    const std::vector<Type> operands = TypesOf(graph, node.operands);
    MESHWORK_ASSIGN_OR_RETURN(std::vector<Type> results, node.row->infer({operands, {}, node.attrs}));
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] != graph.value(node.results[i]).type)
        return InvalidArgument("on blocks the result is {}, not {}.", results[i].ToString(),
                               graph.value(node.results[i]).type.ToString());
    }
    return absl::OkStatus();
  }
  const AttrValue* op = node.attrs.Find("op");
  if (node.row->name == "keep_first")
    MESHWORK_RETURN_IF_ERROR(CheckReduction(ReduceOp::kSum, graph.value(node.operands[0]).type));
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueInfo& operand = graph.value(node.operands[i]);
    if (op != nullptr) MESHWORK_RETURN_IF_ERROR(CheckReduction(std::get<ReduceOp>(*op), operand.type));
    MESHWORK_ASSIGN_OR_RETURN(Layout layout, ResultLayout(*node.row, node.attrs, *operand.layout));
    MESHWORK_RETURN_IF_ERROR(CheckNests(*operand.layout, layout, operand.global.shape));
    MESHWORK_RETURN_IF_ERROR(CheckResult(graph.value(node.results[i]), operand.global, layout));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
