#include "meshwork/train/parameter_server/metric_totals.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "meshwork/base/status.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/train/fit/evaluation.h"
#include "meshwork/train/fit/output_means.h"

namespace meshwork {

MetricTotals::MetricTotals(const Graph& graph) : graph_(graph), sums_(MetricSumsOf(graph)) {
  for (const MetricSum& sum : sums_) {
    variables_.push_back(std::string(graph.argument_name(sum.argument)));
    names_.push_back(fmt::format("meshwork/added/{}", variables_.back()));
  }
}

Graph MetricTotals::Counting() const {
  Graph counting = graph_;
  for (size_t i = 0; i < sums_.size(); ++i) counting.AddOutput({names_[i], sums_[i].added});
  return counting;
}

absl::Status MetricTotals::Add(const StepResult& result) {
  for (size_t i = 0; i < sums_.size(); ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const Tensor added, result.Get(names_[i]));
    const Type& type = graph_.value(sums_[i].after).type;
    if (added.type() != type)
      return InvalidArgument("MetricTotals: a step adds {} to \"{}\", which is {}.", added.type().ToString(),
                             variables_[i], type.ToString());
    Tensor& total = totals_.try_emplace(variables_[i], Tensor::Zeros(type)).first->second;
    const std::span<double> sums = total.mutable_values<double>();
    const std::span<const double> more = added.values<double>();
    std::transform(sums.begin(), sums.end(), more.begin(), sums.begin(), std::plus<>());
  }
  return absl::OkStatus();
}

Graph MetricTotals::OutputsOfSums() const {
  // By value: whether it is computed of nothing but the sums after a step.
  std::vector<bool> is_of_sums(graph_.values().size(), false);
  for (const MetricSum& sum : sums_) is_of_sums[static_cast<size_t>(sum.after)] = true;
  for (const Node& node : graph_.nodes()) {
    const bool is_of = std::all_of(node.operands.begin(), node.operands.end(),
                                   [&](ValueId o) { return is_of_sums[static_cast<size_t>(o)]; });
    for (const ValueId result : node.results)
      if (is_of) is_of_sums[static_cast<size_t>(result)] = true;
  }
  Graph program(graph_.mesh());
  program.name = "metrics";
  std::vector<ValueId> map(graph_.values().size(), kNoValue);
  for (size_t i = 0; i < sums_.size(); ++i)
    map[static_cast<size_t>(sums_[i].after)] =
        program.AddArgument(graph_.value(graph_.arguments()[static_cast<size_t>(sums_[i].argument)].value),
                            /*is_variable=*/true);
  for (const Node& node : graph_.nodes()) {
    const auto first = static_cast<size_t>(node.results[0]);
    if (is_of_sums[first] && map[first] == kNoValue) CopyNode(graph_, node, program, map);
  }
  const std::set<std::string> of_metrics = MetricOutputs(graph_);
  for (const OutputInfo& output : graph_.outputs())
    if (of_metrics.contains(output.name) && is_of_sums[static_cast<size_t>(output.value)] &&
        graph_.value(output.value).type.rank() == 0)
      program.AddOutput({output.name, map[static_cast<size_t>(output.value)]});
  return DropDeadCode(std::move(program));
}

absl::StatusOr<Metrics> MetricTotals::Values(const SessionOptions& options) {
  if (totals_.empty()) return Metrics();
  if (session_ == nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(OutputsOfSums(), options));
    session_ = std::make_unique<Session>(std::move(session));
  }
  if (session_->graph().outputs().empty()) return Metrics();
  for (const auto& [variable, total] : totals_) MESHWORK_RETURN_IF_ERROR(session_->Set(variable, total));
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session_->Evaluate({}));
  return ScalarsOf(result);
}

}  // namespace meshwork
