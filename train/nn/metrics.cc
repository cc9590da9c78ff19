#include "meshwork/train/nn/metrics.h"

#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/ops.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/train/nn/initializers.h"

namespace meshwork {
namespace {

// Thresholds of AucMetric, f64 [n].
Value Thresholds(Graph& graph, int64_t n) {
  constexpr double kBeyond = 1e-7;
  const Value index = Iota(graph, {F64, {n}}, 0);
  const auto last = static_cast<double>(n - 1);
  const Value inner = Select(Equal(index, last), 1 + kBeyond, Div(index, last));
  return Select(Equal(index, 0.0), -kBeyond, inner);
}

// The values of a curve, of which there are n, at the lower and at the upper threshold of each step.
Value Lower(const Value& values) { return SliceDim(values, 0, 0, values.shape()[0] - 1); }
Value Upper(const Value& values) { return SliceDim(values, 0, 1, values.shape()[0]); }

// By trapezoids. A share of nothing is 0.
Value AreaUnderRoc(const BinaryCounts& counts) {
  const Value y = DivNoNan(counts.true_positives, Add(counts.true_positives, counts.false_negatives));
  const Value x = DivNoNan(counts.false_positives, Add(counts.false_positives, counts.true_negatives));
  return ReduceSum(Mul(Sub(Lower(x), Upper(x)), Mul(Add(Lower(y), Upper(y)), 0.5)), {0});
}

// Let P be the number of positive predictions. Between two thresholds, true positives are a + b P, and precision is a /
// P + b. So the integral of precision by true positives is b (a log(P) + true positives).
Value AreaUnderPrecisionRecall(const BinaryCounts& counts) {
  const Value &hits = counts.true_positives, predicted = Add(hits, counts.false_positives);
  const Value more_hits = Sub(Lower(hits), Upper(hits));
  const Value slope = DivNoNan(more_hits, Maximum(Sub(Lower(predicted), Upper(predicted)), 0.0));
  const Value at_none = Sub(Upper(hits), Mul(slope, Upper(predicted)));
  // If there are no positive predictions at the upper threshold, a is 0.
  const Value has_both = And(Greater(Lower(predicted), 0.0), Greater(Upper(predicted), 0.0));
  const Value growth = Select(has_both, DivNoNan(Lower(predicted), Upper(predicted)), 1.0);
  const Value area = Mul(slope, Add(more_hits, Mul(at_none, Log(growth))));
  return ReduceSum(DivNoNan(area, Upper(Add(hits, counts.false_negatives))), {0});
}

// The first of two counts as a share of both.
Value ShareOf(const std::vector<Value>& counts, CallSite loc) {
  return DivNoNan({counts[0], loc}, Add({counts[0], loc}, counts[1]));
}

Shape CheckedThresholds(Graph& graph, std::string_view name, int64_t thresholds, CallSite loc) {
  if (thresholds >= 2) return {thresholds};
  graph.RecordError(fmt::format("{}: thresholds={}; a curve has at least 2 points.",
                                graph.Describe(fmt::format("metric \"{}\"", name), loc), thresholds));
  return {2};
}

}  // namespace

Metric::Metric(Graph& graph, std::string_view name, std::initializer_list<std::string_view> sums,
               const Shape& shape, CallSite loc)
    : name_(name) {
  for (const std::string_view sum : sums)
    state_.push_back(graph.Var(fmt::format("{}{}/{}", kMetricPrefix, name, sum), Zeros(shape, F64),
                               LayoutSpec(shape.size(), UNSHARDED), VarOptions{.trainable = false}, loc));
}

std::vector<Value> Metric::Add(std::span<const Value> sums, CallSite loc) {
  for (size_t i = 0; i < sums.size(); ++i)
    if (!sums[i].valid() || !state_[i].valid()) return {};
  Graph& graph = *state_[0].graph();
  if (const Graph& of_sums = *sums[0].graph(); &of_sums != &graph && !of_sums.body_of().empty()) {
    graph.RecordError(fmt::format(
        "{}: it is updated in the body of {}, where no variable can be; return from there what it is made of, and update "
        "the metric outside.",
        graph.Describe(fmt::format("metric \"{}\"", name_), loc), of_sums.body_of()));
    return {};
  }
  if (is_updated_) {
    graph.RecordError(fmt::format("{}: it was updated before ({}); a step updates a metric once.",
                                  graph.Describe(fmt::format("metric \"{}\"", name_), loc),
                                  updated_.ToString()));
    return {};
  }
  is_updated_ = true;
  updated_ = loc;
  const LocationScope scope(graph, loc);
  std::vector<Value> after;
  for (size_t i = 0; i < sums.size(); ++i) {
    after.push_back(StopGradient(meshwork::Add(state_[i], sums[i])));
    graph.Update(state_[i], after.back(), loc);
  }
  return after;
}

Value Metric::SetResult(const Value& result) { return result_ = result; }

Value MeanOfSums::AddMean(const MeanSums& sums, CallSite loc) {
  const std::vector<Value> after = Add({{sums.total, sums.count}}, loc);
  return after.empty() ? Value() : SetResult(DivNoNan({after[0], loc}, after[1]));
}

Value MeanMetric::Update(const Value& values, const MetricOptions& options, CallSite loc) {
  return AddMean(SumsOf({values, loc}, options), loc);
}

Value AccuracyMetric::Update(const Value& logits, const Value& labels, const LabelMetricOptions& options,
                             CallSite loc) {
  return AddMean(AccuracySums({logits, loc}, labels, options), loc);
}

Value TopKAccuracyMetric::Update(const Value& logits, const Value& labels, const LabelMetricOptions& options,
                                 CallSite loc) {
  return AddMean(TopKAccuracySums({logits, loc}, labels, k_, options), loc);
}

Value BinaryAccuracyMetric::Update(const Value& predictions, const Value& labels,
                                   const MetricOptions& options, CallSite loc) {
  return AddMean(BinaryAccuracySums({predictions, loc}, labels, threshold_, options), loc);
}

Value MeanAbsoluteErrorMetric::Update(const Value& predictions, const Value& targets,
                                      const MetricOptions& options, CallSite loc) {
  return AddMean(AbsoluteErrorSums({predictions, loc}, targets, options), loc);
}

Value MeanSquaredErrorMetric::Update(const Value& predictions, const Value& targets,
                                     const MetricOptions& options, CallSite loc) {
  return AddMean(SquaredErrorSums({predictions, loc}, targets, options), loc);
}

Value RootMeanSquaredErrorMetric::Update(const Value& predictions, const Value& targets,
                                         const MetricOptions& options, CallSite loc) {
  return SetResult(Sqrt({AddMean(SquaredErrorSums({predictions, loc}, targets, options), loc), loc}));
}

Value PerplexityMetric::Update(const Value& logits, const Value& labels, const LabelMetricOptions& options,
                               CallSite loc) {
  return SetResult(Exp({AddMean(CrossEntropySums({logits, loc}, labels, options), loc), loc}));
}

Value PrecisionMetric::Update(const Value& predictions, const Value& labels, const MetricOptions& options,
                              CallSite loc) {
  const BinaryCounts counts = CountBinary({predictions, loc}, labels, threshold_, options);
  const std::vector<Value> after = Add({{counts.true_positives, counts.false_positives}}, loc);
  return after.empty() ? Value() : SetResult(ShareOf(after, loc));
}

Value RecallMetric::Update(const Value& predictions, const Value& labels, const MetricOptions& options,
                           CallSite loc) {
  const BinaryCounts counts = CountBinary({predictions, loc}, labels, threshold_, options);
  const std::vector<Value> after = Add({{counts.true_positives, counts.false_negatives}}, loc);
  return after.empty() ? Value() : SetResult(ShareOf(after, loc));
}

AucMetric::AucMetric(Graph& graph, std::string_view name, int64_t thresholds, AucCurve curve, CallSite loc)
    : Metric(graph, name, {"true_positives", "false_positives", "true_negatives", "false_negatives"},
             CheckedThresholds(graph, name, thresholds, loc), loc),
      thresholds_(thresholds),
      curve_(curve) {}

Value AucMetric::Update(const Value& predictions, const Value& labels, const MetricOptions& options,
                        CallSite loc) {
  if (!predictions.valid() || thresholds_ < 2) return {};
  Graph& graph = *predictions.graph();
  const LocationScope scope(graph, loc);
  // Clipped, so that no prediction is beyond the outermost thresholds.
  const Value shares = IsFloat(predictions.dtype()) ? Clip(predictions, 0, 1) : predictions;
  const BinaryCounts counts = CountBinary({shares, loc}, labels, Thresholds(graph, thresholds_), options);
  const std::vector<Value> after = Add(
      {{counts.true_positives, counts.false_positives, counts.true_negatives, counts.false_negatives}}, loc);
  if (after.empty()) return {};
  const BinaryCounts all = {after[0], after[1], after[2], after[3]};
  return SetResult(curve_ == AucCurve::kRoc ? AreaUnderRoc(all) : AreaUnderPrecisionRecall(all));
}

Value ConfusionMatrixMetric::Update(const Value& logits, const Value& labels,
                                    const LabelMetricOptions& options, CallSite loc) {
  if (!logits.valid()) return {};
  if (logits.rank() > 0 && logits.shape().back() != classes_) {
    logits.graph()->RecordError(
        fmt::format("{}: logits are {}; the metric was made for [..,{}], give it as many classes.",
                    logits.graph()->Describe(fmt::format("metric \"{}\"", name()), loc),
                    logits.type().ToString(), classes_));
    return {};
  }
  const Value counts = ConfusionCounts({logits, loc}, labels, options);
  const std::vector<Value> after = Add({{counts}}, loc);
  return after.empty() ? Value() : SetResult(after[0]);
}

std::vector<MetricSum> MetricSumsOf(const Graph& graph) {
  const auto definition = [&](ValueId value, std::string_view op) -> const Node* {
    const int node = graph.value(value).node;
    const bool is_it = node >= 0 && graph.nodes()[static_cast<size_t>(node)].row->name == op;
    return is_it ? &graph.nodes()[static_cast<size_t>(node)] : nullptr;
  };
  std::vector<MetricSum> sums;
  for (const VariableUpdate& update : graph.updates()) {
    if (!graph.argument_name(update.argument).starts_with(kMetricPrefix)) continue;
    const Node* const stopped = definition(update.value, "stop_gradient");
    const Node* const sum = stopped == nullptr ? nullptr : definition(stopped->operands[0], "add");
    if (sum != nullptr && sum->operands[0] == graph.arguments()[static_cast<size_t>(update.argument)].value)
      sums.push_back({update.argument, sum->operands[1], update.value});
  }
  return sums;
}

absl::Status ResetMetrics(Session& session, std::span<const std::string> names) {
  std::map<std::string, std::vector<std::string>> sums;  // of each metric
  for (const std::string& variable : session.variable_names()) {
    if (!variable.starts_with(kMetricPrefix)) continue;
    sums[variable.substr(kMetricPrefix.size(), variable.rfind('/') - kMetricPrefix.size())].push_back(
        variable);
  }
  std::vector<std::string> wanted(names.begin(), names.end()), known;
  for (const auto& [name, variables] : sums) known.push_back(name);
  for (const std::string& name : wanted) {
    if (!sums.contains(name))
      return InvalidArgument("ResetMetrics: there is no metric \"{}\"{}", name,
                             DidYouMeanOneOf(name, known, "metrics"));
  }
  const std::map<std::string, DTensor> state = session.State();
  for (const std::string& name : wanted.empty() ? known : wanted)
    for (const std::string& variable : sums[name])
      MESHWORK_RETURN_IF_ERROR(session.Set(variable, Tensor::Zeros(state.at(variable).type())));
  return absl::OkStatus();
}

absl::Status CheckLabels(const StepResult& result) {
  MESHWORK_ASSIGN_OR_RETURN(const Tensor tensor, result.Get(kInvalidLabels));
  MESHWORK_ASSIGN_OR_RETURN(const double count, tensor.Scalar());
  if (count == 0) return absl::OkStatus();
  return InvalidArgument(
      "CheckLabels: {} of this step {} out of range, so that the loss is NaN; check the data, or name the label of padding by "
      "ignore_label.",
      Count(static_cast<int64_t>(count), "label"), count == 1 ? "is" : "are");
}

}  // namespace meshwork
