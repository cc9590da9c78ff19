// One program on its way through the passes (passes.h), and what passes leave for later ones. Not thread-safe; one for
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
#include "meshwork/spmd/plan_step.h"
#include "meshwork/spmd/planner/kept_values.h"
#include "meshwork/spmd/propagate.h"
#include "meshwork/spmd/short_program.h"

namespace meshwork {

class PassState;

struct Pass {
  std::string_view name;
  // The program that the pass makes of `graph`, from which it may then move. Nothing if it leaves the program as it is,
  // or keeps its result until repeat_layers.
  std::optional<Graph> (*make)(PassState& state, Graph& graph);
  bool (*applies)(const PassState& state) = nullptr;  // null: to every program
  bool is_optional = false;
  bool is_local = false;  // makes the program local, or works on a local one
  bool lays_out = false;  // decides layouts; if layers repeat, by a program of few of them
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
  // Whether weights would be gathered, as the program is laid out now, that must not be.
  bool gathers_bound_weights() const;
  const LocalOptions& local_options() const { return local_; }

  // The programs that passes make; nothing if a pass leaves the program as it is.
  Graph CutAtDomains(Graph graph) const;
  Graph Opened(const Graph& graph);
  Graph Closed(const Graph& graph);
  Graph WithShardedUpdate(const Graph& graph);
  Graph WithRegroupedSums(Graph graph);
  std::optional<Graph> WithCutMesh(const Graph& graph);
  std::optional<Graph> WithSummaries(const Graph& graph);
  // If there is a short program, keeps the whole one until all its layers are laid out.
  std::optional<Graph> Propagated(Graph& graph);
  std::optional<Graph> Placed(const Graph& graph);
  std::optional<Graph> WithChosenLayouts();
  // The whole program, laid out as the short one is; laid out by itself, if that does not fit together.
  Graph WithAllLayers();
  Graph Localized(const Graph& graph) const;
  Graph Fitted(const Graph& graph);

 private:
  bool Runs(std::string_view name) const;
  bool Runs(const Pass& pass) const;

  // Propagate's result for the program as it is now, or for the short one that stands for it.
  const PropagateResult& Propagation(const Graph& graph);

  void RunAll();

  // What all searches of this compile draw on, as much as this program may take.
  SearchWork& WorkOf(const Graph& looked_at);

  // How passes that change the program and compare lay it out: as the passes after them will.
  StepPlanning Planning(const Graph& looked_at);

  // The program that layouts are found for.
  const Graph& LookedAt(const Graph& graph) const { return short_.has_value() ? short_->graph : graph; }

  // A program of few of the layers, if most of them repeat. Nothing with a memory budget, which holds for the whole
  // program, or with loops, which have their layers in their bodies.
  std::optional<ShortProgram> ShortOf(const Graph& graph) const;

  // Whether the whole program sends less, too, if the short one does. Most often the relayouts of all layers, added up,
  // show it. That sum does not know which collectives become one. So if it is not less, the whole programs are
  // compared.
  bool PaysInTheWhole(const ChosenLayouts& chosen) const;

  // Whether, by the short program, the whole one sends more than PassControl::most_wire_bytes.
  bool SendsTooMuch() const;

  // The whole program with relayouts, run as the short program is and laid out like it.
  InsertedRelayouts InsertedInWhole(const Graph& laid_out, const std::vector<std::optional<Choice>>& choices,
                                    bool is_chosen) const;

  // Lays out the whole program, looking at all layers, as if there had been no short program.
  Graph LaidOutByItself();

  // The program that a pass returns after it has laid it out. If it is a short program, the whole one, and that only to
  // be dumped.
  std::optional<Graph> Shown(const Graph& laid_out) const;
  std::optional<Graph> ShownPlaced() const;

  // Called before local passes. Writes the decisions about layouts into the program; sets the error for refused
  // gathers; keeps the program that has to be made local again if it does not fit. Returns false if there is an error.
  bool Begins();

  // Notes that the pass has changed the program, if it is optional and so can be left out.
  void NoteChange(const Pass& pass);

  void RunPass(const Pass& pass);

  const CompileOptions& options_;
  const PassControl& control_;
  const std::vector<Pass>& passes_;
  const Placement placement_;
  Passed passed_;
  std::optional<SearchWork> work_;
  std::vector<OpenedLoop> loops_;
  bool is_open_ = false;  // the bodies of loops stand in the program, see ops/control/loops.h
  std::optional<PropagateResult> propagation_;  // of the program, while no pass changes it
  std::optional<ShortProgram> short_;           // stands for the program, until all layers are laid out
  std::optional<Graph> whole_;                  // the program, as soon as the short one is laid out
  bool is_chosen_ = false;                      // the layouts are those of choose_layouts
  bool has_decided_ = false;                    // the pass has changed layouts, even if it returns no program
  bool looks_at_all_ = false;                   // the short one did not fit together
  size_t num_stated_ = 0;                       // the size of stated_ before the short one was laid out
  std::vector<std::string> stated_;             // decisions of passes other than propagate
  Graph pinned_;                                // the program that was propagated
  PropagateResult propagated_;
  InsertedRelayouts inserted_;
  std::optional<Graph> placed_;  // the program before local passes, if there is a memory budget
  LocalOptions local_;
};

}  // namespace meshwork
