// Parts of transformers in terms of rows: rotary positions, and the routing of tokens to experts.
#include <algorithm>
#include <cmath>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// The dtype of counts: exact for as many tokens as f32 has consecutive whole numbers.

// hot: [g,s,e] -> [g,s,e], how many of the tokens before each go to the expert.
Value CountBefore(const Value& hot) { return Cumsum(hot, 1, /*exclusive=*/true); }

// One choice of every token.
struct Choice {
  Value hot;   // [g,s,e], 1 at its expert
  Value gate;  // [g,s]
};

Choice Choose(const Value& gates, const Value& among) {
  const Value hot = OneHot(Argmax(among, 2), gates.shape()[2], WideDType(gates.dtype()));
  return {hot, ReduceSum(Mul(gates, InDType(hot, gates.dtype())), {2})};
}

// `before`: [g,s,e], the places of each expert that are taken -> [g,s,e,c]; all 0 for tokens that find no
// place.
Value PlacesOf(const Choice& choice, const Value& before, int64_t capacity, DType dtype) {
  const Value place = Cast(ReduceSum(Mul(before, choice.hot), {2}), I32);
  const Value at = OfGivenSizes(OneHot(place, capacity, dtype), "route_to_experts");
  return Mul(ExpandDims(InDType(choice.hot, dtype), {3}), ExpandDims(at, {2}));
}

Value Weighted(const Value& places, const Value& gate) { return Mul(places, ExpandDims(gate, {2, 3})); }

bool CheckRouting(const ResolvedOperands& at, const RoutingOptions& options) {
  const Type& gates = at.values[0].type();
  if (gates.rank() != 3 || !IsFloat(gates.dtype)) {
    RecordMistake(at, "route_to_experts", "the gates are {}; they must be floats [g,s,e].", gates.ToString());
  } else if (options.choices < 1 || options.choices > 2 || options.choices > gates.shape[2]) {
    RecordMistake(at, "route_to_experts", "choices={} of the {} experts of {}; it must be 1 or 2.",
                  options.choices, gates.shape[2], gates.ToString());
  } else if (options.capacity < 1) {
    RecordMistake(at, "route_to_experts", "capacity={} is below 1.", options.capacity);
  } else {
    return true;
  }
  return false;
}

}  // namespace

Value RotaryPositions(const Operand& x, double base) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& v = at.values[0];
  const int rank = v.rank();
  if (rank < 3 || !IsFloat(v.dtype()) || v.shape()[rank - 1] % 2 != 0) {
    RecordMistake(at, "rotary_positions", "x is {}; it must be floats [..,s,h,d] with an even d.",
                  v.type().ToString());
    return {};
  }
  if (const absl::Status status = CheckPositive("base", base); !status.ok()) {
    RecordMistake(at, "rotary_positions", "{}", MessageOf(status));
    return {};
  }
  const int64_t s = v.shape()[rank - 3], d = v.shape()[rank - 1];
  const DType dtype = WideDType(v.dtype());
  Graph& graph = *at.graph;
  // Without positions or dims there is nothing to turn, and no step between angles.
  const Value pair = Iota(graph, {dtype, {1, 1, d / 2}}, 2);
  const Value speed = Exp(Mul(pair, -2 * std::log(base) / static_cast<double>(std::max<int64_t>(d, 1))));
  const Value angle = Mul(Iota(graph, {dtype, {s, 1, 1}}, 0), speed);
  const Value cosine = InDType(Cos(angle), v.dtype()), sine = InDType(Sin(angle), v.dtype());
  const Value a = SliceDim(v, rank - 1, 0, d / 2), b = SliceDim(v, rank - 1, d / 2, d);
  return Concat({Sub(Mul(a, cosine), Mul(b, sine)), Add(Mul(b, cosine), Mul(a, sine))}, rank - 1);
}

Routing RouteToExperts(const Operand& gates, const RoutingOptions& options) {
  const ResolvedOperands at = Resolve({gates});
  if (at.graph == nullptr || !CheckRouting(at, options)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& shares = at.values[0];
  const DType dtype = shares.dtype();
  const auto experts = static_cast<double>(shares.shape()[2]);
  const Choice first = Choose(shares, shares);
  const Value places = PlacesOf(first, CountBefore(first.hot), options.capacity, dtype);
  const Value share_of_tokens = InDType(ReduceMean(first.hot, {1}), dtype);
  const Value together = ReduceSum(Mul(share_of_tokens, ReduceMean(shares, {1})), {1});
  Routing routing{.balance = Mul(ReduceMean(together, {0}), experts)};
  if (options.choices == 1) {
    routing.dispatch = places;
    routing.combine = Weighted(places, first.gate);
    return routing;
  }
  const Value others = Select(Cast(first.hot, BOOL), -1.0, shares);
  const Choice second = Choose(shares, others);
  const Value before = Add(CountBefore(second.hot), ReduceSum(first.hot, {1}, /*keep_dims=*/true));
  const Value more = PlacesOf(second, before, options.capacity, dtype);
  const Value both = Add(first.gate, second.gate);
  routing.dispatch = Add(places, more);
  routing.combine = Add(Weighted(places, Div(first.gate, both)), Weighted(more, Div(second.gate, both)));
  return routing;
}

}  // namespace meshwork
