#include "meshwork/verify/moves.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/movement.h"
#include "meshwork/ir/row.h"
#include "meshwork/verify/blocks.h"

namespace meshwork {
namespace {

// Elements that are filled in have the fill value on all devices, so a reduction that the result owes must
// reduce equal fill values to the fill value.
absl::Status FitsFill(const Claims& claims, const Exchange& exchange, const TermList& operands,
                      const Node& node) {
  const ValueInfo& to = claims.local().value(node.results[0]);
  const bool fills = MovementOf(exchange, GlobalTypesOf(claims.local(), node.operands), operands, to.global)
                         .fill.has_value();
  for (const Partial& partial : to.layout->partials())
    if (fills && !ReducesToItself(exchange.value, partial.op))
      return InvalidArgument("what it fills in, {}, is not the {} of as many.", exchange.value,
                             ReduceOpName(partial.op));
  return absl::OkStatus();
}

// Each dim of `to` is put together from dims of `from`, and takes over their padding if it is the same in
// all.
void JoinPadding(Claims& claims, ValueId from, ValueId to) {
  const Layout& b = claims.LayoutOf(to);
  int f = 0;
  for (int d = 0; d < b.rank(); ++d) {
    Padding have;
    for (size_t i = 0; i < b.Factors(d, claims.GlobalShape(to)[d]).size(); ++i, ++f)
      if (claims.LayoutOf(from).IsPadded(claims.GlobalShape(from), f))
        have.push_back(claims.padding(from)[f]);
    const bool is_one = std::all_of(have.begin(), have.end(), [&](int8_t op) { return op == have[0]; });
    if (!have.empty() && is_one) claims.padding(to)[d] = have[0];
  }
}

}  // namespace

absl::Status CheckExchanged(Claims& claims, const Node& node) {
  MESHWORK_RETURN_IF_ERROR(CheckExchange(claims.local(), node));
  const Exchange exchange = Exchange::Of(node.attrs, static_cast<int>(node.operands.size()));
  const ValueId to = node.results[0];
  TermList operands;
  for (ValueId id : node.operands) operands.push_back(claims.TermOf(id));
  if (std::any_of(exchange.dims.begin(), exchange.dims.end(),
                  [](const ExchangeDim& dim) { return dim.is_windows(); })) {
    for (size_t d = 0; d < exchange.dims.size(); ++d)
      if (!exchange.dims[d].is_windows() &&
          claims.GlobalShape(to)[d] != claims.GlobalShape(node.operands[0])[d])
        return InvalidArgument("dim {} of the result {} is not that of the operand.", d,
                               claims.local().value(to).global.ToString());
    claims.Set(to, operands[0], Lemma::kExchange);
    claims.windows(to) = exchange;
    return absl::OkStatus();
  }
  // The terms of values that are carried in f32 are bf16.
  const std::optional<TermId> moved =
      claims.terms().Moved(exchange, operands, GlobalTypesOf(claims.local(), node.operands),
                           {claims.TermDType(node.operands[0]), claims.GlobalShape(to)});
  if (!moved.has_value())
    return InvalidArgument("the global program moves no elements of {} so.",
                           claims.terms().Describe(operands[0]));
  MESHWORK_RETURN_IF_ERROR(FitsFill(claims, exchange, operands, node));
  claims.Set(to, *moved, Lemma::kExchange);
  return absl::OkStatus();
}

absl::Status CheckRounding(Claims& claims, const Node& node) {
  const ValueId from = node.operands[0], to = node.results[0];
  const bool widens = node.row->name == "widen";
  const ValueInfo &a = claims.local().value(from), &b = claims.local().value(to);
  if (a.type.dtype != (widens ? BF16 : F32) || b.global != Type{widens ? F32 : BF16, a.global.shape} ||
      *a.layout != *b.layout)
    return InvalidArgument("it does not take {} {} to {} {}.", a.global.ToString(), a.layout->ToString(),
                           b.global.ToString(), b.layout->ToString());
  if (!widens && !claims.IsWide(from))
    return InvalidArgument("the global program has {} in f32; to round that is another value.",
                           claims.Describe(from));
  if (!widens && b.layout->is_partial())
    return InvalidArgument("the operand is {}; what is owed must be reduced before it is rounded.",
                           a.layout->ToString());
  claims.Set(to, claims.TermOf(from), Lemma::kRounding);
  claims.windows(to) = claims.windows(from);
  return absl::OkStatus();
}

absl::Status CheckMove(Claims& claims, const Node& node, ValueId from, ValueId to) {
  const Layout& a = claims.LayoutOf(from);
  const Layout& b = claims.LayoutOf(to);
  if (claims.local().value(from).global != claims.local().value(to).global)
    return InvalidArgument("the operand is part of a {}, the result of a {}.",
                           claims.local().value(from).global.ToString(),
                           claims.local().value(to).global.ToString());
  const bool is_mask = node.row->name == "mask_padding";
  if (is_mask ? a != b : !Moves(node, a, b, claims.GlobalShape(from)))
    return InvalidArgument("it does not take {} {} to {}.", claims.local().value(from).global.ToString(),
                           a.ToString(), b.ToString());
  claims.Set(to, claims.TermOf(from),
             is_mask                                 ? Lemma::kMask
             : node.row->kind == OpKind::kCollective ? Lemma::kCollective
                                                     : Lemma::kSlice);
  if (is_mask) {
    claims.windows(to) = claims.windows(from);
    claims.padding(to) = claims.padding(from);
    for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims")) {
      if (d < 0 || d >= a.rank()) return InvalidArgument("dims names dim {} of {}.", d, a.ToString());
      claims.padding(to)[static_cast<size_t>(d)] = static_cast<int8_t>(node.attrs.Get<ReduceOp>("op"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReshape(Claims& claims, const Node& node) {
  const ValueId from = node.operands[0], to = node.results[0];
  const Layout& a = claims.LayoutOf(from);
  const Layout& b = claims.LayoutOf(to);
  const Shape& shape = claims.local().value(to).type.shape;
  const auto& asked = node.attrs.Get<std::vector<int64_t>>("shape");
  if (claims.local().value(from).type.dtype != claims.local().value(to).type.dtype ||
      !std::equal(asked.begin(), asked.end(), shape.begin(), shape.end()))
    return InvalidArgument("its result is {}, not the shape it is asked for.",
                           claims.local().value(to).type.ToString());
  const int64_t size = NumElements(claims.GlobalShape(from));
  const bool same = size == NumElements(claims.GlobalShape(to)) && a.partials() == b.partials() &&
                    HoldAlike(a, claims.GlobalShape(from), b, claims.GlobalShape(to));
  if (!same)
    return InvalidArgument("read as {} {}, a block of {} {} is not that block.",
                           claims.local().value(to).global.ToString(), b.ToString(),
                           claims.local().value(from).global.ToString(), a.ToString());
  claims.Set(to, claims.terms().Reshaped(claims.TermOf(from), claims.GlobalShape(to)), Lemma::kReshape);
  if (b.Flat() == a && b.FactorShape(claims.GlobalShape(to)) == claims.GlobalShape(from))
    JoinPadding(claims, from, to);
  return absl::OkStatus();
}

}  // namespace meshwork
