// Statistics, norms and counts in terms of rows; their partitioning and gradients follow from those.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// The start of a composite over dims: its operand, and the dims, counted from 0.
struct OverDims {
  ResolvedOperands at;
  std::optional<Ints> dims;

  OverDims(const Operand& x, std::string_view op, const DimList& asked) : at(Resolve({x})) {
    if (at.graph == nullptr) return;
    if (!IsFloat(at.values[0].dtype())) {
      RecordMistake(at, op, "takes f32, f64 or bf16, got {}; cast it.", at.values[0].type().ToString());
      return;
    }
    dims = CountDims(at, op, asked);
  }
  bool valid() const { return dims.has_value(); }
  // The operand in the dtype that statistics are computed in, f32 for bf16; `InOwn` rounds a result. To be called
  // within the scope of the operand's location.
  Value Wide() const { return InDType(at.values[0], WideDType(at.values[0].dtype())); }
  Value InOwn(const Value& result) const { return InDType(result, at.values[0].dtype()); }
  // `reduced`, which has the dims with size 1, without them unless they are to be kept.
  Value Kept(const Value& reduced, bool keep_dims) const {
    Ints sorted = *dims;
    std::sort(sorted.begin(), sorted.end());
    return keep_dims || sorted.empty() ? reduced : Squeeze(reduced, sorted);
  }
};

// The maximum over the dims, a constant to gradients; 0 where it is not finite.
Value Shift(const Value& x, const Ints& dims) {
  const Value most = StopGradient(ReduceMax(x, dims, /*keep_dims=*/true));
  return Select(IsFinite(most), most, 0.0);
}

}  // namespace

Value SoftmaxOver(const Operand& x, const DimList& dims) {
  const OverDims over(x, "softmax", dims);
  if (!over.valid()) return {};
  const LocationScope scope(*over.at.graph, over.at.location);
  const Value wide = over.Wide();
  const Value e = Exp(Sub(wide, StopGradient(ReduceMax(wide, *over.dims, /*keep_dims=*/true))));
  return over.InOwn(Div(e, ReduceSum(e, *over.dims, /*keep_dims=*/true)));
}

Value LogSumExp(const Operand& x, const DimList& dims, bool keep_dims) {
  const OverDims over(x, "log_sum_exp", dims);
  if (!over.valid()) return {};
  const LocationScope scope(*over.at.graph, over.at.location);
  const Value wide = over.Wide(), shift = Shift(wide, *over.dims);
  const Value sum = ReduceSum(Exp(Sub(wide, shift)), *over.dims, /*keep_dims=*/true);
  return over.InOwn(over.Kept(Add(Log(sum), shift), keep_dims));
}

Value Variance(const Operand& x, const DimList& dims, double correction, bool keep_dims) {
  const OverDims over(x, "variance", dims);
  if (!over.valid()) return {};
  if (!std::isfinite(correction)) {
    RecordMistake(over.at, "variance", "correction={} is not finite.", correction);
    return {};
  }
  const LocationScope scope(*over.at.graph, over.at.location);
  const Value wide = over.Wide();
  const Value centered = Sub(wide, ReduceMean(wide, *over.dims, /*keep_dims=*/true));
  if (correction == 0) return over.InOwn(ReduceMean(Square(centered), *over.dims, keep_dims));
  const Value count = DimensionSize(wide, *over.dims, wide.dtype());
  return over.InOwn(Div(ReduceSum(Square(centered), *over.dims, keep_dims), Sub(count, correction)));
}

Value StandardDeviation(const Operand& x, const DimList& dims, double correction, bool keep_dims) {
  const Value variance = Variance(x, dims, correction, keep_dims);
  return variance.valid() ? Sqrt(Operand(variance)) : variance;
}

Value Norm(const Operand& x, const DimList& dims, double order, bool keep_dims) {
  const OverDims over(x, "norm", dims);
  if (!over.valid()) return {};
  const LocationScope scope(*over.at.graph, over.at.location);
  const Value wide = over.Wide();
  if (order == 1) return over.InOwn(ReduceSum(Abs(wide), *over.dims, keep_dims));
  if (order == 2) {
    const Value sum = ReduceSum(Square(wide), *over.dims, keep_dims);
    // The root has no slope at 0.
    const Value is_zero = Equal(sum, 0.0);
    return over.InOwn(Select(is_zero, 0.0, Sqrt(Select(is_zero, 1.0, sum))));
  }
  if (std::isinf(order) && order > 0) return over.InOwn(ReduceMax(Abs(wide), *over.dims, keep_dims));
  RecordMistake(over.at, "norm", "order={}; it is 1, 2 or infinity.", order);
  return {};
}

Value ArgSort(const Operand& x, int64_t dim, bool descending) { return Sort(x, dim, descending).indices; }

Value InTopK(const Operand& predictions, const Operand& targets, int64_t k) {
  const ResolvedOperands at = Resolve({predictions, targets});
  if (at.graph == nullptr) return {};
  const Type p = at.values[0].type(), t = at.values[1].type();
  const bool fits = IsFloat(p.dtype) && IsInteger(t.dtype) && p.rank() == t.rank() + 1 &&
                    std::equal(t.shape.begin(), t.shape.end(), p.shape.begin());
  if (!fits) {
    RecordMistake(at, "in_top_k",
                  "predictions are {}, targets {}; they must be f32, f64 or bf16 [..,c] and i32 or i64 [..] "
                  "with the same sizes; give one target per row of the predictions.",
                  p.ToString(), t.ToString());
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const int64_t last = p.rank() - 1;
  const Value own = TakeAlongDim(at.values[0], ExpandDims(at.values[1], {last}), last);
  if (!own.valid()) return {};
  const Value better = ReduceSum(Cast(Greater(at.values[0], own), I32), {last});
  const Value is_class =
      And(GreaterEqual(at.values[1], 0.0), Less(at.values[1], DimensionSize(at.values[0], {last}, t.dtype)));
  return And(And(Less(better, static_cast<double>(k)), IsFinite(Squeeze(own, {last}))), is_class);
}

Value Bincount(const Operand& x, int64_t size) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Type type = at.values[0].type();
  if (!IsInteger(type.dtype) || type.rank() != 1 || size < 1) {
    RecordMistake(at, "bincount", "x is {}, size={}; x must be a vector of i32 or i64, size at least 1.",
                  type.ToString(), size);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const Value is_in = And(GreaterEqual(at.values[0], 0.0), Less(at.values[0], static_cast<double>(size)));
  return ScatterAdd(Cast(is_in, I32), at.values[0], {size}, 0);
}

UniqueResult UniqueCounts(const Operand& x, int64_t size) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const Type type = at.values[0].type();
  if (type.dtype == BOOL || type.rank() != 1 || type.shape[0] == 0 || size < 1 || size >= int64_t{1} << 40) {
    RecordMistake(
        at, "unique_counts",
        "x is {}, size={}; x must be a vector of numbers that is not empty, size at least 1 and below "
        "2^40.",
        type.ToString(), size);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const int64_t n = type.shape[0];
  const Value sorted = Sort(at.values[0], 0).values;
  // The number of distinct smaller values before each element.
  const Value changes = Cast(NotEqual(SliceDim(sorted, 0, 1, n), SliceDim(sorted, 0, 0, n - 1)), I32);
  const Value rank = Cumsum(Pad(changes, {1}, {0}), 0);
  // Values beyond `size` go to a place that is cut off.
  const Value place = Minimum(rank, static_cast<double>(size));
  const Value counts = ScatterAdd(Cast(Equal(rank, rank), I32), place, {size + 1}, 0);
  const Value zeros = Constant(*at.graph, 0.0, {type.dtype, {size + 1}});
  const Value values = ScatterUpdate(zeros, sorted, place, 0);
  return {SliceDim(values, 0, 0, size), SliceDim(counts, 0, 0, size)};
}

}  // namespace meshwork
