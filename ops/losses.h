// Losses, and accuracy. Part of ops/ops.h, which says what holds for all ops.
//
//   SparseSoftmaxCrossEntropy(logits, labels);                                       // the mean over all rows
//   SparseSoftmaxCrossEntropy(logits, labels, {.label_smoothing = 0.1, .ignore_label = 0});
//   MeanSquaredError(predictions, targets, {.reduction = Reduction::kSum, .weights = weights});
//
// Every loss first has one number per row (per element, where it has no rows), weights it, and reduces. With l a row's
// loss and w its weight, 1 if there are no weights:
//
//   kMean          sum(w · l) / number of rows that count. As Keras' "sum_over_batch_size"; as PyTorch's "mean" where
//                  PyTorch has no weights.
//   kWeightedMean  sum(w · l) / sum(w) over the rows that count. As PyTorch's "mean" with weights of classes; as Keras'
//                  "mean_with_sample_weight".
//   kSum           sum(w · l)
//   kNone          w · l of each row, [..]
//
// A loss of bf16 tensors is computed in f32 and has that dtype. One tensor may be bf16 and the other f32.
//
// All rows count, except those whose label is `ignore_label` and those for which a weight of dtype bool, a mask, is
// false. Such rows add 0, even if they are NaN, and 0 to gradients, unless they are not finite: 0 · NaN is NaN. If no
// row counts, or the weights add up to 0, a mean is 0.
// Weights are floats, cast to the dtype of the loss, or bools. With [b,t] rows they are
//   [b,t], [b,1] or [1,t];  a scalar;  or [b], the first dims of the rows, unless b = t.
//
// Errors: shapes or dtypes that do not fit, which are never broadcast; weights that are none of these; scalar weights
// with kWeightedMean, in which they would cancel.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

enum class Reduction : uint8_t { kMean, kWeightedMean, kSum, kNone };

struct LossOptions {
  Reduction reduction = Reduction::kMean;
  Value weights = {};
};

// For losses whose labels are shares.
struct ShareLossOptions {
  Reduction reduction = Reduction::kMean;
  Value weights = {};
  // s in [0, 1): the labels become (1 - s) label + s / c, with c classes (Szegedy et al., arXiv 1512.00567, section 7).
  // A class masked by a logit of -inf then makes the loss infinite.
  double label_smoothing = 0;
};

// For losses whose labels are whole numbers.
struct LabelLossOptions {
  Reduction reduction = Reduction::kMean;
  Value weights = {};
  double label_smoothing = 0;  // as in ShareLossOptions
  // Rows with this label do not count: padding. It may be out of range.
  std::optional<int64_t> ignore_label = {};
};

// sum, weight: floats [] -> sum / weight, 0 if the weight is 0: the mean of losses, from their sum and the weight of
// the rows that count. In a microbatch (train/optim/microbatches.h), and in the view of a replica
// (train/strategy/replica.h), the sum is divided by the mean of the parts' weights, so that the mean over the parts is
// the mean over the whole batch. Losses that leave rows out call MeanOver themselves. Error: the weight was made by a
// body within a part, such as a loop's.
Value MeanOver(const Operand& sum, const Value& weight);

// logits: [..,c], labels: integers [..] in [0,c) -> -log_softmax(logits)[label]. The loss of a row that counts and
// whose label is out of range is NaN, and its gradient 0; CheckLabels, by CountInvalidLabels, makes an error of such a
// step.
Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels,
                                const LabelLossOptions& options = {});
// logits, labels: [..,c], labels are probabilities -> -sum(labels · log_softmax(logits)).
// A class that is masked by -inf adds 0 where its label is 0; in the gradient by the labels its log_softmax
// counts as the lowest number of the dtype.
Value SoftmaxCrossEntropy(const Operand& logits, const Operand& labels, const ShareLossOptions& options = {});
// logits, labels: [..], labels in [0,1] -> -y log(sigmoid(z)) - (1-y) log(1-sigmoid(z)), as
// max(z,0) - z y + log1p(exp(-|z|)): finite for every finite z, its gradient is sigmoid(z) - y. Smoothed labels are
// (1 - s) y + s / 2.
Value BinaryCrossEntropyWithLogits(const Operand& logits, const Operand& labels,
                                   const ShareLossOptions& options = {});
// predictions, targets: [..] -> (p - t)².
Value MeanSquaredError(const Operand& predictions, const Operand& targets, const LossOptions& options = {});
// predictions, targets: [..] -> |p - t|.
Value MeanAbsoluteError(const Operand& predictions, const Operand& targets, const LossOptions& options = {});
// predictions, targets: [..] -> e²/2 where e = |p - t| is at most delta, delta (e - delta/2) where it is larger.
// Error: delta <= 0.
Value HuberLoss(const Operand& predictions, const Operand& targets, double delta = 1,
                const LossOptions& options = {});
// predictions, targets: [..] -> log(cosh(p - t)): e²/2 of a small error e, |e| - log(2) of a large one.
Value LogCoshLoss(const Operand& predictions, const Operand& targets, const LossOptions& options = {});
// log_predictions, targets: [..], the logarithm of a Poisson distribution's mean and what was counted ->
// exp(x) - t x, the negative logarithm of its likelihood without log(t!), which the prediction does not change.
Value PoissonLoss(const Operand& log_predictions, const Operand& targets, const LossOptions& options = {});
// scores, labels: [..], labels -1 or 1 -> max(0, 1 - label · score); gradient 0 where that is 0.
Value HingeLoss(const Operand& scores, const Operand& labels, const LossOptions& options = {});
// log_predictions, targets: [..,c], logarithms of shares and shares -> sum(t (log(t) - log_prediction)). A class
// without a share adds 0.
Value KlDivergence(const Operand& log_predictions, const Operand& targets, const LossOptions& options = {});
// a, b: [..,c] -> 1 - a·b / (|a| |b|): 0 of vectors of one direction, 2 of opposite ones. Lengths below 1e-8 count as
// 1e-8, so that a vector of zeros gives 1.
Value CosineDistance(const Operand& a, const Operand& b, const LossOptions& options = {});
// anchors, positives, negatives: [..,c] -> max(0, |a - p| - |a - n| + margin) (Balntas et al., BMVC 2016). As in
// PyTorch, 1e-6 is added to each difference, which keeps the gradient finite. Error: margin <= 0.
Value TripletMarginLoss(const Operand& anchors, const Operand& positives, const Operand& negatives,
                        double margin = 1, const LossOptions& options = {});

// The weight of each row's class, for LossOptions::weights; 1 of classes that `weights` does not name. Keras'
// class_weight:
//
//   SparseSoftmaxCrossEntropy(logits, labels, {.weights = ClassWeights(labels, {{8, 3.0}})})       // class 8 counts 3 times
//
// labels: integers [..], or floats [..,c], of which the largest says the class -> f64 [..]. A label that is no class
// has weight 1. With Reduction::kMean the loss is Keras' "sum_over_batch_size", with kWeightedMean it is PyTorch's.
// Errors: a class below 0, above 2^16 - 1, or not below c; a weight that is negative or not finite.
Value ClassWeights(const Operand& labels, const std::map<int64_t, double>& weights);

// logits: [..,c], labels: integers [..] -> i64 scalar: how many labels are neither in [0,c) nor `ignore_label`. Costs
// one sum over the labels; reads no logit. If a program returns this number as the output kInvalidLabels, CheckLabels
// (train/nn/metrics.h) refuses steps in which it is not 0:
//
//   g.Output(kInvalidLabels, CountInvalidLabels(logits, labels));
Value CountInvalidLabels(const Operand& logits, const Operand& labels,
                         std::optional<int64_t> ignore_label = {});
inline constexpr std::string_view kInvalidLabels = "invalid_labels";

// logits: [..,c], labels: integers [..] -> bool [..]: whether the row's argmax is the label. Ties go to the lowest
// index.
Value CorrectLabels(const Operand& logits, const Operand& labels);
// The same -> scalar: the share of rows whose argmax is the label.
Value Accuracy(const Operand& logits, const Operand& labels, DType dtype = F32);

}  // namespace meshwork
