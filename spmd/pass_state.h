// One program on its way through the passes (passes.h), and what they say of it for each other. Not thread-safe; one for
// each compile.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/ops/control/loops.h"
#include "meshwork/spmd/choose_layouts.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/insert_relayouts.h"
#include "meshwork/spmd/local/fit_memory.h"
#include "meshwork/spmd/passes.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/short_program.h"

namespace meshwork {

class PassState;

struct Pass {
  std::string_view name;
  // What it makes of the program, which it may move from then; nothing if it leaves it as it is, or keeps it until
  // repeat_layers.
  std::optional<Graph> (*make)(PassState& state, Graph& graph);
  bool (*applies)(const PassState& state) = nullptr;  // null: to every program
  bool is_optional = false;
  bool is_local = false;  // makes the program local, or works on a local one
  bool lays_out = false;  // of a program in which layers repeat, few of them
};

class PassState {
 public:
  // All must outlive this.
  PassState(const Graph& global, const CompileOptions& options, const PassControl& control,
            const std::vector<Pass>& passes)
      : options_(options),
        control_(control),
        passes_(passes),
        placement_(Placement::Create(global.mesh(), options.num_domains).value()),
        passed_{{.body = global, .num_domains = options.num_domains}},
        pinned_(global.mesh()),
        propagated_{.graph = pinned_},
        inserted_{.graph = pinned_},
        local_{.topology = options.topology,
               .place_gathers = GathersOnUse(global),
               .narrow_sums = options.narrow_sums} {}

  Passed Run() &&;

  const CompileOptions& options() const { return options_; }
  const Graph& body() const { return passed_.program.body; }
  bool gathers_on_use() const { return local_.place_gathers; }
  const Placement& placement() const { return placement_; }
  bool has_memory_budget() const { return options_.memory_budget > 0; }
  bool is_open() const { return is_open_; }
  bool is_short() const { return short_.has_value(); }
  const LocalOptions& local_options() const { return local_; }

  // What passes make of the program; nothing if they leave it as it is.
  Graph CutAtDomains(Graph graph) const;
  Graph Opened(const Graph& graph);
  Graph Closed(const Graph& graph);
  Graph WithShardedUpdate(const Graph& graph);
  std::optional<Graph> WithCutMesh(const Graph& graph);
  std::optional<Graph> WithSummaries(const Graph& graph);
  // Of a short program, keeps the whole one until its layers are laid out.
  std::optional<Graph> Propagated(Graph& graph);
  std::optional<Graph> Placed(const Graph& graph);
  // Where a gather is refused, or choose_layouts does not look for what costs less.
  std::optional<Graph> WithKeptWeights();
  std::optional<Graph> WithChosenLayouts();
  // The whole program, as the short one is laid out; by itself, if that does not fit together.
  Graph WithAllLayers();
  Graph Localized(const Graph& graph) const;
  Graph Fitted(const Graph& graph);

 private:
  bool Runs(std::string_view name) const;
  bool Runs(const Pass& pass) const;

  // What Propagate makes of the program as it is now, or of the short one that stands for it.
  const PropagateResult& Propagation(const Graph& graph);

  // The program that layouts are found for.
  const Graph& LookedAt(const Graph& graph) const { return short_.has_value() ? short_->graph : graph; }

  // A program of few of the layers, where most of them repeat. Memory counts in the whole, and loops hold their layers
  // in their bodies.
  std::optional<ShortProgram> ShortOf(const Graph& graph) const;

  // Whether the whole program sends less, too, where the short one says so. What moves in all layers tells most often;
  // collectives that come to be one do not count there, so it does not say no.
  bool PaysInTheWhole(const ChosenLayouts& chosen) const;

  // Whether the short program says that the whole one sends more than it may.
  bool SendsTooMuch() const;

  // Run as the short program is, and laid out like it.
  InsertedRelayouts InsertedInWhole(const Graph& laid_out, const std::vector<std::optional<Choice>>& choices,
                                    bool is_chosen) const;

  // All layers looked at, as if there had been no short program.
  Graph LaidOutByItself();

  // Whether choose_layouts runs, and knows all of the program.
  bool ChoosesLayouts() const;

  // Relayouts into what is propagated.
  void Insert();

  // What a pass has laid out, as the program goes on; of a short one, only to be looked at.
  std::optional<Graph> Shown(const Graph& laid_out) const;
  std::optional<Graph> ShownPlaced() const;

  // Before the first local pass: writes down how the program was laid out, and why. What is refused is refused here. Keeps
  // what has to be made local again if it does not fit.
  bool Begins();

  // The pass has changed the program: what it did can be left out, if it is optional.
  void NoteChange(const Pass& pass);

  void RunPass(const Pass& pass);

  const CompileOptions& options_;
  const PassControl& control_;
  const std::vector<Pass>& passes_;
  const Placement placement_;
  Passed passed_;
  std::vector<OpenedLoop> loops_;
  bool is_open_ = false;  // the bodies of loops stand in the program, see ops/control/loops.h
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

}  // namespace meshwork
