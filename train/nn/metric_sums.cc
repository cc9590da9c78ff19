#include "meshwork/train/nn/metric_sums.h"

#include <string_view>
#include <vector>

#include "meshwork/ops/ops.h"
#include "meshwork/ops/row_weights.h"

namespace meshwork {
namespace {

// `rows`: numbers [..], taken to f64. `counts`: which rows count besides a mask; may be invalid.
MeanSums AddUp(const ResolvedOperands& at, std::string_view name, const Value& rows, const Value& weights,
               const Value& counts = {}) {
  if (!rows.valid()) return {};
  const Value exact = InDType(rows, F64);
  const std::optional<RowWeights> fitted = FitWeights(at, name, weights, exact.type(), counts);
  if (!fitted.has_value()) return {};
  return {SumOfAll(Weighted(exact, *fitted)), SumOfWeights(exact, *fitted)};
}

// Whether each row has a class that is not ignored.
Value HasClass(const ResolvedOperands& at, std::optional<int64_t> ignore_label) {
  const Value is_class = IsClass(at.values[0], at.values[1]);
  return ignore_label.has_value() ? And(is_class, IsNotIgnored(at.values[1], ignore_label)) : is_class;
}

bool CheckBinary(const ResolvedOperands& at, std::string_view name) {
  const Type &predictions = at.values[0].type(), &labels = at.values[1].type();
  if (IsFloat(predictions.dtype) && predictions.shape == labels.shape) return true;
  RecordMistake(
      at, name,
      "predictions are {}, labels {}; predictions must be floats, labels of any dtype, both of one shape.",
      predictions.ToString(), labels.ToString());
  return false;
}

MeanSums AddUpErrors(std::string_view name, const Operand& predictions, const Operand& targets,
                     const Value& weights, Value (*error)(const Value& difference)) {
  const ResolvedOperands at = ResolveWeighted({predictions, targets}, weights);
  if (at.graph == nullptr) return {};
  const Type &p = at.values[0].type(), &t = at.values[1].type();
  if (!IsFloat(p.dtype) || p != t) {
    RecordMistake(
        at, name,
        "predictions are {}, targets {}; they must be floats of one dtype and shape, Cast or Reshape one.",
        p.ToString(), t.ToString());
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  return AddUp(at, name, error(Sub(InDType(at.values[0], F64), InDType(at.values[1], F64))), weights);
}

}  // namespace

MeanSums SumsOf(const Operand& values, const MetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({values}, options.weights);
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  return AddUp(at, "mean", at.values[0], options.weights);
}

MeanSums AccuracySums(const Operand& logits, const Operand& labels, const LabelMetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "accuracy", options.ignore_label)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value correct = CorrectLabels(at.values[0], at.values[1]);
  return AddUp(at, "accuracy", correct, options.weights, IsNotIgnored(at.values[1], options.ignore_label));
}

MeanSums TopKAccuracySums(const Operand& logits, const Operand& labels, int64_t k,
                          const LabelMetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "top_k_accuracy", options.ignore_label)) return {};
  if (k < 1) {
    RecordMistake(at, "top_k_accuracy", "k={}; at least the best class counts.", k);
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  const Value hits = InTopK(at.values[0], at.values[1], k);
  return AddUp(at, "top_k_accuracy", hits, options.weights, IsNotIgnored(at.values[1], options.ignore_label));
}

MeanSums BinaryAccuracySums(const Operand& predictions, const Operand& labels, double threshold,
                            const MetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({predictions, labels}, options.weights);
  if (at.graph == nullptr || !CheckBinary(at, "binary_accuracy")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value is_above = Greater(InDType(at.values[0], F64), threshold);
  return AddUp(at, "binary_accuracy", Equal(is_above, InDType(at.values[1], BOOL)), options.weights);
}

MeanSums AbsoluteErrorSums(const Operand& predictions, const Operand& targets, const MetricOptions& options) {
  return AddUpErrors("mean_absolute_error", predictions, targets, options.weights,
                     [](const Value& difference) { return Abs(difference); });
}

MeanSums SquaredErrorSums(const Operand& predictions, const Operand& targets, const MetricOptions& options) {
  return AddUpErrors("mean_squared_error", predictions, targets, options.weights,
                     [](const Value& difference) { return Mul(difference, difference); });
}

MeanSums CrossEntropySums(const Operand& logits, const Operand& labels, const LabelMetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "cross_entropy", options.ignore_label)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value losses = SparseSoftmaxCrossEntropy(at.values[0], at.values[1], {.reduction = Reduction::kNone});
  return AddUp(at, "cross_entropy", losses, options.weights, HasClass(at, options.ignore_label));
}

BinaryCounts CountBinary(const Operand& predictions, const Operand& labels, const Operand& threshold,
                         const MetricOptions& options) {
  std::vector<Operand> operands = {predictions, labels};
  if (!threshold.is_number()) operands.push_back(threshold);
  const ResolvedOperands at = ResolveWeighted(std::move(operands), options.weights);
  if (at.graph == nullptr || !CheckBinary(at, "count_binary")) return {};
  const LocationScope scope(*at.graph, at.location);
  const Type type = {F64, at.values[0].shape()};
  const std::optional<RowWeights> fitted = FitWeights(at, "count_binary", options.weights, type);
  if (!fitted.has_value()) return {};
  // One more dim for the thresholds.
  const bool has_many = !threshold.is_number() && threshold.value().rank() > 0;
  if (has_many && threshold.value().rank() > 1) {
    RecordMistake(at, "count_binary", "thresholds are {}; they must be a number or f64[n].",
                  threshold.value().type().ToString());
    return {};
  }
  const auto with_dim = [&](const Value& x) {
    return has_many && x.valid() && x.rank() > 0 ? ExpandDims(x, {x.rank()}) : x;
  };
  const auto expanded = [&](const Value& x) {
    return has_many && x.rank() == 0 ? ExpandDims(x, {0}) : with_dim(x);
  };
  const RowWeights weights = {with_dim(fitted->factor), with_dim(fitted->counts)};
  const Value is_above = Greater(expanded(InDType(at.values[0], F64)), threshold);
  const Value is_positive = expanded(InDType(at.values[1], BOOL));
  const auto sum = [&](const Value& which) {
    std::vector<int64_t> dims = AllDims(which);
    if (has_many && !dims.empty()) dims.pop_back();
    return ReduceSum(Weighted(Cast(which, F64), weights), dims);
  };
  return {.true_positives = sum(And(is_above, is_positive)),
          .false_positives = sum(And(is_above, Not(is_positive))),
          .true_negatives = sum(And(Not(is_above), Not(is_positive))),
          .false_negatives = sum(And(Not(is_above), is_positive))};
}

Value ConfusionCounts(const Operand& logits, const Operand& labels, const LabelMetricOptions& options) {
  const ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "confusion_matrix", options.ignore_label)) return {};
  const LocationScope scope(*at.graph, at.location);
  const Value &scores = at.values[0], &label = at.values[1];
  const int64_t classes = scores.shape().back();
  const Value counts = Cast(HasClass(at, options.ignore_label), F64);
  const std::optional<RowWeights> fitted = FitWeights(at, "confusion_matrix", options.weights, counts.type());
  if (!fitted.has_value()) return {};
  const Value guess = InDType(Argmax(scores, scores.rank() - 1), label.dtype());
  const std::vector<int64_t> last = {label.rank()};
  // Places out of range are clamped, where they add 0.
  return ScatterNdAdd(Weighted(counts, *fitted),
                      Concat({ExpandDims(label, last), ExpandDims(guess, last)}, label.rank()),
                      {classes, classes});
}

}  // namespace meshwork
