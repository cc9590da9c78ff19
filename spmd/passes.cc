#include "spmd/passes.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/status.h"
#include "ops/control_flow.h"
#include "ops/loops.h"
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

namespace meshwork {
namespace {

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

class Compilation;

struct Pass {
  std::string_view name;
  Graph (*make)(Compilation& compilation, const Graph& graph);
  bool (*applies)(const Compilation& compilation) = nullptr;  // null: to every program
  bool is_optional = false;
  bool is_local = false;                     // makes the program local, or works on a local one
  std::vector<std::string_view> steps = {};  // that are optional
};
const std::vector<Pass>& AllPasses();

// One program on its way through the passes.
class Compilation {
 public:
  Compilation(const Graph& global, const CompileOptions& options, const PassControl& control)
      : options_(options),
        control_(control),
        passed_{{.body = global}},
        pinned_(global.mesh()),
        local_{.topology = options.topology,
               .place_gathers = GathersOnUse(global),
               .narrow_sums = options.narrow_sums} {}

  Passed Run() && {
    for (const Pass& pass : AllPasses()) {
      if (!Runs(pass)) continue;
      if (pass.is_local && has_memory_budget() && !placed_.has_value()) placed_ = body();
      RunPass(pass);
      if (!refused_.empty())
        passed_.status = ReplicationError(pinned_, refused_, options_.topology, options_.replication_budget);
      if (!passed_.status.ok()) return std::move(passed_);
    }
    if (has_memory_budget()) passed_.status = CheckMemory(body(), options_.memory_budget);
    return std::move(passed_);
  }

  const CompileOptions& options() const { return options_; }
  const Graph& body() const { return passed_.program.body; }
  bool gathers_on_use() const { return local_.place_gathers; }
  bool has_memory_budget() const { return options_.memory_budget > 0; }
  bool is_open() const { return is_open_; }
  const LocalOptions& local_options() const { return local_; }

  Graph Opened(const Graph& graph) {
    OpenedGraph opened = OpenLoops(graph);
    loops_ = std::move(opened.loops);
    is_open_ = true;
    return std::move(opened.graph);
  }

  Graph Closed(const Graph& graph) {
    is_open_ = false;
    return CloseLoops(graph, loops_);
  }

  Graph WithShardedUpdate(const Graph& graph) {
    ShardedWeightUpdate result = ShardWeightUpdate(
        graph, {.topology = options_.topology, .replication_budget = options_.replication_budget});
    passed_.program.sharded_state = std::move(result.state);
    return std::move(result.graph);
  }

  Graph Propagated(const Graph& graph) {
    Program& program = passed_.program;
    pinned_ = graph;
    PropagateResult result = Propagate(graph);
    program.decisions = StateDecisions(program.sharded_state);
    if (options_.cut_mesh && Runs("cut_mesh")) {
      if (auto cut = CutMesh(pinned_, result.graph, options_.topology, options_.replication_budget)) {
        pinned_ = Made("cut_mesh", *std::move(cut));
        result = Propagate(pinned_);
        program.decisions.push_back(fmt::format("mesh = {}: reshapes send less", pinned_.mesh().ToString()));
      }
    }
    if (Runs("carry_summaries")) {
      if (std::optional<CarriedSummaries> carried = CarrySummaries(pinned_, result.graph)) {
        pinned_ = Made("carry_summaries", std::move(carried->graph));
        result = Propagate(pinned_);
        Append(program.decisions, carried->decisions);
      }
    }
    if (Runs("keep_weights")) {
      const std::vector<std::string> kept =
          KeepWeights(pinned_, result, options_.topology, options_.replication_budget);
      if (!kept.empty()) result.graph = Made("keep_weights", std::move(result.graph));
      Append(program.decisions, kept);
    }
    stated_ = program.decisions.size();
    Append(program.decisions, result.decisions);
    program.conflicts = std::move(result.conflicts);
    return std::move(result.graph);
  }

  Graph Placed(const Graph& graph) {
    Program& program = passed_.program;
    const Replication replication(pinned_, options_.replication_budget);
    InsertedRelayouts result = InsertRelayouts(graph, options_.topology, replication);
    if (Runs("share_relayouts")) {
      if (std::optional<SharedProgram> shared =
              CheaperByShared(pinned_, graph, result, options_.topology, replication)) {
        program.decisions.resize(stated_);
        Append(program.decisions, shared->propagated.decisions);
        program.conflicts = std::move(shared->propagated.conflicts);
        result = std::move(shared->inserted);
        result.graph = Made("share_relayouts", std::move(result.graph));
      }
    }
    refused_ = std::move(result.refused);
    return std::move(result.graph);
  }

  Graph Localized(const Graph& graph) const {
    return Localize(graph, {.relayout_bytes = local_.relayout_bytes,
                            .topology = local_.topology,
                            .narrow_sums = local_.narrow_sums});
  }

  Graph Fitted(const Graph& graph) {
    const LocalOptions before = local_;
    auto make_local = [&](const Graph& placed, const LocalOptions& options) {
      local_ = options;
      Graph made = placed;
      for (const Pass& pass : AllPasses())
        if (pass.is_local && Runs(pass)) made = pass.make(*this, made);
      return made;
    };
    Graph fitted = FitMemory(*placed_, graph, before, options_.memory_budget, make_local);
    local_ = before;
    return fitted;
  }

 private:
  bool Runs(std::string_view name) const {
    return std::find(control_.left_out.begin(), control_.left_out.end(), name) == control_.left_out.end();
  }
  bool Runs(const Pass& pass) const {
    return (pass.applies == nullptr || pass.applies(*this)) && (!pass.is_optional || Runs(pass.name));
  }

  Graph Tampered(std::string_view pass, Graph made) const {
    return control_.tamper ? control_.tamper(pass, std::move(made)) : made;
  }
  Graph Made(std::string_view step, Graph made) {
    passed_.optional.emplace_back(step);
    return Tampered(step, std::move(made));
  }

  void RunPass(const Pass& pass) {
    Program& program = passed_.program;
    const auto start = std::chrono::steady_clock::now();
    program.body = Tampered(pass.name, pass.make(*this, program.body));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    program.passes.push_back({std::string(pass.name), seconds.count()});
    if (pass.is_optional) passed_.optional.emplace_back(pass.name);
    if (options_.dump && is_open_) options_.dump(pass.name, CloseLoops(program.body, loops_));
    else if (options_.dump) options_.dump(pass.name, program.body);
  }

  const CompileOptions& options_;
  const PassControl& control_;
  Passed passed_;
  std::vector<OpenedLoop> loops_;
  bool is_open_ = false;         // the bodies of loops stand in the program, see ops/loops.h
  Graph pinned_;                 // what was propagated
  std::optional<Graph> placed_;  // what was made local, where there is a memory budget
  LocalOptions local_;
  size_t stated_ = 0;  // decisions that are not of Propagate
  std::vector<RefusedGather> refused_;
};

const std::vector<Pass>& AllPasses() {
  using C = Compilation;
  static const auto* const passes = new std::vector<Pass>{
      // Global program.
      {.name = "fold_sizes", .make = [](C&, const Graph& graph) { return FoldSizes(graph); }},
      {.name = "share_subexpressions",
       .make = [](C&, const Graph& graph) { return ShareSubexpressions(graph); },
       .is_optional = true},
      {.name = "drop_dead_code",
       .make = [](C&, const Graph& graph) { return DropDeadCode(graph); },
       .is_optional = true},
      {.name = "open_loops",
       .make = [](C& c, const Graph& graph) { return c.Opened(graph); },
       .applies = [](const C& c) { return HasLoops(c.body()); }},
      {.name = "mark_uses",
       .make = [](C&, const Graph& graph) { return MarkUses(graph); },
       .applies = [](const C& c) { return c.gathers_on_use(); }},
      {.name = "shard_weight_update",
       .make = [](C& c, const Graph& graph) { return c.WithShardedUpdate(graph); },
       .applies = [](const C& c) { return c.options().shard_weight_update; },
       .is_optional = true},
      {.name = "regroup_sums",
       .make =
           [](C& c, const Graph& graph) {
             return RegroupSums(graph, c.options().topology, c.options().replication_budget);
           },
       .is_optional = true},
      {.name = "propagate",
       .make = [](C& c, const Graph& graph) { return c.Propagated(graph); },
       .steps = {"cut_mesh", "carry_summaries", "keep_weights"}},
      {.name = "insert_relayouts",
       .make = [](C& c, const Graph& graph) { return c.Placed(graph); },
       .steps = {"share_relayouts"}},
      {.name = "close_loops",
       .make = [](C& c, const Graph& graph) { return c.Closed(graph); },
       .applies = [](const C& c) { return c.is_open(); }},
      // Local program.
      {.name = "localize",
       .make = [](C& c, const Graph& graph) { return c.Localized(graph); },
       .is_local = true},
      {.name = "share_subexpressions_local",
       .make = [](C&, const Graph& graph) { return ShareSubexpressions(graph); },
       .is_optional = true,
       .is_local = true},
      {.name = "drop_dead_code_local",
       .make = [](C&, const Graph& graph) { return DropDeadCode(graph); },
       .is_optional = true,
       .is_local = true},
      {.name = "bucket_reductions",
       .make =
           [](C& c, const Graph& graph) {
             const int64_t most = c.local_options().bucket_bytes;
             return WithRegions(graph, [&](const Graph& body) { return BucketReductions(body, most); });
           },
       .is_optional = true,
       .is_local = true},
      {.name = "place_gathers",
       .make = [](C&, const Graph& graph) { return PlaceGathers(graph); },
       .applies = [](const C& c) { return c.gathers_on_use(); },
       .is_optional = true,
       .is_local = true},
      {.name = "fit_memory",
       .make = [](C& c, const Graph& graph) { return c.Fitted(graph); },
       .applies =
           [](const C& c) {
             return c.has_memory_budget() && !CheckMemory(c.body(), c.options().memory_budget).ok();
           },
       .is_optional = true},
  };
  return *passes;
}

}  // namespace

std::vector<std::string> OptionalPasses() {
  std::vector<std::string> names;
  for (const Pass& pass : AllPasses()) {
    if (pass.is_optional) names.emplace_back(pass.name);
    for (std::string_view step : pass.steps) names.emplace_back(step);
  }
  return names;
}

Passed RunPasses(const Graph& global, const CompileOptions& options, const PassControl& control) {
  return Compilation(global, options, control).Run();
}

}  // namespace meshwork
