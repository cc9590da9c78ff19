#include "meshwork/simulate/scale.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/control/rebatch.h"
#include "meshwork/plan/explain.h"
#include "meshwork/simulate/process.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<int> AxisOf(const Mesh& mesh, const std::string& name) {
  if (mesh.num_axes() == 0)
    return InvalidArgument("Scale: the mesh {} has no axis that could grow.", mesh.ToString());
  if (name.empty()) return 0;
  std::vector<std::string> names;
  for (int a = 0; a < mesh.num_axes(); ++a) {
    if (mesh.axis(a).name == name) return a;
    names.push_back(mesh.axis(a).name);
  }
  const std::string hint = DidYouMean(name, names);
  return InvalidArgument("Scale: mesh {} has no axis \"{}\" that could grow{}", mesh.ToString(), name,
                         hint.empty() ? "; name one that is not cut." : hint);
}

// Dim 0 of the first input that has one, as of an input that the axis cuts; 0: there is none.
int64_t BatchOf(const Graph& graph) {
  for (const Argument& argument : graph.arguments()) {
    const Type& type = graph.value(argument.value).type;
    if (!argument.is_variable && type.rank() > 0) return type.shape[0];
  }
  return 0;
}

// With as many examples for each position of the axis as `batch` examples are for `from` positions.
absl::StatusOr<Graph> WithBatchFor(const Graph& graph, int64_t from, int64_t to) {
  const int64_t batch = BatchOf(graph);
  if (batch == 0 || from == to) return graph;
  if (batch % from != 0 && batch * to % from != 0)
    return InvalidArgument(
        "a batch of {} on {} positions would be one of {} × {} / {} on {}, which is no whole number; choose a batch that "
        "the axis divides, or keep it.",
        batch, from, batch, to, from, to);
  return Rebatch(graph, batch, batch * to / from);
}

// Axes of one position shard nothing, so a mesh may have any.
absl::StatusOr<Mesh> WithSize(const Mesh& mesh, int axis, int64_t size) {
  std::vector<Axis> axes = mesh.axes();
  axes[static_cast<size_t>(axis)].size = size;
  return Mesh::Create(std::move(axes));
}

absl::Status Simulated(ScalePoint& point, int64_t from, int64_t to, const ScaleOptions& options,
                       const std::function<absl::StatusOr<ScaleProgram>(const Mesh& mesh)>& point_on) {
  MESHWORK_ASSIGN_OR_RETURN(ScaleProgram at, point_on(point.mesh));
  if (!options.same_batch) {
    MESHWORK_ASSIGN_OR_RETURN(at.graph, WithBatchFor(at.graph, from, to));
  }
  CompileOptions compile = options.compile;
  compile.verify = false;
  compile.topology = at.machine.topology;
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(at.graph, compile));
  MESHWORK_ASSIGN_OR_RETURN(const Simulation step, SimulateOn(program, at.machine, options.simulate));
  point.seconds = step.seconds;
  point.compute_seconds = step.compute_seconds;
  point.link_seconds = step.link_seconds;
  point.waited_seconds = step.waited_seconds;
  point.peak_bytes = step.peak_bytes;
  point.limit = step.limit;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ScalePoint>> Scale(
    const Mesh& mesh, const ScaleOptions& options,
    const std::function<absl::StatusOr<ScaleProgram>(const Mesh& mesh)>& point_on) {
  MESHWORK_ASSIGN_OR_RETURN(const int axis, AxisOf(mesh, options.axis));
  const int64_t from = mesh.axis(axis).size, others = mesh.num_devices() / from;
  if (others > options.devices)
    return InvalidArgument(
        "Scale: the axes of mesh {} besides \"{}\" are {} already; at most {} are asked for.",
        mesh.ToString(), mesh.axis(axis).name, Count(others, "device"), options.devices);
  std::vector<ScalePoint> curve;
  const ScalePoint* first = nullptr;
  // Within the vector, which does not grow beyond this.
  curve.reserve(64);
  for (int64_t size = 1; size <= options.devices / others; size *= 2) {
    ScalePoint& point = curve.emplace_back();
    MESHWORK_ASSIGN_OR_RETURN(point.mesh, WithSize(mesh, axis, size));
    point.status = Simulated(point, from, size, options, point_on);
    if (!point.status.ok()) continue;
    if (first == nullptr) first = &point;
    const double times = options.same_batch ? static_cast<double>(point.mesh.num_devices()) /
                                                  static_cast<double>(first->mesh.num_devices())
                                            : 1;
    point.efficiency = point.seconds > 0 ? first->seconds / (point.seconds * times) : 1;
  }
  return curve;
}

std::string ToText(const std::vector<ScalePoint>& curve) {
  size_t width = 4;
  for (const ScalePoint& point : curve) width = std::max(width, point.mesh.ToString().size());
  std::string out =
      fmt::format("{:>8}  {:<{}} {:>9} {:>10} {:>9} {:>9} {:>9} {:>14}  {}\n", "devices", "mesh", width,
                  "step", "efficiency", "compute", "links", "waited", "memory", "limit");
  for (const ScalePoint& point : curve) {
    out += fmt::format("{:>8}  {:<{}} ", point.mesh.num_devices(), point.mesh.ToString(), width);
    if (!point.status.ok()) {
      out += fmt::format("{}\n", MessageOf(point.status));
      continue;
    }
    out += fmt::format("{:>9} {:>8.1f} % {:>9} {:>9} {:>9} {:>12} B  {}\n", TimeToString(point.seconds),
                       100 * point.efficiency, TimeToString(point.compute_seconds),
                       TimeToString(point.link_seconds), TimeToString(point.waited_seconds), point.peak_bytes,
                       point.limit);
  }
  return out;
}

Json ToJson(const std::vector<ScalePoint>& curve) {
  Json json = Json::array();
  for (const ScalePoint& point : curve) {
    json.push_back({{"devices", point.mesh.num_devices()}, {"mesh", point.mesh.ToString()}});
    if (!point.status.ok()) {
      json.back()["error"] = MessageOf(point.status);
      continue;
    }
    json.back().update({{"seconds", point.seconds},
                        {"efficiency", point.efficiency},
                        {"compute_seconds", point.compute_seconds},
                        {"link_seconds", point.link_seconds},
                        {"waited_seconds", point.waited_seconds},
                        {"peak_bytes", point.peak_bytes},
                        {"limit", point.limit}});
  }
  return json;
}

}  // namespace meshwork
