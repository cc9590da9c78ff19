#include "meshwork/train/strategy/strategy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

thread_local const Strategy* innermost = nullptr;

absl::Status CheckAxes(const StrategyParts& parts, std::string_view what,
                       const std::vector<std::string>& axes) {
  std::set<std::string> seen;
  for (const std::string& axis : axes) {
    MESHWORK_RETURN_IF_ERROR(
        Annotate(parts.mesh.FindAxes(axis).status(), fmt::format("{}: {}: ", parts.name, what)));
    if (!seen.insert(axis).second)
      return InvalidArgument("{}: {}: \"{}\" stands twice; name each axis once.", parts.name, what, axis);
  }
  return absl::OkStatus();
}

// The names and sizes of the axes, each whole, however it is cut into parts.
std::vector<std::pair<std::string, int64_t>> AxesOf(const Mesh& mesh) {
  AxisList all;
  for (int i = 0; i < mesh.num_axes(); ++i) all.push_back(i);
  std::vector<std::pair<std::string, int64_t>> axes;
  for (const std::string& name : mesh.NamesOf(all))
    axes.emplace_back(name, mesh.GroupSize(mesh.FindAxes(name).value()));
  return axes;
}

// Whether some output that is not in `distributed` may lie in blocks, of which a process has only some.
bool HasTensorOutput(const Graph& graph, const std::set<std::string>& distributed) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](const OutputInfo& output) {
    return graph.value(output.value).type.rank() > 0 && !distributed.contains(output.name);
  });
}

}  // namespace

const Strategy& Strategy::Default() {
  static const auto* const strategy = new Strategy({.name = "DefaultStrategy"}, 1);
  return *strategy;
}

absl::StatusOr<Strategy> Strategy::Create(StrategyParts parts) {
  MESHWORK_RETURN_IF_ERROR(CheckAxes(parts, "replica_axes", parts.replica_axes));
  MESHWORK_RETURN_IF_ERROR(CheckAxes(parts, "layouts.batch", parts.layouts.batch));
  MESHWORK_RETURN_IF_ERROR(CheckAxes(parts, "layouts.variables", parts.layouts.variables));
  if (parts.bytes_per_pack < 0)
    return InvalidArgument(
        "{}: bytes_per_pack={}; give the most bytes that are reduced together, or 0 to reduce each tensor by itself.",
        parts.name, parts.bytes_per_pack);
  if (parts.bytes_per_pack > 0 && parts.cross_device_ops == nullptr)
    return InvalidArgument(
        "{}: bytes_per_pack={} without cross_device_ops; packs are what these reduce, so choose one, as "
        "ReductionToOneDevice(). Without, the compiler chooses what is reduced together.",
        parts.name, parts.bytes_per_pack);
  int64_t replicas = 1;
  for (const std::string& axis : parts.replica_axes)
    replicas *= parts.mesh.GroupSize(parts.mesh.FindAxes(axis).value());
  return Strategy(std::move(parts), replicas);
}

Graph Strategy::NewGraph() const {
  Graph graph(mesh());
  graph.SetLayouts(parts_->layouts);
  return graph;
}

absl::Status Strategy::CheckMesh(const Graph& graph) const {
  if (AxesOf(graph.mesh()) == AxesOf(mesh())) return absl::OkStatus();
  return InvalidArgument(
      "the graph is on the mesh {}, {} on {}; make the graph by NewGraph() in the scope of this strategy.",
      graph.mesh().ToString(), name(), mesh().ToString());
}

absl::StatusOr<Session> Strategy::NewSession(const Graph& graph, SessionOptions options) const {
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckMesh(graph), "NewSession: "));
  if (parts_->processes != nullptr) {
    parts_->processes->Use(options);
    options.gather_outputs |= HasTensorOutput(graph, options.executor.distributed);
  }
  options.compile.shard_weight_update |= parts_->shard_weight_update;
  if (options.executor.cross_device_ops == nullptr && parts_->cross_device_ops != nullptr) {
    options.executor.cross_device_ops = parts_->cross_device_ops;
    options.executor.bytes_per_pack = parts_->bytes_per_pack;
  }
  if (options.backend == nullptr && options.devices == SessionOptions().devices)
    options.backend = parts_->backend;
  return Session::Create(graph, std::move(options));
}

absl::Status Strategy::RunInAll(const std::function<absl::Status()>& body) const {
  return parts_->processes != nullptr ? parts_->processes->Run(body) : body();
}

StrategyScope Strategy::Scope() const { return StrategyScope(*this); }

std::string Strategy::ToString() const {
  return fmt::format("{} on {}, {}", name(), mesh().ToString(), Count(num_replicas_, "replica"));
}

StrategyScope::StrategyScope(const Strategy& strategy) : strategy_(strategy), outer_(innermost) {
  innermost = &strategy_;
}

StrategyScope::~StrategyScope() {
  MESHWORK_CHECK(innermost == &strategy_, "scopes of strategies end in the order of a stack");
  innermost = outer_;
}

const Strategy& GetStrategy() { return innermost != nullptr ? *innermost : Strategy::Default(); }

bool HasStrategy() { return innermost != nullptr; }

Graph NewGraph() { return GetStrategy().NewGraph(); }

absl::StatusOr<Session> NewSession(const Graph& graph, SessionOptions options) {
  return GetStrategy().NewSession(graph, std::move(options));
}

}  // namespace meshwork
