// Parts of transformers in terms of rows: rotary positions, and the routing of tokens to experts.
#include <algorithm>
#include <cmath>
#include <numbers>

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

absl::Status CheckScaling(const RotaryScaling& scaling) {
  using Form = RotaryScaling::Form;
  if (scaling.form == Form::kNone) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(CheckPositive("factor", scaling.factor));
  if (scaling.form != Form::kLlama3) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(CheckPositive("low_turns", scaling.low_turns));
  if (!(scaling.high_turns > scaling.low_turns) || !std::isfinite(scaling.high_turns))
    return InvalidArgument("high_turns={} is not above low_turns={}.", scaling.high_turns, scaling.low_turns);
  if (scaling.original_positions < 1)
    return InvalidArgument("original_positions={} is below 1.", scaling.original_positions);
  return absl::OkStatus();
}

// values: x, and the positions if there are any.
absl::Status CheckRotary(const std::vector<Value>& values, const RotaryOptions& options) {
  const Type& x = values[0].type();
  const int rank = x.rank();
  if (rank < 3 || !IsFloat(x.dtype) || (options.dims == 0 && x.shape.back() % 2 != 0))
    return InvalidArgument("x is {}; it must be floats [..,s,h,d] with an even d.", x.ToString());
  if (options.dims < 0 || options.dims > x.shape.back() || options.dims % 2 != 0)
    return InvalidArgument("dims={} of {} turn; give an even number up to {}, or 0 for all.", options.dims,
                           x.ToString(), x.shape.back());
  MESHWORK_RETURN_IF_ERROR(CheckPositive("base", options.base));
  MESHWORK_RETURN_IF_ERROR(CheckScaling(options.scaling));
  if (values.size() < 2) return absl::OkStatus();
  const Type& positions = values[1].type();
  const Shape all(x.shape.begin(), x.shape.end() - 2);
  if (IsInteger(positions.dtype) && (positions.shape == all || positions.shape == Shape{all.back()}))
    return absl::OkStatus();
  return InvalidArgument("positions are {}; for x: {} they must be integers {} or {}.", positions.ToString(),
                         x.ToString(), ShapeToString({all.back()}), ShapeToString(all));
}

// The angle of each pair of `n` dims, per position.
std::vector<double> RotarySpeeds(int64_t n, const RotaryOptions& options) {
  using Form = RotaryScaling::Form;
  const RotaryScaling& scaling = options.scaling;
  const auto dims = static_cast<double>(n);
  // Two dims have one pair, which turns by 1 whatever the base.
  const double base = scaling.form == Form::kNtk && n > 2
                          ? options.base * std::pow(scaling.factor, dims / (dims - 2))
                          : options.base;
  std::vector<double> speeds;
  for (int64_t i = 0; i < n / 2; ++i) {
    double speed = std::pow(base, -2 * static_cast<double>(i) / dims);
    if (scaling.form == Form::kLinear) speed /= scaling.factor;
    if (scaling.form == Form::kLlama3) {
      const double turns = static_cast<double>(scaling.original_positions) * speed / (2 * std::numbers::pi);
      const double kept =
          std::clamp((turns - scaling.low_turns) / (scaling.high_turns - scaling.low_turns), 0.0, 1.0);
      speed = (1 - kept) * speed / scaling.factor + kept * speed;
    }
    speeds.push_back(speed);
  }
  return speeds;
}

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

Value RotaryPositions(const Operand& x, const RotaryOptions& options) {
  std::vector<Operand> operands = {x};
  if (options.positions.valid()) operands.emplace_back(options.positions);
  const ResolvedOperands at = Resolve(operands);
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value& v = at.values[0];
  if (const absl::Status status = CheckRotary(at.values, options); !status.ok()) {
    RecordMistake(at, "rotary_positions", "{}", MessageOf(status));
    return {};
  }
  const int rank = v.rank();
  const int64_t d = v.shape()[rank - 1], n = options.dims == 0 ? d : options.dims;
  const DType dtype = WideDType(v.dtype());
  Graph& graph = *at.graph;
  const Value speed = Constant(graph, RotarySpeeds(n, options), {dtype, {n / 2}});
  // [..,s,1,1]
  const Value place = operands.size() > 1 ? ExpandDims(Cast(at.values[1], dtype),
                                                       {at.values[1].rank(), at.values[1].rank() + 1})
                                          : Iota(graph, {dtype, {v.shape()[rank - 3], 1, 1}}, 0);
  const Value angle = Mul(place, speed);
  const Value cosine = InDType(Cos(angle), v.dtype()), sine = InDType(Sin(angle), v.dtype());
  const Value turning = n == d ? v : SliceDim(v, rank - 1, 0, n);
  const bool is_halves = options.pairs == RotaryPairs::kHalves;
  Value turned;
  if (is_halves) {
    const Value a = SliceDim(turning, rank - 1, 0, n / 2), b = SliceDim(turning, rank - 1, n / 2, n);
    turned = Concat({Sub(Mul(a, cosine), Mul(b, sine)), Add(Mul(b, cosine), Mul(a, sine))}, rank - 1);
  } else {
    Shape pairs = turning.shape();
    pairs.back() = n / 2;
    const auto each = [&](int64_t i) {
      Shape by_two = pairs;
      by_two.push_back(2);
      return Reshape(SliceDim(Reshape(turning, by_two), rank, i, i + 1), pairs);
    };
    const Value a = each(0), b = each(1);
    turned = Reshape(Stack({Sub(Mul(a, cosine), Mul(b, sine)), Add(Mul(b, cosine), Mul(a, sine))}, rank),
                     turning.shape());
  }
  return n == d ? turned : Concat({turned, SliceDim(v, rank - 1, n, d)}, rank - 1);
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
