#include "meshwork/verify/control.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/check_manual.h"
#include "meshwork/ops/control/manual_body.h"

namespace meshwork {
namespace {

// Whether both layouts are alike. `has_more`: `outside` has one more dim, the first one, which must be whole.
bool LiesAlike(const Layout& outside, const Layout& inside, bool has_more) {
  const int more = has_more ? 1 : 0;
  if (outside.rank() != inside.rank() + more || outside.partials() != inside.partials()) return false;
  const Layout out = outside.WithoutTrivialAxes(), in = inside.WithoutTrivialAxes();
  if (has_more && out.Factors(0, 1) != FactorList{Factor{1, {}}}) return false;
  for (int d = 0; d < in.rank(); ++d)
    if (out.Factors(d + more, 1) != in.Factors(d, 1)) return false;
  return true;
}

// The arguments of a body lie as the operands do, without the dim that slices are taken along, which is
// whole.
absl::Status FitsArguments(const Claims& claims, const Node& node, const Graph& body, size_t first) {
  size_t carries = 0;
  for (const Argument& argument : body.arguments()) carries += argument.is_variable ? 1 : 0;
  const auto slices =
      node.row->control == ControlKind::kScan ? static_cast<size_t>(node.attrs.Get<int64_t>("slices")) : 0;
  for (size_t a = 0; a < body.arguments().size(); ++a) {
    const Layout& argument = *body.value(body.arguments()[a].value).layout;
    const Layout& operand = claims.LayoutOf(node.operands[a + first]);
    const bool is_slice = a >= carries && a < carries + slices;
    if (!LiesAlike(operand, argument, is_slice))
      return InvalidArgument("argument %{} of its body lies as {}, the operand as {}.",
                             body.argument_name(static_cast<int>(a)), argument.ToString(),
                             operand.ToString());
  }
  return absl::OkStatus();
}

absl::Status FitsResults(const Claims& claims, const Node& node, const Graph& body, size_t stacked) {
  size_t carries = 0;
  for (const Argument& argument : body.arguments()) carries += argument.is_variable ? 1 : 0;
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueId inside = r < carries ? body.arguments()[r].value : body.outputs()[r - carries].value;
    const bool is_stack = r >= carries && r - carries < stacked;
    const Layout& layout = *body.value(inside).layout;
    if (!LiesAlike(claims.LayoutOf(node.results[r]), layout, is_stack) ||
        claims.local().value(node.results[r]).type.dtype != body.value(inside).type.dtype)
      return InvalidArgument("result {} is {} {}; its body leaves {} {}.", r,
                             claims.local().value(node.results[r]).type.ToString(),
                             claims.LayoutOf(node.results[r]).ToString(), body.value(inside).type.ToString(),
                             layout.ToString());
  }
  return absl::OkStatus();
}

absl::Status FitsTypes(const Claims& claims, const Node& global, const Node& local) {
  const size_t first_sum = local.results.size() - static_cast<size_t>(ShapeOfControl(local).sums);
  for (size_t r = 0; r < local.results.size(); ++r) {
    const Type &have = claims.local().value(local.results[r]).global,
               &want = claims.global().value(global.results[r]).type;
    const bool may_be_wide = claims.LayoutOf(local.results[r]).is_partial();
    // Iterations add up even terms that are picked in each iteration.
    if (r >= first_sum && claims.IsRoundedTerm(local.results[r]))
      return InvalidArgument(
          "result {}, {} {}, is rounded before it is reduced; sums of bf16 are owed in f32.", r,
          have.ToString(), claims.LayoutOf(local.results[r]).ToString());
    if (have != want && !(may_be_wide && have == Claims::Carried(want, /*is_wide=*/true)))
      return InvalidArgument("result {} is part of a {}, not of a {}.", r, have.ToString(), want.ToString());
  }
  return absl::OkStatus();
}

// The body that the user wrote for each device must be unchanged, and get the blocks that it states.
absl::Status FitsManual(const Claims& claims, const Node& global, const Node& local) {
  const Graph& body = *local.regions[0];
  MESHWORK_RETURN_IF_ERROR(CheckManualIsGlobal(global));
  MESHWORK_RETURN_IF_ERROR(FitsArguments(claims, local, body, 0));
  MESHWORK_RETURN_IF_ERROR(FitsResults(claims, local, body, /*stacked=*/0));
  const std::string difference =
      FirstDifference(ManualBody(*global.regions[0], claims.options().narrow_sums), body);
  if (!difference.empty()) return InvalidArgument("its body is not what was written: {}", difference);
  return absl::OkStatus();
}

absl::Status FitsControl(const Claims& claims, const Node& global, const Node& local,
                         const VerifyBody& verify_body) {
  const bool is_scan = local.row->control == ControlKind::kScan;
  const bool is_if = local.row->control == ControlKind::kIf;
  if (is_if && claims.LayoutOf(local.operands[0]).is_partial())
    return InvalidArgument("its predicate is {}; what is owed must be reduced first.",
                           claims.LayoutOf(local.operands[0]).ToString());
  if (IsManual(local)) {
    MESHWORK_RETURN_IF_ERROR(FitsManual(claims, global, local));
    return FitsTypes(claims, global, local);
  }
  for (size_t r = 0; r < local.regions.size(); ++r) {
    const Graph& body = *local.regions[r];
    const size_t stacked =
        is_scan ? body.outputs().size() - static_cast<size_t>(local.attrs.Get<int64_t>("sums")) : 0;
    // Every device adds up iterations alike, so a sum over iterations of partial values owes the same sum.
    const auto may_owe = [&](size_t output, const PartialSet& owed) {
      if (output == kAnyCarry) return CarryMayOwe(local, owed);
      return owed.empty() || (is_scan && (output < stacked || owed[0].op == ReduceOp::kSum));
    };
    if (absl::Status status = verify_body(*global.regions[r], body, claims.options(), may_owe); !status.ok())
      return Annotate(status, "its body: ");
    MESHWORK_RETURN_IF_ERROR(FitsArguments(claims, local, body, is_if ? 1 : 0));
    MESHWORK_RETURN_IF_ERROR(FitsResults(claims, local, body, stacked));
  }
  return FitsTypes(claims, global, local);
}

}  // namespace

absl::Status CheckControl(Claims& claims, const Node& node, const VerifyBody& verify_body) {
  TermList operands;
  for (ValueId id : node.operands) {
    if (claims.IsWide(id))
      return InvalidArgument("{} is carried in f32; it must be rounded first.", claims.Describe(id));
    operands.push_back(claims.TermOf(id));
  }
  absl::Status status = InvalidArgument("the global program has no {} of these operands.", node.row->name);
  claims.terms().ForEachNode(*node.row, operands, node.attrs, [&](const Node& global) {
    if (status.ok() || global.attrs != node.attrs || global.results.size() != node.results.size()) return;
    status = FitsControl(claims, global, node, verify_body);
    if (!status.ok()) return;
    const TermList results = claims.terms().Of(global.results);
    for (size_t r = 0; r < results.size(); ++r) claims.Set(node.results[r], results[r], Lemma::kBody);
  });
  return status;
}

}  // namespace meshwork
