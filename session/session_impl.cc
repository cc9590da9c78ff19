#include "meshwork/session/session_impl.h"

#include <algorithm>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ops/control/rebatch.h"
#include "meshwork/runtime/exec/input_wait.h"
#include "meshwork/session/compiled_programs.h"
#include "meshwork/session/session_graphs.h"

namespace meshwork {
namespace {

// The bytes, on a device, of new values of variables that are not written in the place of the old ones.
int64_t SpareBytes(const Graph& local) {
  int64_t bytes = 0;
  for (const VariableUpdate& update : local.updates())
    if (update.value != local.arguments()[update.argument].value)
      bytes += local.value(update.value).type.bytes();
  return bytes;
}

// The program for a session whose steps take effect as a whole. The bytes of the spares are taken off the program's
// memory budget. That is enough, and more than enough if new values have memory of their own anyway.
absl::StatusOr<Program> CompileBesideSpares(const Graph& global, CompileOptions options) {
  absl::StatusOr<Program> program = Compile(global, options);
  if (options.memory_budget == 0 || !program.ok()) return program;
  const int64_t spares = SpareBytes(program->body), budget = options.memory_budget;
  if (LogicalPeakBytes(program->body) + spares <= budget) return program;
  options.memory_budget = std::max<int64_t>(1, budget - spares);
  program = Compile(global, options);
  if (program.ok()) return program;
  return Annotate(
      program.status(),
      fmt::format("Session: with spares of {} bytes (ExecutorOptions::atomic) and memory_budget={}: ", spares,
                  budget));
}

bool HasOutput(const Graph& graph, std::string_view name) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [&](const OutputInfo& output) { return output.name == name; });
}

}  // namespace

absl::Status NoSuchOfSession(std::string_view kind, std::string_view name,
                             const std::vector<std::string>& known) {
  return absl::NotFoundError(fmt::format("Session: there is no {} \"{}\"{}", kind, name,
                                         DidYouMeanOneOf(name, known, fmt::format("{}s", kind))));
}

Session::Impl::Impl(const Graph& g, SessionOptions o)
    : asked(g),
      graph(g),
      options(std::move(o)),
      transport(options.executor.transport),
      record(options.executor.record != nullptr ? options.executor.record : std::make_shared<StepRecord>()),
      family(std::make_shared<bool>(options.executor.atomic)) {}

std::string Session::Impl::Kind::ToString() const {
  std::string text = fmt::format("{} of {}",
                                 mode == Mode::kTrain      ? "a step"
                                 : mode == Mode::kEvaluate ? "an evaluation"
                                                           : "an evaluation with metrics",
                                 Count(rows, "row"));
  for (const std::string& output : outputs)
    text += fmt::format("{} {}", &output == &outputs[0] ? " for" : ",", output);
  return text;
}

absl::Status Session::Impl::CheckGpuIsHere() const {
  return backend == nullptr || backend->memory()->is_host() ? absl::OkStatus() : made.Check("Session");
}

absl::Status Session::Impl::CheckIsHere() const {
  return transport == nullptr ? absl::OkStatus() : made.Check("Session");
}

absl::Status Session::Impl::AllGoOn(std::string_view what, const absl::Status& mine,
                                    std::string_view value) const {
  if (transport == nullptr) return mine;
  if (!mine.ok()) return Agree(*transport, what, mine);
  return Agree(*transport, what, std::string(value));
}

absl::Status Session::Impl::AllTakeStep(const absl::Status& mine, const Kind& kind) const {
  return agreement == nullptr ? AllGoOn("the step", mine, kind.ToString())
                              : agreement->Agree(mine, kind.ToString());
}

// ---- Programs.

const Graph& Session::Impl::GraphOf(Mode mode, const std::vector<std::string>& outputs) {
  if (mode == Mode::kTrain) return graph;
  const auto found = evaluations.find({mode, outputs});
  if (found != evaluations.end()) return found->second;
  return evaluations
      .emplace(std::pair(mode, outputs), EvaluationGraph(graph, outputs, mode == Mode::kAccumulate))
      .first->second;
}

absl::StatusOr<Graph> Session::Impl::GraphOf(const Kind& kind) {
  const Graph& whole = GraphOf(kind.mode, kind.outputs);
  if (kind.rows == BatchSize()) return whole;
  absl::StatusOr<Graph> rebatched = Rebatch(whole, BatchSize(), kind.rows);
  if (!rebatched.ok()) return Annotate(rebatched.status(), "Session: ");
  return rebatched;
}

absl::StatusOr<Program> Session::Impl::CompileInAll(const Graph& global, const CompileOptions& compile,
                                                    bool atomic) const {
  const Program* known =
      options.compiled == nullptr ? nullptr : options.compiled->Find(global, compile.num_domains);
  absl::StatusOr<Program> program = known != nullptr ? absl::StatusOr<Program>(*known)
                                    : atomic         ? CompileBesideSpares(global, compile)
                                                     : Compile(global, compile);
  MESHWORK_RETURN_IF_ERROR(AllGoOn("the compile", program.status(), "done"));
  return program;
}

absl::StatusOr<Session::Impl::Ready> Session::Impl::Make(const Kind& kind) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, GraphOf(kind));
  ++programs_made;
  const bool trains = kind.mode == Mode::kTrain, is_full = trains && kind.rows == BatchSize();
  return Prepare(global, is_full ? options.compile : ForOthers(), trains ? ForStep() : ForEvaluation(global));
}

absl::StatusOr<Session::Impl::Ready> Session::Impl::Prepare(const Graph& global,
                                                            const CompileOptions& compile,
                                                            const ExecutorOptions& executor_options) {
  MESHWORK_ASSIGN_OR_RETURN(Program program, CompileInAll(global, compile, executor_options.atomic));
  return Prepare(std::move(program), executor_options);
}

absl::StatusOr<Session::Impl::Ready> Session::Impl::Prepare(Program program,
                                                            const ExecutorOptions& executor_options) {
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                            Executor::Create(program, *backend, executor_options, &variables));
  return Ready{std::move(program), std::move(executor)};
}

bool Session::Impl::IsFullStep(const Kind& kind) {
  if (kind.rows != BatchSize()) return false;
  if (kind.mode == Mode::kTrain) return true;
  const auto [known, is_new] = full_steps.try_emplace(kind.outputs, false);
  if (is_new && graph.updates().empty()) {
    const Graph& evaluation = GraphOf(kind.mode, kind.outputs);
    Graph step = graph;
    step.name = evaluation.name;
    known->second = Fingerprint(step) == Fingerprint(evaluation);
  }
  return known->second;
}

void Session::Impl::DropLeastUsed() {
  const Kind full_step = {.rows = BatchSize()};
  while (std::ssize(ready) > options.max_programs) {
    auto least = ready.end();
    for (auto one = ready.begin(); one != ready.end(); ++one)
      if (one->first != full_step && (least == ready.end() || one->second.used < least->second.used))
        least = one;
    ready.erase(least);
  }
}

CompileOptions Session::Impl::ForOthers() const {
  CompileOptions compile = options.compile;
  compile.dump = nullptr;
  compile.cut_mesh = false;
  compile.shard_weight_update = false;
  return compile;
}

ExecutorOptions Session::Impl::ForStep() const {
  ExecutorOptions executor = options.executor;
  executor.record = record;
  return executor;
}

ExecutorOptions Session::Impl::ForEvaluation(const Graph& global) const {
  ExecutorOptions executor = options.executor;
  executor.record = nullptr;
  // Sums of metrics are written in place, so that the spares stay as the last step left them for Undo.
  if (!global.updates().empty()) executor.atomic = false;
  auto has_input = [&](const std::string& name) { return global.FindArgument(name) >= 0; };
  std::erase_if(executor.distributed,
                [&](const std::string& name) { return !has_input(name) && !HasOutput(global, name); });
  std::erase_if(executor.in_place, [&](const auto& entry) {
    return !HasOutput(global, entry.first) || !has_input(entry.second);
  });
  return executor;
}

ExecutorOptions Session::Impl::Whole() const {
  ExecutorOptions executor = options.executor;
  executor.distributed.clear();
  executor.in_place.clear();
  executor.atomic = false;
  executor.record = nullptr;
  return executor;
}

absl::Status Session::Impl::GatherOutputs() {
  if (transport == nullptr) return absl::OkStatus();
  CompileOptions compile = options.compile;
  compile.dump = nullptr;
  compile.warn = [](std::string_view) {};
  MESHWORK_ASSIGN_OR_RETURN(const Program program, CompileInAll(graph, compile, /*atomic=*/false));
  const Graph& local = program.body;
  MESHWORK_ASSIGN_OR_RETURN(const Placement placement,
                            Placement::Create(local.mesh(), transport->num_domains()));
  graph = WithGatheredOutputs(graph, local, placement.across(), options.executor.distributed);
  return absl::OkStatus();
}

// ---- Batches.

int64_t Session::Impl::BatchSize() const { return BatchRowsOf(graph); }

bool Session::Impl::IsBatch(const Graph& global, const Argument& argument) const {
  const Shape& shape = global.value(argument.value).type.shape;
  return !argument.is_variable && !shape.empty() && shape[0] == BatchSize();
}

int64_t Session::Impl::FedRows(const Graph& global, const Feeds& feeds) const {
  int64_t fed = 0;
  for (const Argument& argument : global.arguments()) {
    if (!IsBatch(global, argument)) continue;
    const auto feed = feeds.find(global.value(argument.value).name);
    if (feed == feeds.end() || !feed->second.valid() || feed->second.type().rank() == 0) return 0;
    const int64_t rows = feed->second.shape()[0];
    if (fed != 0 && rows != fed) return 0;
    fed = rows;
  }
  return fed;
}

absl::Status Session::Impl::CheckRowsAgree(const Graph& global, const Feeds& feeds) const {
  const std::pair<const std::string, Tensor>* first = nullptr;
  for (const Argument& argument : global.arguments()) {
    if (!IsBatch(global, argument)) continue;
    const ValueInfo& info = global.value(argument.value);
    const auto feed = feeds.find(info.name);
    if (feed == feeds.end() || !feed->second.status().ok()) continue;
    const Shape &shape = feed->second.shape(), &wanted = info.type.shape;
    if (shape.size() != wanted.size() || !std::equal(shape.begin() + 1, shape.end(), wanted.begin() + 1))
      continue;
    if (first == nullptr) first = &*feed;
    const int64_t rows = first->second.shape()[0], more = shape[0];
    if (rows != more)
      return InvalidArgument(
          "Run: feed \"{}\" has {} and feed \"{}\" {}; all inputs of the batch take as many.", first->first,
          Count(rows, "row"), feed->first, more);
  }
  return absl::OkStatus();
}

// ---- Steps.

absl::StatusOr<BoundStep> Session::Impl::Bind(StepMemory memory, Kind kind) {
  const Graph& global = GraphOf(kind.mode, kind.outputs);
  const int64_t fed = FedRows(global, memory.feeds), full = BatchSize();
  kind.rows = fed < 1 || fed > full ? full : fed;  // if it is none, the executor says what does not fit
  const bool is_full_step = IsFullStep(kind);
  auto found = ready.find(is_full_step ? Kind{.rows = full} : kind);
  if (found == ready.end()) {
    MESHWORK_RETURN_IF_ERROR(AllTakeStep(absl::OkStatus(), kind));
    MESHWORK_ASSIGN_OR_RETURN(Ready made, Make(kind));
    DropLeastUsed();
    found = ready.emplace(kind, std::move(made)).first;
  }
  Executor& executor = *found->second.executor;
  memory.outputs.merge(executor.NewOutputs());
  const absl::Status as_many = CheckRowsAgree(global, memory.feeds);
  absl::StatusOr<BoundStep> bound =
      as_many.ok() ? executor.Bind(std::move(memory)) : absl::StatusOr<BoundStep>(as_many);
  MESHWORK_RETURN_IF_ERROR(AllTakeStep(bound.status(), kind));
  // Only now, when all domains have this step: so all of them drop the same programs.
  found->second.used = ++uses;
  if (kind.mode != Mode::kTrain) bound->DoNotCount();
  return bound;
}

absl::StatusOr<StepResult> Session::Impl::Run(StepMemory memory) {
  const double waited = TakeInputWait();
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, Bind(std::move(memory), {}));
  MESHWORK_RETURN_IF_ERROR(step.Run());
  input.Add(waited);
  return StepResult(step.outputs(), step.distributed_outputs());
}

absl::StatusOr<StepResult> Session::Impl::Evaluate(const Feeds& feeds, std::vector<std::string> outputs,
                                                   Mode mode) {
  TakeInputWait();  // what it is fed is not the next step's
  MESHWORK_ASSIGN_OR_RETURN(outputs, CheckOutputs(std::move(outputs)));
  Feeds needed = NeededFeeds(GraphOf(mode, outputs), feeds);
  MESHWORK_ASSIGN_OR_RETURN(
      BoundStep step, Bind({.feeds = std::move(needed)}, {.mode = mode, .outputs = std::move(outputs)}));
  MESHWORK_RETURN_IF_ERROR(step.Run());
  return StepResult(step.outputs(), step.distributed_outputs());
}

Feeds Session::Impl::NeededFeeds(const Graph& global, const Feeds& feeds) const {
  Feeds needed = feeds;
  std::erase_if(needed, [&](const auto& feed) {
    return global.FindArgument(feed.first) < 0 && graph.FindArgument(feed.first) >= 0;
  });
  return needed;
}

absl::StatusOr<std::vector<std::string>> Session::Impl::CheckOutputs(std::vector<std::string> outputs) const {
  std::sort(outputs.begin(), outputs.end());
  outputs.erase(std::unique(outputs.begin(), outputs.end()), outputs.end());
  for (const std::string& name : outputs) {
    if (HasOutput(graph, name)) continue;
    std::vector<std::string> known;
    for (const OutputInfo& output : graph.outputs()) known.push_back(output.name);
    return NoSuchOfSession("output", name, known);
  }
  return outputs;
}

absl::StatusOr<DTensor> Session::Impl::Find(std::string_view variable) const {
  const auto found = variables.find(std::string(variable));
  if (found == variables.end()) return NoSuchOfSession("variable", variable, KeysOf(variables));
  return found->second;
}

absl::StatusOr<Tensor> Session::Impl::Gather(const std::string& name) {
  MESHWORK_RETURN_IF_ERROR(AllGoOn("the variable", absl::OkStatus(), name));
  auto found = gathers.find(name);
  if (found == gathers.end()) {
    CompileOptions compile = ForOthers();
    compile.memory_budget = 0;
    MESHWORK_ASSIGN_OR_RETURN(Ready made, Prepare(GatherGraph(graph, name), compile, Whole()));
    found = gathers.emplace(name, std::move(made)).first;
  }
  std::map<std::string, Tensor> outputs;
  MESHWORK_RETURN_IF_ERROR(found->second.executor->Run({}, &outputs));
  return std::move(outputs.begin()->second);
}

// ---- Where things are.

Domain Session::Impl::HereOn(const Mesh& mesh) const {
  return transport == nullptr
             ? Domain(mesh)
             : Domain(Placement::Create(mesh, transport->num_domains()).value(), transport->domain());
}

absl::StatusOr<StateMove> Session::Impl::PlanMove(const Impl& next, const Program& program,
                                                  const RemeshOptions& remesh) const {
  MESHWORK_RETURN_IF_ERROR(Executor::PlanMemory(program, *next.backend, next.options.executor).status());
  std::map<std::string, MovedVariable> moved;
  for (const Argument& argument : program.body.arguments()) {
    if (!argument.is_variable) continue;
    const ValueInfo& info = program.body.value(argument.value);
    const DTensor& tensor = variables.at(info.name);
    moved.emplace(info.name, MovedVariable{tensor.type(), tensor.layout(), *info.layout});
  }
  StateMove move =
      StateMove::Plan({here().placement()}, {HereOn(program.body.mesh()).placement()}, moved,
                      {.max_bytes_in_flight = remesh.max_bytes_in_flight, .share = options.executor.share});
  if (remesh.memory_budget == 0 || move.peak_bytes() <= remesh.memory_budget) return move;
  return absl::ResourceExhaustedError(fmt::format(
      "Remesh: a domain needs {} bytes for old state, new state and messages while the state moves, "
      "and memory_budget is {}; a smaller max_bytes_in_flight needs less for messages.",
      move.peak_bytes(), remesh.memory_budget));
}

}  // namespace meshwork
