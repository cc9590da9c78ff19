#include "meshwork/ops/row_weights.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

// Whether dims of `weights` are those of `rows`, or 1.
bool Stretches(const Shape& weights, const Shape& rows) {
  for (size_t d = 0; d < rows.size(); ++d)
    if (weights[d] != rows[d] && weights[d] != 1) return false;
  return true;
}

// [1,..,1,n,1,..,1] for n at `dim`.
std::string AlongDim(const Shape& weights, int rank, size_t offset) {
  Type type{BOOL, Shape(static_cast<size_t>(rank), 1)};
  std::copy(weights.begin(), weights.end(), type.shape.begin() + static_cast<std::ptrdiff_t>(offset));
  return type.ToString().substr(DTypeName(BOOL).size());
}

// The weights with as many dims as the rows, or none. Records a mistake and returns an invalid value if their shape
// does not say which rows they are of.
Value AsRows(const ResolvedOperands& at, std::string_view op, const Value& weights, const Type& rows) {
  const Shape& shape = weights.shape();
  const auto rank = shape.size(), whole = rows.shape.size();
  if (rank == 0 || (rank == whole && Stretches(shape, rows.shape))) return weights;
  const bool is_first = rank < whole && std::equal(shape.begin(), shape.end(), rows.shape.begin());
  const bool is_last = rank < whole && std::equal(shape.begin(), shape.end(),
                                                  rows.shape.end() - static_cast<std::ptrdiff_t>(rank));
  if (is_first && is_last) {
    RecordMistake(
        at, op,
        "weights are {} for rows {}; whether they are of the first or of the last dims cannot be told; give "
        "them as {} or as {} (ExpandDims).",
        weights.type().ToString(), rows.ToString(), AlongDim(shape, rows.rank(), 0),
        AlongDim(shape, rows.rank(), whole - rank));
    return {};
  }
  if (!is_first) {
    RecordMistake(
        at, op,
        "weights are {} for rows {}; they must be a scalar, or of the rows' shape, where a dim may be 1, or of "
        "the rows' first dims.",
        weights.type().ToString(), rows.ToString());
    return {};
  }
  std::vector<int64_t> more(whole - rank);
  std::iota(more.begin(), more.end(), static_cast<int64_t>(rank));
  return ExpandDims(weights, more);
}

// The sum over all rows of x, which broadcasts against them.
Value SumOverRows(const Value& x, const Value& rows) {
  std::vector<int64_t> stretched;
  for (int d = 0; d < rows.rank(); ++d)
    if (x.rank() == 0 || (x.shape()[d] == 1 && rows.shape()[d] != 1)) stretched.push_back(d);
  const Value sum = SumOfAll(x);
  return stretched.empty() ? sum : Mul(sum, DimensionSize(rows, stretched, x.dtype()));
}

}  // namespace

std::vector<int64_t> AllDims(const Value& x) {
  if (!x.valid()) return {};
  std::vector<int64_t> dims(x.rank());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Value SumOfAll(const Value& x) { return ReduceSum(x, AllDims(x)); }

ResolvedOperands ResolveWeighted(std::vector<Operand> operands, const Value& weights) {
  if (weights.valid() || weights.is_lost()) operands.emplace_back(weights);
  return Resolve(operands);
}

bool CheckLogitsAndLabels(const ResolvedOperands& at, std::string_view op,
                          std::optional<int64_t> ignore_label) {
  const Type &logits = at.values[0].type(), &labels = at.values[1].type();
  if (!IsFloat(logits.dtype) || !IsInteger(labels.dtype) || logits.rank() != labels.rank() + 1 ||
      !std::equal(labels.shape.begin(), labels.shape.end(), logits.shape.begin())) {
    RecordMistake(
        at, op,
        "logits are {}, labels {}; they must be f32, f64 or bf16 [..,c] and i32 or i64 [..] with the "
        "same sizes{}.",
        logits.ToString(), labels.ToString(),
        labels.shape == logits.shape ? "; of one-hot labels take Argmax(labels, -1), or SoftmaxCrossEntropy"
        : labels.rank() == logits.rank() && labels.rank() > 0 && labels.shape.back() == 1
            ? "; of a column take Squeeze(labels, {-1})"
        : !IsFloat(logits.dtype)   ? "; Cast the logits to f32"
        : !IsInteger(labels.dtype) ? "; Cast the labels to i32"
                                   : "; give one label per row of the logits");
    return false;
  }
  // Constants are written as doubles.
  const int64_t limit = labels.dtype == I32 ? int64_t{1} << 31 : int64_t{1} << 53;
  const int64_t ignored = ignore_label.value_or(0);
  if (ignored >= -limit && ignored < limit) return true;
  RecordMistake(at, op, "ignore_label={} does not fit labels {}; it is at least {} and below {}.", ignored,
                labels.ToString(), -limit, limit);
  return false;
}

Value IsClass(const Value& logits, const Value& labels) {
  const Value is_below = Less(labels, DimensionSize(logits, {logits.rank() - 1}, labels.dtype()));
  return And(GreaterEqual(labels, 0), is_below);
}

Value IsNotIgnored(const Value& labels, std::optional<int64_t> ignore_label) {
  return ignore_label.has_value() ? NotEqual(labels, static_cast<double>(*ignore_label)) : Value();
}

std::optional<RowWeights> FitWeights(const ResolvedOperands& at, std::string_view op, const Value& weights,
                                     const Type& rows, const Value& counts) {
  if (!weights.valid()) return RowWeights{.counts = counts};
  if (!IsFloat(weights.dtype()) && weights.dtype() != BOOL) {
    RecordMistake(at, op, "weights are {}; they must be floats, or bools that say which rows count.",
                  weights.type().ToString());
    return std::nullopt;
  }
  const Value fitted = AsRows(at, op, weights, rows);
  if (!fitted.valid()) return std::nullopt;
  if (fitted.dtype() != BOOL) return RowWeights{InDType(fitted, rows.dtype), counts};
  return RowWeights{.counts = counts.valid() ? And(counts, fitted) : fitted};
}

Value Weighted(const Value& rows, const RowWeights& weights) {
  const Value counted = weights.counts.valid() ? Select(weights.counts, rows, 0.0) : rows;
  return weights.factor.valid() ? Mul(counted, weights.factor) : counted;
}

Value SumOfWeights(const Value& rows, const RowWeights& weights) {
  if (!weights.factor.valid()) return CountOfRows(rows, weights);
  if (!weights.counts.valid()) return SumOverRows(weights.factor, rows);
  return SumOverRows(Select(weights.counts, weights.factor, 0.0), rows);
}

Value CountOfRows(const Value& rows, const RowWeights& weights) {
  if (!weights.counts.valid()) return DimensionSize(rows, AllDims(rows), rows.dtype());
  // Counted in whole numbers, because large floats do not grow by 1.
  return Cast(SumOverRows(Cast(weights.counts, I64), rows), rows.dtype());
}

}  // namespace meshwork
