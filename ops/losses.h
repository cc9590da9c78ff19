// Losses, and accuracy. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Losses. Each is a scalar, the mean over all rows (elements, where there are none).
// Errors: shapes or dtypes that do not fit, which are never broadcast.

// logits: [..,c], labels: integers [..] in [0,c) -> mean of -log_softmax(logits)[label]. A row whose label is
// out of range counts as 0; LoadMnist refuses such labels.
Value SparseSoftmaxCrossEntropy(const Operand& logits, const Operand& labels);
// logits, labels: [..,c], labels are probabilities -> mean over rows of -sum(labels · log_softmax(logits)).
// A class that is masked by -inf adds 0 where its label is 0; in the gradient by the labels its log_softmax
// counts as the lowest number of the dtype.
Value SoftmaxCrossEntropy(const Operand& logits, const Operand& labels);
// logits, labels: [..], labels in [0,1] -> mean of -y log(sigmoid(z)) - (1-y) log(1-sigmoid(z)), as
// max(z,0) - z y + log1p(exp(-|z|)): finite for every finite z, its gradient is sigmoid(z) - y.
Value BinaryCrossEntropyWithLogits(const Operand& logits, const Operand& labels);
// predictions, targets: [..] -> mean of (p - t)².
Value MeanSquaredError(const Operand& predictions, const Operand& targets);
// predictions, targets: [..] -> mean of |p - t|.
Value MeanAbsoluteError(const Operand& predictions, const Operand& targets);
// predictions, targets: [..] -> mean of e²/2 where e = |p - t| is at most delta, of delta (e - delta/2) where
// it is larger. Error: delta <= 0.
Value HuberLoss(const Operand& predictions, const Operand& targets, double delta = 1);
// scores, labels: [..], labels -1 or 1 -> mean of max(0, 1 - label · score); gradient 0 where that is 0.
Value HingeLoss(const Operand& scores, const Operand& labels);
// log_predictions, targets: [..,c], logarithms of shares and shares -> mean over rows of
// sum(t (log(t) - log_prediction)). A class without a share adds 0.
Value KlDivergence(const Operand& log_predictions, const Operand& targets);
// logits: [..,c], labels: integers [..] -> scalar: the share of rows whose argmax is the label.
Value Accuracy(const Operand& logits, const Operand& labels, DType dtype = F32);

}  // namespace meshwork
