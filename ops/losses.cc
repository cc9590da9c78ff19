// Softmax and losses in terms of rows; their partitioning and gradients follow from those.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ops/given_sizes.h"
#include "meshwork/ops/hyperparameters.h"
#include "meshwork/ops/ops.h"
#include "meshwork/ops/row_weights.h"

namespace meshwork {
namespace {

constexpr int64_t kMostClassWeights = int64_t{1} << 16;  // elements of a Constant

// x minus its maximum along `dim`. The shift changes neither a softmax nor its gradient, so that it is a
// constant to the latter.
Value Shifted(const Operand& x, int64_t dim) {
  return Sub(x, StopGradient(ReduceMax(x, {dim}, /*keep_dims=*/true)));
}

// bf16 operands in f32, in which losses are computed and given.
void Widen(ResolvedOperands& at) {
  for (Value& value : at.values)
    if (IsFloat(value.dtype())) value = InDType(value, WideDType(value.dtype()));
}

// Checks that operands 0 and `index` are floats of one shape and, bf16 counting as f32, of one dtype: broadcasting
// [b,1] with [b] makes a [b,b] that no loss means.
bool CheckAlike(const ResolvedOperands& at, std::string_view op, std::string_view first,
                std::string_view second, size_t index = 1) {
  const Type &a = at.values[0].type(), &b = at.values[index].type();
  if (IsFloat(a.dtype) && IsFloat(b.dtype) && WideDType(a.dtype) == WideDType(b.dtype) && a.shape == b.shape)
    return true;
  RecordMistake(at, op, "{} are {}, {} {}; they must be floats of one dtype and shape, Cast or Reshape one.",
                first, a.ToString(), second, b.ToString());
  return false;
}

// The same for losses of vectors, which have at least one dim.
bool CheckVectors(const ResolvedOperands& at, std::string_view op, std::string_view first,
                  std::string_view second) {
  if (!CheckAlike(at, op, first, second)) return false;
  if (at.values[0].rank() > 0) return true;
  RecordMistake(at, op, "takes at least one dim, got {}.", at.values[1].type().ToString());
  return false;
}

bool Check(const ResolvedOperands& at, std::string_view op, const absl::Status& status) {
  if (!status.ok()) RecordMistake(at, op, "{}", MessageOf(status));
  return status.ok();
}

// The lowest finite number of f32 or f64.
double LowestFinite(DType dtype) {
  return dtype == F64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
}

Value MeanOfAll(const Value& x) { return ReduceMean(x, AllDims(x)); }

// `counts`: see FitWeights.
Value Reduced(const ResolvedOperands& at, std::string_view op, const Value& losses, Reduction reduction,
              const Value& weights, const Value& counts = {}) {
  if (!losses.valid()) return {};
  const bool is_weighted_mean = reduction == Reduction::kWeightedMean;
  if (is_weighted_mean && weights.valid() && weights.rank() == 0) {
    RecordMistake(
        at, op,
        "weights are {}, a scalar, which cancels in a weighted mean; use Reduction::kMean, or multiply the "
        "loss.",
        weights.type().ToString());
    return {};
  }
  const std::optional<RowWeights> fitted = FitWeights(at, op, weights, losses.type(), counts);
  if (!fitted.has_value()) return {};
  const Value weighted = Weighted(losses, *fitted);
  if (reduction == Reduction::kNone) return weighted;
  if (reduction == Reduction::kSum) return SumOfAll(weighted);
  if (is_weighted_mean && fitted->factor.valid())
    return MeanOver(SumOfAll(weighted), SumOfWeights(losses, *fitted));
  if (fitted->counts.valid()) return MeanOver(SumOfAll(weighted), CountOfRows(losses, *fitted));
  return MeanOfAll(weighted);
}

// Whether the argmax of each row is its label.
Value IsArgmax(const Value& logits, const Value& labels) {
  Value guess = Argmax(logits, logits.rank() - 1);
  if (guess.valid() && guess.dtype() != labels.dtype()) guess = Cast(guess, labels.dtype());
  return Equal(guess, labels);
}

// A loss of two tensors of one type, element by element.
template <typename F>
Value Elementwise(const char* op, const char* first, const char* second, const Operand& a, const Operand& b,
                  const LossOptions& options, F loss) {
  ResolvedOperands at = ResolveWeighted({a, b}, options.weights);
  if (at.graph == nullptr || !CheckAlike(at, op, first, second)) return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  return Reduced(at, op, loss(at.values[0], at.values[1]), options.reduction, options.weights);
}

}  // namespace

Value MeanOver(const Operand& sum, const Value& weight) {
  const ResolvedOperands at = Resolve({sum, weight});
  if (at.graph == nullptr) return {};
  const Value &s = at.values[0], &w = at.values[1];
  if (!IsFloat(s.dtype()) || !IsFloat(w.dtype()) || s.rank() != 0 || w.rank() != 0) {
    RecordMistake(at, "mean_over", "the sum is {}, the weight {}; they must be floats [].",
                  s.type().ToString(), w.type().ToString());
    return {};
  }
  const LocationScope scope(*at.graph, at.location);
  return DivNoNan(s, InDType(Graph::MeanWeight(weight, at.location), s.dtype()));
}

Value Softmax(const Operand& x, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const std::optional<int64_t> d = CountDim(at, "softmax", dim);
  if (!d.has_value()) return {};
  const Value wide = InDType(at.values[0], WideDType(at.values[0].dtype()));
  const Value e = Exp(Shifted(wide, *d));
  return InDType(Div(e, ReduceSum(e, {*d}, /*keep_dims=*/true)), at.values[0].dtype());
}

Value LogSoftmax(const Operand& x, int64_t dim) {
  const ResolvedOperands at = Resolve({x});
  if (at.graph == nullptr) return {};
  const LocationScope scope(*at.graph, at.location);
  const std::optional<int64_t> d = CountDim(at, "log_softmax", dim);
  if (!d.has_value()) return {};
  const Value z = Shifted(InDType(at.values[0], WideDType(at.values[0].dtype())), *d);
  return InDType(Sub(z, Log(ReduceSum(Exp(z), {*d}, /*keep_dims=*/true))), at.values[0].dtype());
}

Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels,
                                const LabelLossOptions& options) {
  constexpr const char* kName = "sparse_softmax_cross_entropy";
  ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  const double smoothing = options.label_smoothing;
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, kName, options.ignore_label) ||
      !Check(at, kName, CheckDecay("label_smoothing", smoothing)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  const Value& label = at.values[1];
  const int64_t last = at.values[0].rank() - 1;
  const Value z = Shifted(at.values[0], last);
  // The sums do not depend on each other, so that one all-reduce does for all of them if the classes are sharded.
  const Value sum = ReduceSum(Exp(z), {last});
  // Selected, not multiplied: a class that is masked by -inf must not make 0 · inf.
  const Value is_label = OneHot(label, z.shape().back(), BOOL);
  Value target = ReduceSum(Select(is_label, z, 0.0), {last});
  if (smoothing > 0) target = Add(Mul(target, 1 - smoothing), Mul(ReduceMean(z, {last}), smoothing));
  // NaN for a label that is not a class, so that a mistake in the data does not look like a low loss. It is a constant,
  // so the gradient of such a row is 0.
  const Value losses =
      Select(IsClass(z, label), Sub(Log(sum), target), std::numeric_limits<double>::quiet_NaN());
  return Reduced(at, kName, losses, options.reduction, options.weights,
                 IsNotIgnored(label, options.ignore_label));
}

Value SoftmaxCrossEntropy(const Operand& logits, const Operand& labels, const ShareLossOptions& options) {
  constexpr const char* kName = "softmax_cross_entropy";
  ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  const double smoothing = options.label_smoothing;
  if (at.graph == nullptr || !CheckVectors(at, kName, "logits", "labels") ||
      !Check(at, kName, CheckDecay("label_smoothing", smoothing)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  Value shares = at.values[1];
  const int64_t last = shares.rank() - 1;
  if (smoothing > 0)
    shares = Add(Mul(shares, 1 - smoothing),
                 smoothing / static_cast<double>(std::max<int64_t>(shares.shape()[last], 1)));
  const Value z = Shifted(at.values[0], last);
  // -sum(labels · (z - log(sum))), as three sums that do not need each other. They all have one sign, so that
  // nothing cancels.
  const Value sum = ReduceSum(Exp(z), {last});
  // A class that is masked by -inf has probability 0; the lowest number keeps it from making 0 · inf.
  const Value target = ReduceSum(Mul(shares, Maximum(z, LowestFinite(z.dtype()))), {last});
  return Reduced(at, kName, Sub(Mul(ReduceSum(shares, {last}), Log(sum)), target), options.reduction,
                 options.weights);
}

Value BinaryCrossEntropyWithLogits(const Operand& logits, const Operand& labels,
                                   const ShareLossOptions& options) {
  constexpr const char* kName = "binary_cross_entropy_with_logits";
  ResolvedOperands at = ResolveWeighted({logits, labels}, options.weights);
  const double smoothing = options.label_smoothing;
  if (at.graph == nullptr || !CheckAlike(at, kName, "logits", "labels") ||
      !Check(at, kName, CheckDecay("label_smoothing", smoothing)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  const Value& z = at.values[0];
  const Value y = smoothing > 0 ? Add(Mul(at.values[1], 1 - smoothing), smoothing / 2) : at.values[1];
  // Both branches by one condition: at z = 0 their slopes, 1 and -1/2, add up to the sigmoid's 1/2.
  const Value above = GreaterEqual(z, 0.0);
  const Value positive = Select(above, z, 0.0), minus_size = Select(above, Neg(z), z);
  return Reduced(at, kName, Add(Sub(positive, Mul(z, y)), Log1p(Exp(minus_size))), options.reduction,
                 options.weights);
}

Value MeanSquaredError(const Operand& predictions, const Operand& targets, const LossOptions& options) {
  return Elementwise("mean_squared_error", "predictions", "targets", predictions, targets, options,
                     [](const Value& p, const Value& t) { return SquaredDifference(p, t); });
}

Value MeanAbsoluteError(const Operand& predictions, const Operand& targets, const LossOptions& options) {
  return Elementwise("mean_absolute_error", "predictions", "targets", predictions, targets, options,
                     [](const Value& p, const Value& t) { return Abs(Sub(p, t)); });
}

Value HuberLoss(const Operand& predictions, const Operand& targets, double delta,
                const LossOptions& options) {
  ResolvedOperands at = ResolveWeighted({predictions, targets}, options.weights);
  if (at.graph == nullptr || !CheckAlike(at, "huber_loss", "predictions", "targets") ||
      !Check(at, "huber_loss", CheckPositive("delta", delta)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  // With c the size of the error, at most delta: c (|e| - c/2) is e²/2 up to delta and a line behind it.
  const Value size = Abs(Sub(at.values[0], at.values[1])), near = Minimum(size, delta);
  return Reduced(at, "huber_loss", Mul(near, Sub(size, Mul(near, 0.5))), options.reduction, options.weights);
}

Value LogCoshLoss(const Operand& predictions, const Operand& targets, const LossOptions& options) {
  return Elementwise("log_cosh_loss", "predictions", "targets", predictions, targets, options,
                     [](const Value& p, const Value& t) {
                       // cosh itself would overflow.
                       const Value size = Abs(Sub(p, t));
                       return Sub(Add(size, Log1p(Exp(Mul(size, -2.0)))), std::log(2.0));
                     });
}

Value PoissonLoss(const Operand& log_predictions, const Operand& targets, const LossOptions& options) {
  return Elementwise("poisson_loss", "log_predictions", "targets", log_predictions, targets, options,
                     [](const Value& x, const Value& t) { return Sub(Exp(x), Mul(t, x)); });
}

Value HingeLoss(const Operand& scores, const Operand& labels, const LossOptions& options) {
  return Elementwise(
      "hinge_loss", "scores", "labels", scores, labels, options,
      [](const Value& score, const Value& label) { return Relu(Sub(1.0, Mul(score, label))); });
}

Value KlDivergence(const Operand& log_predictions, const Operand& targets, const LossOptions& options) {
  ResolvedOperands at = ResolveWeighted({log_predictions, targets}, options.weights);
  if (at.graph == nullptr || !CheckVectors(at, "kl_divergence", "log_predictions", "targets")) return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  const Value &log_q = at.values[0], &p = at.values[1];
  // A class without a share adds nothing, however low its predicted probability is.
  const Value has_share = NotEqual(p, 0.0);
  const Value log_p = Log(Select(has_share, p, 1.0));
  const Value terms = Mul(p, Sub(log_p, Select(has_share, log_q, 0.0)));
  return Reduced(at, "kl_divergence", ReduceSum(terms, {p.rank() - 1}), options.reduction, options.weights);
}

Value CosineDistance(const Operand& a, const Operand& b, const LossOptions& options) {
  ResolvedOperands at = ResolveWeighted({a, b}, options.weights);
  if (at.graph == nullptr || !CheckVectors(at, "cosine_distance", "a", "b")) return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  const Value &x = at.values[0], &y = at.values[1];
  const std::vector<int64_t> last = {x.rank() - 1};
  const auto inverse_length = [&](const Value& v) {
    return Rsqrt(Maximum(ReduceSum(Mul(v, v), last), 1e-16));
  };
  const Value cosine = Mul(ReduceSum(Mul(x, y), last), Mul(inverse_length(x), inverse_length(y)));
  return Reduced(at, "cosine_distance", Sub(1.0, cosine), options.reduction, options.weights);
}

Value TripletMarginLoss(const Operand& anchors, const Operand& positives, const Operand& negatives,
                        double margin, const LossOptions& options) {
  constexpr const char* kName = "triplet_margin_loss";
  ResolvedOperands at = ResolveWeighted({anchors, positives, negatives}, options.weights);
  if (at.graph == nullptr || !CheckVectors(at, kName, "anchors", "positives") ||
      !CheckAlike(at, kName, "anchors", "negatives", 2) || !Check(at, kName, CheckPositive("margin", margin)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  Widen(at);
  const auto distance_to = [&](const Value& other) {
    const Value difference = Add(Sub(at.values[0], other), 1e-6);
    return Sqrt(ReduceSum(Mul(difference, difference), {other.rank() - 1}));
  };
  const Value losses = Relu(Add(Sub(distance_to(at.values[1]), distance_to(at.values[2])), margin));
  return Reduced(at, kName, losses, options.reduction, options.weights);
}

namespace {

// The classes of labels: whole numbers, or the places of the largest share.
Value ClassesOf(const Value& labels) {
  return IsInteger(labels.dtype()) ? labels : Argmax(labels, labels.rank() - 1);
}

absl::Status CheckClassWeights(const Type& labels, const std::map<int64_t, double>& weights) {
  const bool are_shares = IsFloat(labels.dtype);
  if (!(are_shares && labels.rank() > 0) && !IsInteger(labels.dtype))
    return InvalidArgument(
        "the labels are {}; they must be whole numbers [..], or floats [..,c], the shares of c classes.",
        labels.ToString());
  const int64_t classes = are_shares ? labels.shape.back() : kMostClassWeights;
  for (const auto& [of_class, weight] : weights) {
    if (of_class < 0 || of_class >= classes)
      return InvalidArgument("there is a weight for class {}; the classes of labels {} are 0 to {}.",
                             of_class, labels.ToString(), classes - 1);
    if (!std::isfinite(weight) || weight < 0)
      return InvalidArgument("the weight of class {} is {}; it must be at least 0, and finite.", of_class,
                             weight);
  }
  return absl::OkStatus();
}

}  // namespace

Value ClassWeights(const Operand& labels, const std::map<int64_t, double>& weights) {
  const ResolvedOperands at = Resolve({labels});
  if (at.graph == nullptr || !Check(at, "class_weights", CheckClassWeights(at.values[0].type(), weights)))
    return {};
  const LocationScope scope(*at.graph, at.location);
  const Value classes = ClassesOf(at.values[0]);
  // The weights of the classes up to the last one that has a weight; 1 for classes behind it, and for labels that are
  // not a class.
  const int64_t last = weights.empty() ? 0 : weights.rbegin()->first;
  std::vector<double> table(static_cast<size_t>(last) + 1, 1);
  for (const auto& [of_class, weight] : weights) table[static_cast<size_t>(of_class)] = weight;
  const Value all = OfGivenSizes(Constant(*at.graph, table, {F64, {last + 1}}), "class_weights");
  const Value is_named = And(GreaterEqual(classes, 0.0), LessEqual(classes, static_cast<double>(last)));
  return Select(is_named, Gather(all, classes, 0), 1.0);
}

Value CountInvalidLabels(const Operand& logits, const Operand& labels, std::optional<int64_t> ignore_label) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "count_invalid_labels", ignore_label)) return {};
  const LocationScope scope(*at.graph, at.location);
  Value is_invalid = Not(IsClass(at.values[0], at.values[1]));
  if (ignore_label.has_value()) is_invalid = And(is_invalid, IsNotIgnored(at.values[1], ignore_label));
  return SumOfAll(Cast(is_invalid, I64));
}

Value CorrectLabels(const Operand& logits, const Operand& labels) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "correct_labels")) return {};
  const LocationScope scope(*at.graph, at.location);
  return IsArgmax(at.values[0], at.values[1]);
}

Value Accuracy(const Operand& logits, const Operand& labels, DType dtype) {
  const ResolvedOperands at = Resolve({logits, labels});
  if (at.graph == nullptr || !CheckLogitsAndLabels(at, "accuracy")) return {};
  const LocationScope scope(*at.graph, at.location);
  return MeanOfAll(Cast(IsArgmax(at.values[0], at.values[1]), dtype));
}

}  // namespace meshwork
