#include "meshwork/spmd/passes.h"

#include <optional>
#include <utility>

#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/local/bucket.h"
#include "meshwork/spmd/local/fit_memory.h"
#include "meshwork/spmd/local/split_at_domains.h"
#include "meshwork/spmd/pass_state.h"
#include "meshwork/spmd/rewrite/gather_on_use.h"
#include "meshwork/spmd/rewrite/simplify.h"

namespace meshwork {
namespace {

const std::vector<Pass>& AllPasses() {
  using C = PassState;
  using Made = std::optional<Graph>;
  static const auto* const passes = new std::vector<Pass>{
      // Global program.
      {.name = "cut_at_domains",
       .make = [](C& c, Graph& graph) -> Made { return c.CutAtDomains(graph); },
       .applies = [](const C& c) { return !(c.placement().mesh() == c.body().mesh()); }},
      {.name = "fold_sizes", .make = [](C&, Graph& graph) -> Made { return FoldSizes(std::move(graph)); }},
      {.name = "share_subexpressions",
       .make = [](C&, Graph& graph) -> Made { return ShareSubexpressions(graph); },
       .is_optional = true},
      {.name = "drop_dead_code",
       .make = [](C&, Graph& graph) -> Made { return DropDeadCode(std::move(graph)); },
       .is_optional = true},
      {.name = "open_loops",
       .make = [](C& c, Graph& graph) -> Made { return c.Opened(graph); },
       .applies = [](const C& c) { return HasLoops(c.body()); }},
      {.name = "mark_uses",
       .make = [](C&, Graph& graph) -> Made { return MarkUses(graph); },
       .applies = [](const C& c) { return c.gathers_on_use(); }},
      {.name = "shard_weight_update",
       .make = [](C& c, Graph& graph) -> Made { return c.WithShardedUpdate(graph); },
       .applies = [](const C& c) { return c.options().shard_weight_update; },
       .is_optional = true},
      {.name = "regroup_sums",
       .make = [](C& c, Graph& graph) -> Made { return c.WithRegroupedSums(std::move(graph)); },
       .is_optional = true},
      {.name = "cut_mesh",
       .make = [](C& c, Graph& graph) -> Made { return c.WithCutMesh(graph); },
       .applies = [](const C& c) { return c.options().cut_mesh; },
       .is_optional = true},
      {.name = "carry_summaries",
       .make = [](C& c, Graph& graph) -> Made { return c.WithSummaries(graph); },
       .is_optional = true},
      {.name = "propagate",
       .make = [](C& c, Graph& graph) -> Made { return c.Propagated(graph); },
       .lays_out = true},
      {.name = "insert_relayouts",
       .make = [](C& c, Graph& graph) -> Made { return c.Placed(graph); },
       .lays_out = true},
      {.name = "choose_layouts",
       .make = [](C& c, Graph&) -> Made { return c.WithChosenLayouts(); },
       // Which layouts cost least depends on how the mesh is cut at domains.
       .applies = [](const C& c) { return !c.options().deterministic || c.gathers_bound_weights(); },
       .is_optional = true,
       .lays_out = true},
      {.name = "repeat_layers",
       .make = [](C& c, Graph&) -> Made { return c.WithAllLayers(); },
       .applies = [](const C& c) { return c.is_short(); },
       .is_optional = true},
      {.name = "close_loops",
       .make = [](C& c, Graph& graph) -> Made { return c.Closed(graph); },
       .applies = [](const C& c) { return c.is_open(); }},
      // Local program.
      {.name = "localize",
       .make = [](C& c, Graph& graph) -> Made { return c.Localized(graph); },
       .is_local = true},
      {.name = "share_subexpressions_local",
       .make = [](C&, Graph& graph) -> Made { return ShareSubexpressions(graph); },
       .is_optional = true,
       .is_local = true},
      {.name = "drop_dead_code_local",
       .make = [](C&, Graph& graph) -> Made { return DropDeadCode(std::move(graph)); },
       .is_optional = true,
       .is_local = true},
      {.name = "bucket_reductions",
       .make = [](C& c, Graph& graph) -> Made {
         return BucketReductions(graph, c.local_options().bucket_bytes);
       },
       .is_optional = true,
       .is_local = true},
      {.name = "place_gathers",
       .make = [](C&, Graph& graph) -> Made { return PlaceGathers(graph); },
       .applies = [](const C& c) { return c.gathers_on_use(); },
       .is_optional = true,
       .is_local = true},
      {.name = "split_at_domains",
       .make = [](C& c, Graph& graph) -> Made { return SplitAtDomains(graph, c.placement()); },
       .applies = [](const C& c) { return c.placement().num_domains() > 1 && !c.options().deterministic; },
       .is_local = true},
      {.name = "fit_memory",
       .make = [](C& c, Graph& graph) -> Made { return c.Fitted(graph); },
       .applies =
           [](const C& c) {
             return c.has_memory_budget() && !CheckMemory(c.body(), c.options().memory_budget).ok();
           },
       .is_optional = true},
  };
  return *passes;
}

}  // namespace

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : AllPasses()) names.emplace_back(pass.name);
  return names;
}

std::vector<std::string> OptionalPasses() {
  std::vector<std::string> names;
  for (const Pass& pass : AllPasses())
    if (pass.is_optional) names.emplace_back(pass.name);
  return names;
}

Passed RunPasses(const Graph& global, const CompileOptions& options, const PassControl& control) {
  return PassState(global, options, control, AllPasses()).Run();
}

}  // namespace meshwork
