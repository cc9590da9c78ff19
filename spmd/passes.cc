#include "meshwork/spmd/passes.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/regions.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/spmd/bucket.h"
#include "meshwork/spmd/carry_summaries.h"
#include "meshwork/spmd/choose_layouts.h"
#include "meshwork/spmd/cut_mesh.h"
#include "meshwork/spmd/fit_memory.h"
#include "meshwork/spmd/gather_on_use.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/keep_weights.h"
#include "meshwork/spmd/localize.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/regroup_sums.h"
#include "meshwork/spmd/replication.h"
#include "meshwork/spmd/shard_weight_update.h"
#include "meshwork/spmd/short_program.h"
#include "meshwork/spmd/simplify.h"
#include "meshwork/spmd/split_at_domains.h"

namespace meshwork {
namespace {

std::vector<std::string> StateDecisions(const std::vector<ShardedState>& state) {
  std::vector<std::string> decisions;
  for (const ShardedState& s : state)
    decisions.push_back(fmt::format("%{} = {} instead of {}: weight-update sharding", s.variable,
                                    s.layout.ToString(), s.asked.ToString()));
  return decisions;
}

void Append(std::vector<std::string>& to, std::vector<std::string> more) {
  std::move(more.begin(), more.end(), std::back_inserter(to));
}

class CompileState;

struct Pass {
  std::string_view name;
  // What it makes of the program, which it may move from then; nothing if it leaves it as it is, or keeps it until
  // repeat_layers.
  std::optional<Graph> (*make)(CompileState& state, Graph& graph);
  bool (*applies)(const CompileState& state) = nullptr;  // null: to every program
  bool is_optional = false;
  bool is_local = false;  // makes the program local, or works on a local one
  bool lays_out = false;  // of a program in which layers repeat, few of them
};
const std::vector<Pass>& AllPasses();

// One program on its way through the passes, and what they say of it for each other.
class CompileState {
 public:
  CompileState(const Graph& global, const CompileOptions& options, const PassControl& control)
      : options_(options),
        control_(control),
        placement_(Placement::Create(global.mesh(), options.num_domains).value()),
        passed_{{.body = global, .num_domains = options.num_domains}},
        pinned_(global.mesh()),
        propagated_{.graph = pinned_},
        inserted_{.graph = pinned_},
        local_{.topology = options.topology,
               .place_gathers = GathersOnUse(global),
               .narrow_sums = options.narrow_sums} {}

  Passed Run() && {
    for (const Pass& pass : AllPasses()) {
      if (!Runs(pass)) continue;
      if (!passed_.status.ok() || (pass.is_local && !Begins())) return std::move(passed_);
      RunPass(pass);
    }
    if (has_memory_budget()) passed_.status = CheckMemory(body(), options_.memory_budget);
    return std::move(passed_);
  }

  const CompileOptions& options() const { return options_; }
  const Graph& body() const { return passed_.program.body; }
  bool gathers_on_use() const { return local_.place_gathers; }
  const Placement& placement() const { return placement_; }
  bool has_memory_budget() const { return options_.memory_budget > 0; }
  bool is_open() const { return is_open_; }
  const LocalOptions& local_options() const { return local_; }

  Graph CutAtDomains(Graph graph) const {
    graph.CutMesh(placement_.mesh());
    return graph;
  }

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
    Append(stated_, StateDecisions(passed_.program.sharded_state));
    return std::move(result.graph);
  }

  std::optional<Graph> WithCutMesh(const Graph& graph) {
    const Graph& propagated = Propagation(graph).graph;
    const std::optional<Graph> cut =
        CutMesh(LookedAt(graph), propagated, options_.topology, options_.replication_budget);
    if (!cut.has_value()) return std::nullopt;
    stated_.push_back(fmt::format("mesh = {}: reshapes send less", cut->mesh().ToString()));
    Graph on_finer = graph;
    on_finer.CutMesh(cut->mesh());
    return on_finer;
  }

  std::optional<Graph> WithSummaries(const Graph& graph) {
    const Graph& propagated = Propagation(graph).graph;
    std::optional<CarriedSummaries> carried = CarrySummaries(LookedAt(graph), propagated);
    if (carried.has_value() && short_.has_value()) carried = CarrySummaries(graph, Propagate(graph).graph);
    if (!carried.has_value()) return std::nullopt;
    Append(stated_, carried->decisions);
    return std::move(carried->graph);
  }

  // Of a short program, keeps the whole one until its layers are laid out.
  std::optional<Graph> Propagated(Graph& graph) {
    Propagation(graph);
    propagated_ = *std::exchange(propagation_, std::nullopt);
    pinned_ = LookedAt(graph);
    if (short_.has_value()) {
      num_stated_ = stated_.size();
      stated_.push_back(
          fmt::format("{} ops of repeated layers are laid out like ops of the {} that were looked at",
                      graph.nodes().size() - pinned_.nodes().size(), pinned_.nodes().size()));
      whole_ = std::move(graph);
    }
    return Shown(propagated_.graph);
  }

  std::optional<Graph> WithKeptWeights() {
    const std::vector<std::string> kept =
        KeepWeights(pinned_, propagated_, options_.topology, options_.replication_budget);
    Append(stated_, kept);
    if (kept.empty()) return std::nullopt;
    has_decided_ = true;
    return Shown(propagated_.graph);
  }

  std::optional<Graph> Placed(const Graph& graph) {
    if (!short_.has_value()) propagated_.graph = graph;
    inserted_ = InsertRelayouts(propagated_.graph, options_.topology,
                                Replication(pinned_, options_.replication_budget));
    return ShownPlaced();
  }

  std::optional<Graph> WithChosenLayouts() {
    std::optional<ChosenLayouts> chosen = ChooseLayouts(
        pinned_, propagated_.graph, inserted_, loops_, options_.topology,
        Replication(pinned_, options_.replication_budget), options_.memory_budget, short_.has_value());
    if (!chosen.has_value() || !PaysInTheWhole(*chosen)) return std::nullopt;
    propagated_.graph = std::move(chosen->propagated);
    inserted_ = std::move(chosen->inserted);
    is_chosen_ = has_decided_ = true;
    Append(stated_, chosen->decisions);
    return ShownPlaced();
  }

  // The whole program, as the short one is laid out; by itself, if that does not fit together.
  Graph WithAllLayers() {
    if (!FitsTogether(*short_, propagated_.graph, *whole_)) return LaidOutByItself();
    if (SendsTooMuch()) {
      passed_.status = absl::CancelledError("");  // which no user sees
      return *std::move(whole_);
    }
    PinLikeShort(*short_, pinned_, *whole_);
    Graph laid_out = LaidOutAs(*short_, propagated_.graph, *whole_);
    inserted_ = InsertedInWhole(laid_out, inserted_.choices, is_chosen_);
    propagated_.graph = std::move(laid_out);
    pinned_ = *std::move(whole_);
    short_.reset();
    return std::move(inserted_.graph);
  }
  bool is_short() const { return short_.has_value(); }

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
        if (pass.is_local && Runs(pass)) made = pass.make(*this, made).value_or(std::move(made));
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

  // What Propagate makes of the program as it is now, or of the short one that stands for it.
  const PropagateResult& Propagation(const Graph& graph) {
    if (!propagation_.has_value()) {
      short_ = ShortOf(graph);
      propagation_ = Propagate(LookedAt(graph));
    }
    return *propagation_;
  }

  // The program that layouts are found for.
  const Graph& LookedAt(const Graph& graph) const { return short_.has_value() ? short_->graph : graph; }

  // A program of few of the layers, where most of them repeat. Memory counts in the whole, and loops hold their layers
  // in their bodies.
  std::optional<ShortProgram> ShortOf(const Graph& graph) const {
    if (!Runs("repeat_layers") || looks_at_all_ || control_.tamper || has_memory_budget() || is_open_)
      return std::nullopt;
    return ShortProgramOf(graph, options_.replication_budget);
  }

  // Whether the whole program sends less, too, where the short one says so. What moves in all layers tells most often;
  // collectives that come to be one do not count there, so it does not say no.
  bool PaysInTheWhole(const ChosenLayouts& chosen) const {
    if (!short_.has_value() || !inserted_.refused.empty()) return true;
    return SecondsInWhole(*short_, chosen.inserted) <= SecondsInWhole(*short_, inserted_) ||
           SendsLess(InsertedInWhole(LaidOutAs(*short_, chosen.propagated, *whole_), chosen.inserted.choices,
                                     /*is_chosen=*/true),
                     InsertedInWhole(LaidOutAs(*short_, propagated_.graph, *whole_), inserted_.choices,
                                     /*is_chosen=*/false),
                     loops_, options_.topology, options_.memory_budget);
  }

  // Whether the short program says that the whole one sends more than it may.
  bool SendsTooMuch() const {
    if (!control_.most_wire_bytes.has_value()) return false;
    const Graph local = DropDeadCode(ShareSubexpressions(Localized(inserted_.graph)));
    return WireBytesOfWhole(*short_, local, inserted_) > static_cast<double>(*control_.most_wire_bytes);
  }

  // Run as the short program is, and laid out like it.
  InsertedRelayouts InsertedInWhole(const Graph& laid_out, const std::vector<std::optional<Choice>>& choices,
                                    bool is_chosen) const {
    const Replication replication(*whole_, options_.replication_budget);
    std::vector<std::optional<Choice>> all = ChoicesOfWhole(*short_, choices);
    return is_chosen ? InsertOwing(laid_out, options_.topology, replication, std::move(all))
                     : InsertRelayouts(laid_out, options_.topology, replication, std::move(all));
  }

  // All layers looked at, as if there had been no short program.
  Graph LaidOutByItself() {
    Graph graph = *std::move(whole_);
    whole_.reset();
    short_.reset();
    stated_.resize(num_stated_);
    is_chosen_ = false;
    looks_at_all_ = true;
    for (const Pass& pass : AllPasses()) {
      if (!pass.lays_out || !Runs(pass)) continue;
      std::optional<Graph> made = pass.make(*this, graph);
      if (!made.has_value()) continue;
      NoteChange(pass);
      graph = *std::move(made);
    }
    return graph;
  }

  // What a pass has laid out, as the program goes on; of a short one, only to be looked at.
  std::optional<Graph> Shown(const Graph& laid_out) const {
    if (!short_.has_value()) return laid_out;
    if (options_.dump == nullptr) return std::nullopt;
    return LaidOutAs(*short_, laid_out, *whole_);
  }
  std::optional<Graph> ShownPlaced() const {
    if (!short_.has_value()) return inserted_.graph;
    if (options_.dump == nullptr) return std::nullopt;
    return InsertedInWhole(LaidOutAs(*short_, propagated_.graph, *whole_), inserted_.choices, is_chosen_)
        .graph;
  }

  // Before the first local pass: writes down how the program was laid out, and why. What is refused is refused here. Keeps
  // what has to be made local again if it does not fit.
  bool Begins() {
    Append(passed_.program.decisions, std::exchange(stated_, {}));
    Append(passed_.program.decisions, std::exchange(propagated_.decisions, {}));
    Append(passed_.program.conflicts, std::exchange(propagated_.conflicts, {}));
    if (!inserted_.refused.empty())
      passed_.status =
          ReplicationError(pinned_, inserted_.refused, options_.topology, options_.replication_budget);
    if (has_memory_budget() && !placed_.has_value()) placed_ = body();
    return passed_.status.ok();
  }

  // The pass has changed the program: what it did can be left out, if it is optional.
  void NoteChange(const Pass& pass) {
    std::vector<std::string>& optional = passed_.optional;
    if (pass.is_optional && std::find(optional.begin(), optional.end(), pass.name) == optional.end())
      optional.emplace_back(pass.name);
  }

  void RunPass(const Pass& pass) {
    Program& program = passed_.program;
    const auto start = std::chrono::steady_clock::now();
    std::optional<Graph> made = pass.make(*this, program.body);
    if (made.has_value()) {
      program.body = control_.tamper ? control_.tamper(pass.name, *std::move(made)) : *std::move(made);
      propagation_.reset();
    }
    const bool has_decided = std::exchange(has_decided_, false);
    if (made.has_value() || has_decided) NoteChange(pass);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    program.passes.push_back({std::string(pass.name), seconds.count()});
    if (!made.has_value() || options_.dump == nullptr) return;
    if (is_open_) options_.dump(pass.name, CloseLoops(program.body, loops_));
    else options_.dump(pass.name, program.body);
  }

  const CompileOptions& options_;
  const PassControl& control_;
  const Placement placement_;
  Passed passed_;
  std::vector<OpenedLoop> loops_;
  bool is_open_ = false;  // the bodies of loops stand in the program, see control/loops.h
  std::optional<PropagateResult> propagation_;  // of the program, while no pass changes it
  std::optional<ShortProgram> short_;           // stands for the program, until all layers are laid out
  std::optional<Graph> whole_;                  // the program, as soon as the short one is laid out
  bool is_chosen_ = false;                      // the layouts are those of choose_layouts
  bool has_decided_ = false;                    // a pass, of the short program
  bool looks_at_all_ = false;                   // the short one did not fit together
  size_t num_stated_ = 0;                       // before the short one was laid out
  std::vector<std::string> stated_;             // decisions that are not of Propagate
  Graph pinned_;                                // what was propagated
  PropagateResult propagated_;
  InsertedRelayouts inserted_;
  std::optional<Graph> placed_;  // what was made local, where there is a memory budget
  LocalOptions local_;
};

const std::vector<Pass>& AllPasses() {
  using C = CompileState;
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
       .make = [](C& c, Graph& graph) -> Made {
         return RegroupSums(std::move(graph), c.options().topology, c.options().replication_budget);
       },
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
      {.name = "keep_weights",
       .make = [](C& c, Graph&) -> Made { return c.WithKeptWeights(); },
       .is_optional = true,
       .lays_out = true},
      {.name = "insert_relayouts",
       .make = [](C& c, Graph& graph) -> Made { return c.Placed(graph); },
       .lays_out = true},
      {.name = "choose_layouts",
       .make = [](C& c, Graph&) -> Made { return c.WithChosenLayouts(); },
       // What it finds depends on how the mesh is cut at domains.
       .applies = [](const C& c) { return !c.options().deterministic; },
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
         const int64_t most = c.local_options().bucket_bytes;
         return WithRegions(graph, [&](const Graph& body) { return BucketReductions(body, most); });
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
  return CompileState(global, options, control).Run();
}

}  // namespace meshwork
