// How a step scales: simulates a program on meshes in which one axis has 1, 2, 4, … positions.
//
//   const auto point_on = [&](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> { …the graph and the machine… };
//   MESHWORK_ASSIGN_OR_RETURN(const std::vector<ScalePoint> curve, Scale(mesh, {.axis = "batch"}, point_on));
//   fmt::print("{}", ToText(curve));
//
//    devices  mesh                    step efficiency   compute     links    waited         memory  limit
//          4  [batch=1, model=4]    110 µs    100.0 %     80 µs     30 µs     30 µs       606000 B  compute: …
//          8  [batch=2, model=4]    126 µs     87.3 %     80 µs     46 µs     46 µs       798000 B  compute: …
//
//   The batch is dim 0 of %h: 64 with the first size, 128 with the last.
//
// Each point is compiled anew, without a proof; the time of a compile does not depend on how many devices there are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/simulate/simulate.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

struct ScaleOptions {
  std::string axis;                        // the axis that grows; "": the first of the mesh
  int64_t max_devices = int64_t{1} << 20;  // most devices of a mesh
  // True: the batch stays as it is, and each device has less to do (strong scaling). False: each position has as many
  // examples as on the given mesh (weak scaling), by Rebatch (ops/control/rebatch.h). The batch is dim 0 of the inputs
  // whose dim 0 the axis cuts; if it cuts none, that of the first input that has dims. No value has more than 2^40
  // elements (ir/type.h), so a curve ends where the batch would need more.
  bool same_batch = false;
  CompileOptions compile = {};  // without `topology`, which is the machine's, and `verify`
  SimulateOptions simulate = {};
};

// A global program on one of the meshes, with the batch of the first one, and the machine there.
struct ScaleProgram {
  Graph graph;
  Machine machine;
};

struct ScalePoint {
  Mesh mesh;
  absl::Status status;  // why there is no step of this size; the rest is 0 then
  double seconds = 0, compute_seconds = 0, link_seconds = 0, waited_seconds = 0;
  int64_t peak_bytes = 0;
  // Speed per example and device, relative to the first point that has a step.
  double efficiency = 0;
  std::string limit;
  // The input whose dim 0 is the batch, and the size of that; "" and 0: the batch stays, or there is none.
  std::string batch_input = {};
  int64_t batch = 0;
};

// The points, beginning with one position of the axis. `point_on` is called once for each mesh. Errors: the mesh has
// no such axis, or the axis is cut; even without the axis, the mesh has more than options.max_devices. Errors of a
// point are its status: those of `point_on`, Rebatch, Compile and SimulateOn; the axis cuts inputs of several sizes, so
// that the batch is unknown.
absl::StatusOr<std::vector<ScalePoint>> Scale(
    const Mesh& mesh, const ScaleOptions& options,
    const std::function<absl::StatusOr<ScaleProgram>(const Mesh& mesh)>& point_on);

// A line for each point.
std::string ToText(const std::vector<ScalePoint>& curve);
nlohmann::ordered_json ToJson(const std::vector<ScalePoint>& curve);

}  // namespace meshwork
