// The program of a session on another mesh, for Session::Remesh (session/session.h).
//
//   // A program on [batch=8], on four by two devices, its large weights cut by columns:
//   Graph graph = OnOtherMesh(old, Mesh::Parse("batch=4,model=2").value(),
//                             {{"*/kernel", {UNSHARDED, "model"}}}).value();
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/layout_rules.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {

// `graph` on another mesh. Inputs and variables get the layouts that are named; the state of an optimizer
// ("adam/m/NAME") gets that of its weight unless it has one of its own. All other layouts are kept as far as the mesh
// has their axes: an axis, or a part of one, that the mesh does not have shards nothing any more.
// Errors: those of CheckMissingAxes (ir/missing_axes.h); a name or a pattern that nothing fits; a layout of another
// rank, or one that Layout::Create refuses; the program has a manual region, which is written for its mesh.
absl::StatusOr<Graph> OnOtherMesh(const Graph& graph, const Mesh& mesh, const NamedLayouts& layouts = {});

struct RemeshOptions {
  // The bytes that a domain sends and receives at a time. Messages take as much memory.
  int64_t max_bytes_in_flight = int64_t{64} << 20;
  // The bytes that old state, new state and messages may take in a domain while the state moves. If they would take
  // more, Remesh fails before anything moves. 0: no limit.
  int64_t memory_budget = 0;
  // The options for the new program; num_domains is filled in. Nothing: those of the old program, without its topology,
  // which is of the old mesh.
  std::optional<CompileOptions> compile = {};
};

// What moved.
struct RemeshReport {
  int64_t sent_bytes = 0, received_bytes = 0;  // of elements, by this domain
  int64_t total_bytes = 0;                     // between all domains
  // The most that old state, new state and messages took in a domain: StateMove::peak_bytes
  // (runtime/exec/state_move.h).
  int64_t peak_bytes = 0;
};

// Error: an option is out of range.
absl::Status CheckOptions(const RemeshOptions& options);
// OK if the program has exactly these variables. Error: it lacks some, has more, or has some of another type.
absl::Status CheckSameVariables(const Graph& graph, const std::map<std::string, DTensor>& variables);

}  // namespace meshwork
