#include "meshwork/tools/simulate/scale.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/tools/simulate/process.h"
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

// The input whose dim 0 is the batch; null: no input has dims. Error: the axis cuts dim 0 of inputs of several sizes.
absl::StatusOr<const ValueInfo*> InputOfBatch(const Graph& graph, int axis) {
  const ValueInfo *first = nullptr, *cut = nullptr;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    if (argument.is_variable || info.type.rank() == 0) continue;
    if (first == nullptr) first = &info;
    if (!info.layout.has_value()) continue;
    const AxisList& axes = info.layout->dim(0);
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
    if (cut == nullptr) cut = &info;
    if (cut->type.shape[0] != info.type.shape[0])
      return InvalidArgument(
          "{} cuts dim 0 of the inputs %{}: {} and %{}: {}, so which of them is the batch that grows cannot be told; keep "
          "both as they are (--strong).",
          graph.mesh().axis(axis).name, cut->name, cut->type.ToString(), info.name, info.type.ToString());
  }
  return cut != nullptr ? cut : first;
}

constexpr int64_t kMostElements = int64_t{1} << 40;  // of a type, and devices of a mesh

// Whether a value that is `times` as large would have more elements than a type can have.
bool IsTooLarge(const Graph& graph, double times) {
  return std::any_of(graph.values().begin(), graph.values().end(), [&](const ValueInfo& info) {
    return static_cast<double>(info.type.num_elements()) * times > static_cast<double>(kMostElements);
  });
}

// Grows the batch so that each of `to` positions of the axis has as many examples as each of `from` had.
absl::Status GrowBatch(int axis, int64_t from, int64_t to, Graph& graph, ScalePoint& point) {
  MESHWORK_ASSIGN_OR_RETURN(const ValueInfo* const input, InputOfBatch(graph, axis));
  if (input == nullptr) return absl::OkStatus();
  const int64_t batch = input->type.shape[0];
  const __int128 grown = static_cast<__int128>(batch) * to;  // of `from`
  if (grown % from != 0)
    return InvalidArgument(
        "a batch of {} on {} positions would be one of {} × {} / {} on {}, which is no whole number; choose a batch that "
        "the axis divides, or keep it.",
        batch, from, batch, to, from, to);
  point.batch_input = input->name;
  point.batch = static_cast<int64_t>(std::min<__int128>(grown / from, std::numeric_limits<int64_t>::max()));
  if (point.batch == batch) return absl::OkStatus();
  const double times = static_cast<double>(to) / static_cast<double>(from);
  if (point.batch <= kMostElements) {
    absl::StatusOr<Graph> rebatched = Rebatch(graph, batch, point.batch);
    if (rebatched.ok()) {
      graph = *std::move(rebatched);
      return absl::OkStatus();
    }
    if (!IsTooLarge(graph, times)) return rebatched.status();
  }
  return InvalidArgument(
      "a batch of {} needs a value of more than 2^40 elements, the most there can be; begin with a smaller batch than {} "
      "on {}, or end with fewer devices.",
      point.batch, batch, Count(from, "position"));
}

// The mesh with another size of the axis. Size 1 is possible, as an axis of one position shards nothing.
absl::StatusOr<Mesh> WithSize(const Mesh& mesh, int axis, int64_t size) {
  std::vector<Axis> axes = mesh.axes();
  axes[static_cast<size_t>(axis)].size = size;
  return Mesh::Create(std::move(axes));
}

absl::Status Simulated(ScalePoint& point, int axis, int64_t from, int64_t to, const ScaleOptions& options,
                       const std::function<absl::StatusOr<ScaleProgram>(const Mesh& mesh)>& point_on) {
  MESHWORK_ASSIGN_OR_RETURN(ScaleProgram at, point_on(point.mesh));
  if (!options.same_batch) {
    MESHWORK_RETURN_IF_ERROR(GrowBatch(axis, from, to, at.graph, point));
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
  if (others > options.max_devices)
    return InvalidArgument(
        "Scale: the axes of mesh {} besides \"{}\" are {} already; at most {} are asked for.",
        mesh.ToString(), mesh.axis(axis).name, Count(others, "device"), options.max_devices);
  std::vector<ScalePoint> curve;
  const ScalePoint* first = nullptr;
  // Within the vector, which does not grow beyond this.
  curve.reserve(64);
  const int64_t most = std::min(options.max_devices, kMostElements) / others;
  for (int64_t size = 1; size <= most; size *= 2) {
    ScalePoint& point = curve.emplace_back();
    MESHWORK_ASSIGN_OR_RETURN(point.mesh, WithSize(mesh, axis, size));
    point.status = Simulated(point, axis, from, size, options, point_on);
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
      const std::string_view message = MessageOf(point.status);
      out += fmt::format("{}\n", message.substr(0, message.find('\n')));
      continue;
    }
    out += fmt::format("{:>9} {:>8.1f} % {:>9} {:>9} {:>9} {:>12} B  {}\n", TimeToString(point.seconds),
                       100 * point.efficiency, TimeToString(point.compute_seconds),
                       TimeToString(point.link_seconds), TimeToString(point.waited_seconds), point.peak_bytes,
                       point.limit);
  }
  const auto grows = [](const ScalePoint& point) { return point.status.ok() && point.batch > 0; };
  const auto first = std::find_if(curve.begin(), curve.end(), grows);
  if (first == curve.end()) return out;
  const ScalePoint& last = *std::find_if(curve.rbegin(), curve.rend(), grows);
  return out + fmt::format("\nThe batch is dim 0 of %{}: {} with the first size, {} with the last.\n",
                           first->batch_input, first->batch, last.batch);
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
    if (point.batch > 0) json.back().update({{"batch_input", point.batch_input}, {"batch", point.batch}});
  }
  return json;
}

}  // namespace meshwork
