// Metrics: measures of a model over many steps, kept in variables of the graph.
//
//   AccuracyMetric accuracy(g, "accuracy");
//   MeanMetric mean_loss(g, "loss");
//   g.Output("accuracy", accuracy.Update(logits, labels));
//   g.Output("mean_loss", mean_loss.Update(losses, {.weights = weights}));
//   …
//   for (const Batch& batch : batches) result = session.Run(feeds(batch));    // "accuracy": of all batches so far
//   ResetMetrics(session);                                                    // a new epoch
//
// A metric keeps the sums of train/nn/metric_sums.h in f64 variables "metrics/NAME/SUM". An Update adds those of a
// batch. It returns, like result(), the value over all batches since the sums were 0, this one included. The value is
// exact over batches of different sizes, and the same on every mesh. Gradients do not pass through it.
//
// Session::Run accumulates. Session::Evaluate writes no variables: its value includes its own batch, which later calls
// do not count. Session::Accumulate evaluates and writes the sums. A checkpoint holds the sums like all variables. If
// nothing counts, a value is 0.
//
// Errors, recorded in the graph: those of the sums; a name that Graph::Var refuses; a second Update in one step.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/session/session.h"
#include "meshwork/train/nn/metric_sums.h"

namespace meshwork {

// The base of all metrics.
class Metric {
 public:
  const std::string& name() const { return name_; }
  // A scalar f64, or what the class says. Invalid before Update.
  const Value& result() const { return result_; }

 protected:
  // Sums "metrics/NAME/SUM" of this shape.
  Metric(Graph& graph, std::string_view name, std::initializer_list<std::string_view> sums,
         const Shape& shape, CallSite loc);
  // The sums after the step. After the first call, records a mistake and returns nothing.
  std::vector<Value> Add(std::span<const Value> sums, CallSite loc);
  Value SetResult(const Value& result);

 private:
  std::string name_;
  std::vector<Variable> state_;
  SourceLocation updated_;
  bool is_updated_ = false;
  Value result_;
};

// A metric that is total / count: "metrics/NAME/total", "metrics/NAME/count".
class MeanOfSums : public Metric {
 protected:
  MeanOfSums(Graph& graph, std::string_view name, CallSite loc)
      : Metric(graph, name, {"total", "count"}, {}, loc) {}
  Value AddMean(const MeanSums& sums, CallSite loc);
};

// The mean of numbers [..]. Keras: Mean.
class MeanMetric : public MeanOfSums {
 public:
  MeanMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& values, const MetricOptions& options = {}, CallSite loc = CallSite::Current());
};

// See AccuracySums. Keras: SparseCategoricalAccuracy; CategoricalAccuracy with labels Argmax(one_hot, -1).
class AccuracyMetric : public MeanOfSums {
 public:
  AccuracyMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& logits, const Value& labels, const LabelMetricOptions& options = {},
               CallSite loc = CallSite::Current());
};

// See TopKAccuracySums. Keras: SparseTopKCategoricalAccuracy.
class TopKAccuracyMetric : public MeanOfSums {
 public:
  TopKAccuracyMetric(Graph& graph, std::string_view name, int64_t k = 5, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc), k_(k) {}
  Value Update(const Value& logits, const Value& labels, const LabelMetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  int64_t k_;
};

// See BinaryAccuracySums; for logits, threshold 0. Keras: BinaryAccuracy.
class BinaryAccuracyMetric : public MeanOfSums {
 public:
  BinaryAccuracyMetric(Graph& graph, std::string_view name, double threshold = 0.5,
                       CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc), threshold_(threshold) {}
  Value Update(const Value& predictions, const Value& labels, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  double threshold_;
};

// The mean of |p - t|.
class MeanAbsoluteErrorMetric : public MeanOfSums {
 public:
  MeanAbsoluteErrorMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& predictions, const Value& targets, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());
};

// The mean of (p - t)².
class MeanSquaredErrorMetric : public MeanOfSums {
 public:
  MeanSquaredErrorMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& predictions, const Value& targets, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());
};

// The root of the mean of (p - t)².
class RootMeanSquaredErrorMetric : public MeanOfSums {
 public:
  RootMeanSquaredErrorMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& predictions, const Value& targets, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());
};

// e to the mean of CrossEntropySums; 1 if nothing counts. KerasHub: Perplexity of logits.
class PerplexityMetric : public MeanOfSums {
 public:
  PerplexityMetric(Graph& graph, std::string_view name, CallSite loc = CallSite::Current())
      : MeanOfSums(graph, name, loc) {}
  Value Update(const Value& logits, const Value& labels, const LabelMetricOptions& options = {},
               CallSite loc = CallSite::Current());
};

// The share of rows with a positive label among those with prediction > threshold: "metrics/NAME/true_positives",
// "metrics/NAME/false_positives". See CountBinary. Keras: Precision.
class PrecisionMetric : public Metric {
 public:
  PrecisionMetric(Graph& graph, std::string_view name, double threshold = 0.5,
                  CallSite loc = CallSite::Current())
      : Metric(graph, name, {"true_positives", "false_positives"}, {}, loc), threshold_(threshold) {}
  Value Update(const Value& predictions, const Value& labels, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  double threshold_;
};

// The share of rows with prediction > threshold among those with a positive label: "metrics/NAME/true_positives",
// "metrics/NAME/false_negatives". Keras: Recall.
class RecallMetric : public Metric {
 public:
  RecallMetric(Graph& graph, std::string_view name, double threshold = 0.5,
               CallSite loc = CallSite::Current())
      : Metric(graph, name, {"true_positives", "false_negatives"}, {}, loc), threshold_(threshold) {}
  Value Update(const Value& predictions, const Value& labels, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  double threshold_;
};

enum class AucCurve : uint8_t {
  kRoc,              // true positive rate over false positive rate
  kPrecisionRecall,  // precision over recall: useful if few labels are positive
};

// The area under a curve of `thresholds` points. Keras: AUC, with curve "ROC" or "PR" and summation_method
// "interpolation". Under kRoc it consists of trapezoids. Under kPrecisionRecall true and false positives change along a
// line from one threshold to the next, between which precision is then curved (Davis and Goadrich, ICML 2006, section
// 4). The thresholds are -1e-7, then i / (thresholds - 1), last 1 + 1e-7; predictions are probabilities, clipped to
// [0,1]. A prediction on a threshold is not above it; Keras decides that by ceil(p · (thresholds - 1)), whose rounding
// may put such a prediction above it. Counts "metrics/NAME/true_positives", .., f64 [thresholds]. A batch of n
// predictions takes n · thresholds comparisons and as much memory, in blocks like the predictions. Error: thresholds <
// 2.
class AucMetric : public Metric {
 public:
  AucMetric(Graph& graph, std::string_view name, int64_t thresholds = 200, AucCurve curve = AucCurve::kRoc,
            CallSite loc = CallSite::Current());
  Value Update(const Value& predictions, const Value& labels, const MetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  int64_t thresholds_;
  AucCurve curve_;
};

// See ConfusionCounts: "metrics/NAME/matrix" and result(), f64 [classes,classes]; a row per label, a column per
// prediction. Error: logits of another number of classes.
class ConfusionMatrixMetric : public Metric {
 public:
  ConfusionMatrixMetric(Graph& graph, std::string_view name, int64_t classes,
                        CallSite loc = CallSite::Current())
      : Metric(graph, name, {"matrix"}, {classes, classes}, loc), classes_(classes) {}
  Value Update(const Value& logits, const Value& labels, const LabelMetricOptions& options = {},
               CallSite loc = CallSite::Current());

 private:
  int64_t classes_;
};

// Sets the sums of the metrics of these names to 0; of all metrics of the program if there are no names. All domains
// call it between the same steps. Errors: there is no such metric, and then none is set; those of Session::Set.
absl::Status ResetMetrics(Session& session, std::span<const std::string> names = {});

// A sum of a metric, in its graph.
struct MetricSum {
  int argument;   // the variable: an index into Graph::arguments()
  ValueId added;  // what a step adds to it
  ValueId after;  // the sum after the step
};
// All sums of the graph's metrics, as Metric::Add has written their updates.
std::vector<MetricSum> MetricSumsOf(const Graph& graph);

// OK if the step's output kInvalidLabels (ops/losses.h) is 0. Errors: InvalidArgument, there were labels out of range;
// there is no such output.
absl::Status CheckLabels(const StepResult& result);

}  // namespace meshwork
