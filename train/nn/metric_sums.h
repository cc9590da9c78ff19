// Sums over a batch, for metrics. They are over the rows of the whole batch, wherever they lie: over all devices and
// processes, and in a short batch over the rows that are there.
//
//   const MeanSums sums = AccuracySums(logits, labels);
//   g.Output("hits", sums.total);
//   g.Output("rows", sums.count);     // accuracy over several batches: all hits / all rows
//
// Everything is added up in f64, which counts exactly up to 2^53. Metrics that keep such sums over many steps are in
// train/nn/metrics.h.
//
// Weights are those of losses (ops/losses.h): floats, or bools that say which rows count. Labels that do not count are
// named by `ignore_label`. Errors: types that do not fit; weights that ops/losses.h refuses.
//
// Thread safety: like all builders these write the graph of their operands.
#pragma once

#include <cstdint>
#include <optional>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

struct MetricOptions {
  Value weights = {};
};

struct LabelMetricOptions {
  Value weights = {};
  std::optional<int64_t> ignore_label = {};
};

// Sums for a mean, f64 scalars: of weight · value, and of the weights, over the rows that count.
struct MeanSums {
  Value total, count;
};

// values: any numbers [..].
MeanSums SumsOf(const Operand& values, const MetricOptions& options = {});
// logits: [..,c], labels: integers [..]; sums 1 where CorrectLabels, else 0. A label out of range is not correct.
MeanSums AccuracySums(const Operand& logits, const Operand& labels, const LabelMetricOptions& options = {});
// Sums 1 where InTopK, else 0: fewer than k classes are above the label's. Error: k < 1.
MeanSums TopKAccuracySums(const Operand& logits, const Operand& labels, int64_t k,
                          const LabelMetricOptions& options = {});
// predictions: floats [..], labels: [..] of any dtype, 0 or not; sums 1 where (prediction > threshold) == (label != 0).
MeanSums BinaryAccuracySums(const Operand& predictions, const Operand& labels, double threshold = 0.5,
                            const MetricOptions& options = {});
// predictions, targets: floats [..] of one type; sums |p - t|, or (p - t)².
MeanSums AbsoluteErrorSums(const Operand& predictions, const Operand& targets,
                           const MetricOptions& options = {});
MeanSums SquaredErrorSums(const Operand& predictions, const Operand& targets,
                          const MetricOptions& options = {});
// logits: [..,c], labels: integers [..]; sums -log_softmax(logits)[label]. Rows whose label is out of range do not
// count.
MeanSums CrossEntropySums(const Operand& logits, const Operand& labels,
                          const LabelMetricOptions& options = {});

// Sums of the rows' weights, by their predictions and labels, f64.
struct BinaryCounts {
  Value true_positives, false_positives, true_negatives, false_negatives;
};
// predictions: floats [..], labels: [..] of any dtype, 0 or not. A prediction > threshold is positive. threshold: a
// number, or f64 [n] -> counts [n], one for each.
BinaryCounts CountBinary(const Operand& predictions, const Operand& labels, const Operand& threshold,
                         const MetricOptions& options = {});

// logits: [..,c], labels: integers [..] -> f64 [c,c]: of the rows that have label i, the weights of those whose argmax
// is j. Rows whose label is out of range do not count.
Value ConfusionCounts(const Operand& logits, const Operand& labels, const LabelMetricOptions& options = {});

}  // namespace meshwork
