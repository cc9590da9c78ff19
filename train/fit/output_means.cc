#include "meshwork/train/fit/output_means.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/train/nn/metrics.h"

namespace meshwork {

std::set<std::string> MetricOutputs(const Graph& graph) {
  std::vector<bool> depends(graph.values().size());
  for (size_t a = 0; a < graph.arguments().size(); ++a)
    if (graph.arguments()[a].is_variable)
      depends[graph.arguments()[a].value] =
          graph.argument_name(static_cast<int>(a)).starts_with(kMetricPrefix);
  for (const Node& node : graph.nodes())
    if (std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId o) { return depends[o]; }))
      for (const ValueId result : node.results) depends[result] = true;
  std::set<std::string> names;
  for (const OutputInfo& output : graph.outputs())
    if (depends[output.value]) names.insert(output.name);
  return names;
}

LeadingInput LeadingInputOf(const Graph& graph) {
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (!argument.is_variable && info.type.rank() > 0) return {info.name, info.type.shape[0]};
  }
  return {};
}

int64_t ExamplesIn(const Graph& graph, const Feeds& feeds) {
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (argument.is_variable || info.type.rank() == 0) continue;
    const auto feed = feeds.find(info.name);
    if (feed != feeds.end() && feed->second.type().rank() > 0) return feed->second.shape()[0];
  }
  return 1;
}

OutputMeans::OutputMeans(const Graph& graph, std::vector<std::string> outputs)
    : metrics_(MetricOutputs(graph)), outputs_(std::move(outputs)) {}

void OutputMeans::Add(const StepResult& result, int64_t examples) {
  examples_ += examples;
  for (const auto& [name, tensor] : result.outputs()) {
    if (tensor.type().rank() != 0) continue;
    if (!outputs_.empty() && std::find(outputs_.begin(), outputs_.end(), name) == outputs_.end()) continue;
    const absl::StatusOr<double> value = tensor.Scalar();
    if (!value.ok()) continue;
    if (metrics_.contains(name)) last_[name] = *value;
    else sums_[name] += *value * static_cast<double>(examples);
  }
}

Metrics OutputMeans::Values() const {
  Metrics values = last_;
  for (const auto& [name, sum] : sums_) values[name] = sum / static_cast<double>(examples_);
  return values;
}

void OutputMeans::Clear() {
  examples_ = 0;
  sums_.clear();
  last_.clear();
}

std::string OutputMeans::Save() const {
  return fmt::format("{};{};{}", examples_, internal::ToExactText(sums_), internal::ToExactText(last_));
}

absl::Status OutputMeans::Restore(std::string_view text) {
  const size_t first = text.find(';'), second = text.rfind(';');
  int64_t examples = 0;
  if (first == std::string_view::npos || first == second ||
      std::from_chars(text.data(), text.data() + first, examples).ptr != text.data() + first)
    return InvalidArgument("\"{}\" is not what OutputMeans::Save wrote.", text);
  MESHWORK_ASSIGN_OR_RETURN(sums_, internal::FromExactText(text.substr(first + 1, second - first - 1)));
  MESHWORK_ASSIGN_OR_RETURN(last_, internal::FromExactText(text.substr(second + 1)));
  examples_ = examples;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MetricsAside>> MetricsAside::Begin(Session& session) {
  std::unique_ptr<MetricsAside> aside(new MetricsAside(session));
  for (const std::string& name : session.variable_names()) {
    if (!name.starts_with(kMetricPrefix)) continue;
    MESHWORK_ASSIGN_OR_RETURN(aside->sums_[name], session.Get(name));
  }
  MESHWORK_RETURN_IF_ERROR(ResetMetrics(session));
  return aside;
}

absl::Status MetricsAside::End() {
  for (const auto& [name, sum] : std::exchange(sums_, {})) MESHWORK_RETURN_IF_ERROR(session_.Set(name, sum));
  return absl::OkStatus();
}

}  // namespace meshwork
