#include "spmd/compile.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/control_flow.h"
#include "ops/local.h"
#include "ops/loops.h"
#include "ops/manual.h"
#include "spmd/bucket.h"
#include "spmd/carry_summaries.h"
#include "spmd/cut_mesh.h"
#include "spmd/fit_memory.h"
#include "spmd/gather_on_use.h"
#include "spmd/insert_relayouts.h"
#include "spmd/keep_weights.h"
#include "spmd/localize.h"
#include "spmd/propagate.h"
#include "spmd/regroup_sums.h"
#include "spmd/replication.h"
#include "spmd/shard_weight_update.h"
#include "spmd/simplify.h"
#include "spmd/try_sharing.h"
#include "spmd/verify.h"

namespace meshwork {

namespace {

std::string NameOf(const ValueInfo& info) {
  return info.name.empty() ? info.type.ToString() : fmt::format("%{}: {}", info.name, info.type.ToString());
}

absl::Status CheckGlobal(const Graph& graph) {
  if (IsLocal(graph))
    return InvalidArgument("Compile: \"{}\" is a local program, compiled already; hand it to the executor.",
                           graph.name);
  for (const Node& node : graph.nodes()) {
    if (IsDeviceOp(node))
      return InvalidArgument(
          "Compile: {}: exists only in a manual region; in a global program ask for a layout with relayout.",
          graph.Describe(node.row->name, node.location));
    if (IsManual(node)) {  // otherwise checked when it was built
      if (absl::Status status = CheckManualIsGlobal(node); !status.ok())
        return Annotate(status, fmt::format("Compile: {}: ", graph.Describe(node.row->name, node.location)));
      continue;
    }
    for (const auto& region : node.regions) RETURN_IF_ERROR(CheckGlobal(*region));
  }
  for (const ValueInfo& info : graph.values()) {
    if (info.layout.has_value() && info.layout->is_partial())
      return InvalidArgument("Compile: {} is pinned as {}; only whole values can be asked for.",
                             graph.Describe(NameOf(info), info.location), info.layout->ToString());
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.row->name != "relayout" || !node.attrs.Get<LayoutPin>("layout").layout.is_partial()) continue;
    return InvalidArgument("Compile: {}: layout {} is partial; only whole values can be asked for.",
                           graph.Describe(static_cast<int>(n)),
                           node.attrs.Get<LayoutPin>("layout").ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckBudgets(const CompileOptions& options) {
  if (options.memory_budget < 0)
    return InvalidArgument("Compile: memory_budget={}; give bytes per device, or 0 for no limit.",
                           options.memory_budget);
  if (options.replication_budget < 0)
    return InvalidArgument("Compile: replication_budget={}; give bytes, 0 to gather nothing unasked.",
                           options.replication_budget);
  return absl::OkStatus();
}

absl::Status Verified(const Graph& global, Program& program) {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = Verify(global, program.body).status();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  program.verify_seconds = seconds.count();
  if (status.ok()) return status;
  return absl::InternalError(
      fmt::format("Compile made a wrong program; please report it. {}", MessageOf(status)));
}

std::vector<std::string> StateDecisions(const std::vector<ShardedState>& state) {
  std::vector<std::string> decisions;
  for (const ShardedState& s : state)
    decisions.push_back(fmt::format("%{} = {} instead of {}: weight-update sharding", s.variable,
                                    s.layout.ToString(), s.asked.ToString()));
  return decisions;
}

void Append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The passes that make a program local; run(name, pass) runs one.
template <typename Run>
void RunLocalPasses(const LocalOptions& options, Run&& run) {
  run("localize", [&](const Graph& graph) {
    return Localize(graph, {.relayout_bytes = options.relayout_bytes, .topology = options.topology});
  });
  run("share_subexpressions_local", ShareSubexpressions);
  run("drop_dead_code_local", DropDeadCode);
  run("bucket_reductions", [&](const Graph& graph) {
    return WithRegions(graph,
                       [&](const Graph& body) { return BucketReductions(body, options.bucket_bytes); });
  });
  if (options.place_gathers) run("place_gathers", PlaceGathers);
}

Graph MakeLocal(const Graph& placed, const LocalOptions& options) {
  Graph graph = placed;
  RunLocalPasses(options, [&](std::string_view, auto&& pass) { graph = pass(graph); });
  return graph;
}

}  // namespace

absl::StatusOr<Program> Compile(const Graph& global, const CompileOptions& options) {
  RETURN_IF_ERROR(global.status());
  RETURN_IF_ERROR(CheckGlobal(global));
  RETURN_IF_ERROR(CheckBudgets(options));
  if (absl::Status status = options.topology.CheckDescribes(global.mesh()); !status.ok())
    return Annotate(status, "Compile: ");
  Program program{.body = global};
  std::vector<OpenedLoop> loops;
  bool is_open = false;  // the bodies of loops stand in the program, see ops/loops.h
  auto run = [&](std::string_view pass, auto&& function) {
    const auto start = std::chrono::steady_clock::now();
    program.body = function(program.body);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    program.passes.push_back({std::string(pass), seconds.count()});
    if (options.dump && is_open) options.dump(pass, CloseLoops(program.body, loops));
    else if (options.dump) options.dump(pass, program.body);
  };
  // Global program.
  run("fold_sizes", FoldSizes);
  run("share_subexpressions", ShareSubexpressions);
  run("drop_dead_code", DropDeadCode);
  const bool has_loops = HasLoops(program.body);
  if (has_loops) {
    is_open = true;
    run("open_loops", [&](const Graph& graph) {
      OpenedGraph opened = OpenLoops(graph);
      loops = std::move(opened.loops);
      return std::move(opened.graph);
    });
  }
  const bool gathers_on_use = GathersOnUse(global);
  if (gathers_on_use) run("mark_uses", MarkUses);
  if (options.shard_weight_update)
    run("shard_weight_update", [&](const Graph& graph) {
      ShardedWeightUpdate result = ShardWeightUpdate(
          graph, {.topology = options.topology, .replication_budget = options.replication_budget});
      program.sharded_state = std::move(result.state);
      return std::move(result.graph);
    });
  run("regroup_sums",
      [&](const Graph& graph) { return RegroupSums(graph, options.topology, options.replication_budget); });
  Graph pinned = program.body;
  size_t stated = 0;  // decisions that are not of Propagate
  run("propagate", [&](const Graph& graph) {
    PropagateResult result = Propagate(graph);
    std::optional<Graph> cut;
    if (options.cut_mesh) cut = CutMesh(pinned, result.graph, options.topology, options.replication_budget);
    program.decisions = StateDecisions(program.sharded_state);
    if (cut.has_value()) {
      pinned = *std::move(cut);
      result = Propagate(pinned);
      program.decisions.push_back(fmt::format("mesh = {}: reshapes send less", pinned.mesh().ToString()));
    }
    if (std::optional<CarriedSummaries> carried = CarrySummaries(pinned, result.graph)) {
      pinned = std::move(carried->graph);
      result = Propagate(pinned);
      Append(program.decisions, carried->decisions);
    }
    Append(program.decisions, KeepWeights(pinned, result, options.topology, options.replication_budget));
    stated = program.decisions.size();
    Append(program.decisions, result.decisions);
    program.conflicts = std::move(result.conflicts);
    return std::move(result.graph);
  });
  std::vector<RefusedGather> refused;
  run("insert_relayouts", [&](const Graph& graph) {
    const Replication replication(pinned, options.replication_budget);
    InsertedRelayouts result = InsertRelayouts(graph, options.topology, replication);
    if (std::optional<SharedProgram> shared =
            CheaperByShared(pinned, graph, result, options.topology, replication)) {
      program.decisions.resize(stated);
      Append(program.decisions, shared->propagated.decisions);
      program.conflicts = std::move(shared->propagated.conflicts);
      result = std::move(shared->inserted);
    }
    refused = std::move(result.refused);
    return std::move(result.graph);
  });
  if (!refused.empty())
    return ReplicationError(pinned, refused, options.topology, options.replication_budget);
  if (has_loops) {
    is_open = false;
    run("close_loops", [&](const Graph& graph) { return CloseLoops(graph, loops); });
  }
  // Local program.
  const Graph placed = options.memory_budget > 0 ? program.body : Graph(global.mesh());
  const LocalOptions local_options{.topology = options.topology, .place_gathers = gathers_on_use};
  RunLocalPasses(local_options, run);
  if (options.memory_budget > 0) {
    if (!CheckMemory(program.body, options.memory_budget).ok())
      run("fit_memory", [&](const Graph& graph) {
        return FitMemory(placed, graph, local_options, options.memory_budget, MakeLocal);
      });
    RETURN_IF_ERROR(CheckMemory(program.body, options.memory_budget));
  }
  if (options.verify && program.sharded_state.empty()) RETURN_IF_ERROR(Verified(global, program));
  else if (options.verify) RETURN_IF_ERROR(Verified(WithShardedState(global, program), program));
  return program;
}

}  // namespace meshwork
