// Moves of elements, permutations, segments, and elementwise functions of a few rows.
#include <algorithm>
#include <numbers>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// Repeats every element of dim d repeats[d] times: next to the element (`one_by_one`), or behind all others.
Value Repeated(const Value& x, const Ints& repeats, bool one_by_one) {
  Shape spread, shape;
  Ints dims;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t size = x.shape()[d], count = repeats[d];
    const bool is_before = !one_by_one && count != 1;
    if (is_before) spread.push_back(count);
    dims.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(size);
    if (!is_before && count != 1) spread.push_back(count);
    shape.push_back(size * count);
  }
  if (spread.size() == shape.size()) return x;
  return Reshape(BroadcastTo(x, spread, dims), shape);
}

// Whether x can be repeated this often; records a mistake if not.
bool CheckRepeats(const ResolvedOperands& at, std::string_view op, const Ints& repeats) {
  const Type& x = at.values[0].type();
  if (static_cast<int64_t>(repeats.size()) != x.rank()) {
    RecordMistake(at, op, "repeats=[{}] has {} entries for {}; give one per dim.", fmt::join(repeats, ","),
                  repeats.size(), x.ToString());
    return false;
  }
  for (int64_t count : repeats) {
    if (count >= 0 && count <= int64_t{1} << 40) continue;
    RecordMistake(at, op, "repeats=[{}]; they go from 0 to 2^40.", fmt::join(repeats, ","));
    return false;
  }
  return true;
}

}  // namespace

// ---- Repetitions and updates.

Value Tile(const Operand& x, const Ints& repeats) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr || !CheckRepeats(at, "tile", repeats)) return {};
  const LocationScope scope(*at.graph, at.location);
  return Repeated(at.values[0], repeats, /*one_by_one=*/false);
}

Value Repeat(const Operand& x, int64_t count, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::optional<int64_t> d = CountDim(at, "repeat", dim);
  if (!d.has_value()) return {};
  Ints repeats(at.values[0].shape().size(), 1);
  repeats[static_cast<size_t>(*d)] = count;
  if (!CheckRepeats(at, "repeat", repeats)) return {};
  const LocationScope scope(*at.graph, at.location);
  return Repeated(at.values[0], repeats, /*one_by_one=*/true);
}

Value ReverseSequence(const Operand& x, const Operand& lengths, int64_t seq_dim, int64_t batch_dim) {
  constexpr const char* kName = "reverse_sequence";
  const ResolvedOperands at = Resolve({x, lengths});
  if (at.graph == nullptr) return {};
  const Type type = at.values[0].type(), of_lengths = at.values[1].type();
  const std::optional<Ints> dims = CountDims(at, kName, {batch_dim, seq_dim});
  if (!dims.has_value()) return {};
  const int64_t rows = type.shape[(*dims)[0]], steps = type.shape[(*dims)[1]];
  if (!IsInteger(of_lengths.dtype) || of_lengths.shape != Shape{rows}) {
    RecordMistake(at, kName, "the lengths are {} for {} with batch_dim={}; they must be whole numbers [{}].",
                  of_lengths.ToString(), type.ToString(), (*dims)[0], rows);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  // The order [b,t,..]: the other dims follow in their order.
  Ints order = *dims, back(order.size() + type.shape.size() - 2);
  for (int64_t d = 0; d < type.rank(); ++d)
    if (d != order[0] && d != order[1]) order.push_back(d);
  for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  const bool is_in_order = std::is_sorted(order.begin(), order.end());
  const Value by_row = is_in_order ? at.values[0] : Transpose(at.values[0], order);
  const Value place = OfGivenSizes(Iota(*at.graph, {I64, {steps}}, 0), kName);
  const Value length = ExpandDims(Minimum(InDType(at.values[1], I64), static_cast<double>(steps)), 1);
  const Value from = Select(Less(place, length), length - 1.0 - place, place);
  const Value reversed = GatherNd(by_row, ExpandDims(from, -1), /*batch_dims=*/1);
  return is_in_order ? reversed : Transpose(reversed, back);
}

Value UpdateSlice(const Operand& x, const Operand& update, const Ints& start, const Ints& stride) {
  const ResolvedOperands at = Resolve({x, update});
  if (at.graph == nullptr) return {};
  const Type to = at.values[0].type(), from = at.values[1].type();
  const size_t rank = to.shape.size();
  bool fits = to.dtype == from.dtype && from.shape.size() == rank && start.size() == rank &&
              (stride.empty() || stride.size() == rank);
  Ints high, interior;
  for (size_t d = 0; fits && d < rank; ++d) {
    const int64_t step = stride.empty() ? 1 : stride[d], count = from.shape[d];
    fits = start[d] >= 0 && start[d] <= to.shape[d] && step >= 1 && step <= int64_t{1} << 40 &&
           (count == 0 || (count - 1) * step <= to.shape[d] - start[d] - 1);
    interior.push_back(step - 1);
    high.push_back(to.shape[d] - start[d] - (count == 0 ? 0 : (count - 1) * step + 1));
  }
  if (!fits) {
    RecordMistake(
        at, "update_slice",
        "x is {}, the update {}, start=[{}] stride=[{}]; the update must be x[start:limit:stride] of "
        "some limit.",
        to.ToString(), from.ToString(), fmt::join(start, ","), fmt::join(stride, ","));
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const Value is_new = Pad(Constant(*at.graph, 1.0, {BOOL, from.shape}), start, high, 0, interior);
  return Select(is_new, Pad(at.values[1], start, high, 0, interior), at.values[0]);
}

Value SegmentSum(const Operand& x, const Operand& segments, int64_t count) {
  const ResolvedOperands at = Resolve({x, segments});
  if (at.graph == nullptr) return {};
  Shape shape = at.values[0].shape();
  const int64_t dims = at.values[1].rank();
  if (dims > static_cast<int64_t>(shape.size())) {
    RecordMistake(at, "segment_sum", "x is {}, the segments {}; there is one for each row of x.",
                  at.values[0].type().ToString(), at.values[1].type().ToString());
    return {};
  }
  shape.erase(shape.begin(), shape.begin() + dims);
  shape.insert(shape.begin(), count);
  return ScatterAdd(x, segments, shape, 0);
}

// ---- Permutations.

Value RandomPermutation(Graph& graph, int64_t n, int64_t seed, int64_t stream, const Value& step,
                        CallSite loc) {
  const LocationScope scope(graph, loc);
  // Keys of 53 bits; of equal ones the order is that of the indices.
  const Value keys = RandomUniform(graph, {F64, {n}}, seed, stream, 0, 1, step);
  return keys.valid() ? Sort(keys, 0).indices : Value();
}

Value Shuffle(const Operand& x, int64_t dim, int64_t seed, int64_t stream, const Value& step) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const std::optional<int64_t> d = CountDim(at, "shuffle", dim);
  if (!d.has_value()) return {};
  const LocationScope scope(*at.graph, at.location);
  const int64_t n = at.values[0].shape()[static_cast<size_t>(*d)];
  return Gather(at.values[0], RandomPermutation(*at.graph, n, seed, stream, step), *d);
}

// ---- Elementwise.

Value FloorDiv(const Operand& a, const Operand& b) {
  const ResolvedOperands at = Resolve({a, b});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value quotient = Div(at.values[0], at.values[1]);
  if (!quotient.valid()) return {};
  if (IsFloat(quotient.dtype())) return Floor(quotient);
  // The quotient towards zero is one too large if the signs differ and there is a remainder.
  const Value rest = Remainder(at.values[0], at.values[1]);
  const Value is_above = And(NotEqual(rest, 0.0), NotEqual(Less(rest, 0.0), Less(at.values[1], 0.0)));
  return Select(And(is_above, NotEqual(at.values[1], 0.0)), quotient - 1.0, quotient);
}

Value FloorMod(const Operand& a, const Operand& b) {
  const ResolvedOperands at = Resolve({a, b});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value rest = Remainder(at.values[0], at.values[1]);
  if (!rest.valid()) return {};
  const Value differs = And(NotEqual(rest, 0.0), NotEqual(Less(rest, 0.0), Less(at.values[1], 0.0)));
  return Select(And(differs, NotEqual(at.values[1], 0.0)), rest + at.values[1], rest);
}

Value XLogY(const Operand& x, const Operand& y) {
  const ResolvedOperands at = Resolve({x, y});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value is_zero = And(Equal(at.values[0], 0.0), Equal(at.values[1], at.values[1]));
  return Select(is_zero, 0.0, at.values[0] * Log(Select(is_zero, 1.0, at.values[1])));
}

Value DivNoNan(const Operand& a, const Operand& b) {
  const ResolvedOperands at = Resolve({a, b});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value is_zero = Equal(at.values[1], 0.0);
  return Select(is_zero, 0.0, at.values[0] / Select(is_zero, 1.0, at.values[1]));
}

Value LogSigmoid(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  return Neg(Softplus(Neg(at.values[0])));
}

Value Sinc(const Operand& x) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value is_zero = Equal(at.values[0], 0.0);
  const Value turns = Select(is_zero, 1.0, at.values[0]) * std::numbers::pi;
  return Select(is_zero, 1.0, Sin(turns) / turns);
}

}  // namespace meshwork
