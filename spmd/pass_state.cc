#include "meshwork/spmd/pass_state.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/spmd/cut_mesh.h"
#include "meshwork/spmd/local/localize.h"
#include "meshwork/spmd/refused_gathers.h"
#include "meshwork/spmd/regroup_sums.h"
#include "meshwork/spmd/rewrite/carry_summaries.h"
#include "meshwork/spmd/rewrite/simplify.h"
#include "meshwork/spmd/shard_weight_update.h"

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

}  // namespace

Passed PassState::Run() && {
  RunAll();
  if (control_.work != nullptr && work_.has_value()) control_.work->Take(work_->taken());
  return std::move(passed_);
}

void PassState::RunAll() {
  for (const Pass& pass : passes_) {
    if (!Runs(pass)) continue;
    if (!passed_.status.ok() || (pass.is_local && !Begins())) return;
    RunPass(pass);
  }
  if (has_memory_budget()) passed_.status = CheckMemory(body(), options_.memory_budget);
}

bool PassState::gathers_bound_weights() const {
  return GathersBoundWeights(inserted_, Replication(pinned_, options_.replication_budget));
}

Graph PassState::CutAtDomains(Graph graph) const {
  graph.CutMesh(placement_.mesh());
  return graph;
}

Graph PassState::Opened(const Graph& graph) {
  OpenedGraph opened = OpenLoops(graph);
  loops_ = std::move(opened.loops);
  is_open_ = true;
  return std::move(opened.graph);
}

Graph PassState::Closed(const Graph& graph) {
  is_open_ = false;
  return CloseLoops(graph, loops_);
}

Graph PassState::WithShardedUpdate(const Graph& graph) {
  ShardedWeightUpdate result = ShardWeightUpdate(
      graph, {.topology = options_.topology, .replication_budget = options_.replication_budget});
  passed_.program.sharded_state = std::move(result.state);
  Append(stated_, StateDecisions(passed_.program.sharded_state));
  return std::move(result.graph);
}

SearchWork& PassState::WorkOf(const Graph& looked_at) {
  const size_t ops = looked_at.nodes().size();
  if (work_.has_value()) work_->LimitTo(ops);
  else work_.emplace(kWorkOfCompile, ops);
  return *work_;
}

StepPlanning PassState::Planning(const Graph& looked_at) {
  return {.topology = options_.topology,
          .replication_budget = options_.replication_budget,
          .memory_budget = options_.memory_budget,
          .loops = loops_,
          .searches = !options_.deterministic && Runs("choose_layouts"),
          .is_short = short_.has_value(),
          .work = &WorkOf(looked_at)};
}

Graph PassState::WithRegroupedSums(Graph graph) {
  const StepPlanning planning = Planning(graph);
  return RegroupSums(std::move(graph), planning);
}

std::optional<Graph> PassState::WithCutMesh(const Graph& graph) {
  const Graph& propagated = Propagation(graph).graph;
  const std::optional<Graph> cut = CutMesh(LookedAt(graph), propagated, Planning(LookedAt(graph)));
  if (!cut.has_value()) return std::nullopt;
  stated_.push_back(fmt::format("mesh = {}: reshapes send less", cut->mesh().ToString()));
  Graph on_finer = graph;
  on_finer.CutMesh(cut->mesh());
  return on_finer;
}

std::optional<Graph> PassState::WithSummaries(const Graph& graph) {
  const Graph& propagated = Propagation(graph).graph;
  std::optional<CarriedSummaries> carried = CarrySummaries(LookedAt(graph), propagated);
  if (carried.has_value() && short_.has_value()) carried = CarrySummaries(graph, Propagate(graph).graph);
  if (!carried.has_value()) return std::nullopt;
  Append(stated_, carried->decisions);
  return std::move(carried->graph);
}

std::optional<Graph> PassState::Propagated(Graph& graph) {
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

std::optional<Graph> PassState::Placed(const Graph& graph) {
  if (!short_.has_value()) propagated_.graph = graph;
  inserted_ = InsertRelayouts(propagated_.graph, options_.topology,
                              Replication(pinned_, options_.replication_budget));
  return ShownPlaced();
}

std::optional<Graph> PassState::WithChosenLayouts() {
  std::optional<ChosenLayouts> chosen =
      ChooseLayouts(pinned_, propagated_.graph, inserted_, loops_, options_.topology,
                    Replication(pinned_, options_.replication_budget), options_.memory_budget,
                    short_.has_value(), WorkOf(pinned_));
  if (!chosen.has_value() || !PaysInTheWhole(*chosen)) return std::nullopt;
  propagated_.graph = std::move(chosen->propagated);
  inserted_ = std::move(chosen->inserted);
  is_chosen_ = has_decided_ = true;
  Append(stated_, chosen->decisions);
  return ShownPlaced();
}

Graph PassState::WithAllLayers() {
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

Graph PassState::Localized(const Graph& graph) const {
  return Localize(graph, {.relayout_bytes = local_.relayout_bytes,
                          .topology = local_.topology,
                          .narrow_sums = local_.narrow_sums});
}

Graph PassState::Fitted(const Graph& graph) {
  const LocalOptions before = local_;
  auto make_local = [&](const Graph& placed, const LocalOptions& options) {
    local_ = options;
    Graph made = placed;
    for (const Pass& pass : passes_)
      if (pass.is_local && Runs(pass)) made = pass.make(*this, made).value_or(std::move(made));
    return made;
  };
  Graph fitted = FitMemory(*placed_, graph, before, options_.memory_budget, make_local);
  local_ = before;
  return fitted;
}

bool PassState::Runs(std::string_view name) const {
  return std::find(control_.left_out.begin(), control_.left_out.end(), name) == control_.left_out.end();
}

bool PassState::Runs(const Pass& pass) const {
  return (pass.applies == nullptr || pass.applies(*this)) && (!pass.is_optional || Runs(pass.name));
}

const PropagateResult& PassState::Propagation(const Graph& graph) {
  if (!propagation_.has_value()) {
    short_ = ShortOf(graph);
    propagation_ = Propagate(LookedAt(graph));
  }
  return *propagation_;
}

std::optional<ShortProgram> PassState::ShortOf(const Graph& graph) const {
  if (!Runs("repeat_layers") || looks_at_all_ || control_.tamper || has_memory_budget() || is_open_)
    return std::nullopt;
  return ShortProgramOf(graph, options_.replication_budget);
}

bool PassState::PaysInTheWhole(const ChosenLayouts& chosen) const {
  if (!short_.has_value() || !inserted_.refused.empty()) return true;
  return SecondsInWhole(*short_, chosen.inserted) <= SecondsInWhole(*short_, inserted_) ||
         SendsLess(InsertedInWhole(LaidOutAs(*short_, chosen.propagated, *whole_), chosen.inserted.choices,
                                   /*is_chosen=*/true),
                   InsertedInWhole(LaidOutAs(*short_, propagated_.graph, *whole_), inserted_.choices,
                                   /*is_chosen=*/false),
                   loops_, options_.topology, options_.memory_budget);
}

bool PassState::SendsTooMuch() const {
  if (!control_.most_wire_bytes.has_value()) return false;
  const Graph local = DropDeadCode(ShareSubexpressions(Localized(inserted_.graph)));
  return WireBytesOfWhole(*short_, local, inserted_) > static_cast<double>(*control_.most_wire_bytes);
}

InsertedRelayouts PassState::InsertedInWhole(const Graph& laid_out,
                                             const std::vector<std::optional<Choice>>& choices,
                                             bool is_chosen) const {
  const Replication replication(*whole_, options_.replication_budget);
  std::vector<std::optional<Choice>> all = ChoicesOfWhole(*short_, choices);
  return is_chosen ? InsertOwing(laid_out, options_.topology, replication, std::move(all))
                   : InsertRelayouts(laid_out, options_.topology, replication, std::move(all));
}

Graph PassState::LaidOutByItself() {
  Graph graph = *std::move(whole_);
  whole_.reset();
  short_.reset();
  stated_.resize(num_stated_);
  is_chosen_ = false;
  looks_at_all_ = true;
  for (const Pass& pass : passes_) {
    if (!pass.lays_out || !Runs(pass)) continue;
    std::optional<Graph> made = pass.make(*this, graph);
    if (!made.has_value()) continue;
    NoteChange(pass);
    graph = *std::move(made);
  }
  return graph;
}

std::optional<Graph> PassState::Shown(const Graph& laid_out) const {
  if (!short_.has_value()) return laid_out;
  if (options_.dump == nullptr) return std::nullopt;
  return LaidOutAs(*short_, laid_out, *whole_);
}

std::optional<Graph> PassState::ShownPlaced() const {
  if (!short_.has_value()) return inserted_.graph;
  if (options_.dump == nullptr) return std::nullopt;
  return InsertedInWhole(LaidOutAs(*short_, propagated_.graph, *whole_), inserted_.choices, is_chosen_).graph;
}

bool PassState::Begins() {
  Append(passed_.program.decisions, std::exchange(stated_, {}));
  Append(passed_.program.decisions, std::exchange(propagated_.decisions, {}));
  Append(passed_.program.conflicts, std::exchange(propagated_.conflicts, {}));
  Append(passed_.program.decisions, TakeOutUsualGathers(pinned_, propagated_.graph, inserted_.refused));
  if (!inserted_.refused.empty())
    passed_.status =
        ReplicationError(pinned_, inserted_.refused, options_.topology, options_.replication_budget);
  if (has_memory_budget() && !placed_.has_value()) placed_ = body();
  return passed_.status.ok();
}

void PassState::NoteChange(const Pass& pass) {
  std::vector<std::string>& optional = passed_.optional;
  if (pass.is_optional && std::find(optional.begin(), optional.end(), pass.name) == optional.end())
    optional.emplace_back(pass.name);
}

void PassState::RunPass(const Pass& pass) {
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

}  // namespace meshwork
