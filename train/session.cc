#include "meshwork/train/session.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/control/rebatch.h"
#include "meshwork/plan/explain.h"
#include "meshwork/plan/memory_report.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/executor.h"
#include "meshwork/runtime/state_move.h"
#include "meshwork/runtime/transport.h"
#include "meshwork/spmd/cheaper_layouts.h"
#include "meshwork/train/rows_here.h"
#include "meshwork/train/save_restore.h"
#include "meshwork/train/session_graphs.h"

namespace meshwork {
namespace {

template <typename T>
absl::Status NoSuch(std::string_view kind, std::string_view name, const std::map<std::string, T>& known) {
  std::vector<std::string> names;
  for (const auto& [key, value] : known) names.push_back(key);
  return absl::NotFoundError(fmt::format("Session: there is no {} \"{}\"{}", kind, name,
                                         DidYouMeanOneOf(name, names, fmt::format("{}s", kind))));
}

}  // namespace

absl::StatusOr<Tensor> StepResult::Get(std::string_view name) const {
  const auto found = outputs_.find(std::string(name));
  if (found == outputs_.end()) return NoSuch("output", name, outputs_);
  return found->second;
}

absl::StatusOr<double> StepResult::scalar(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, Get(name));
  absl::StatusOr<double> value = tensor.Scalar();
  return value.ok() ? value : Annotate(value.status(), fmt::format("output \"{}\": ", name));
}

namespace {

// More than any machine has cores for.
constexpr int kMostWorkers = 1024;

absl::Status CheckWorkers(int workers) {
  if (workers >= 0 && workers <= kMostWorkers) return absl::OkStatus();
  return InvalidArgument("Session: workers={}; give a number from 1 to {}, or 0 for one per core.", workers,
                         kMostWorkers);
}

// A program without results, but for one that only declares variables.
absl::Status CheckHasResults(const Graph& graph) {
  if (!graph.outputs().empty() || !graph.updates().empty()) return absl::OkStatus();
  const bool has_variables = std::any_of(graph.arguments().begin(), graph.arguments().end(),
                                         [](const Argument& argument) { return argument.is_variable; });
  if (has_variables && graph.nodes().empty()) return absl::OkStatus();
  return InvalidArgument(
      "Session: the program \"{}\" has {} and neither an output nor an update, so a step would compute "
      "nothing; name results by Graph::Output, or call Minimize.",
      graph.name, Count(std::ssize(graph.nodes()), "node"));
}

absl::Status CheckIsThere(const void* impl) {
  if (impl != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "Session: it was moved to another one, or lost its state in a Remesh that failed; go on with another one.");
}

// Of a device: new values of variables that do not take the place of the old ones.
int64_t SpareBytes(const Graph& local) {
  int64_t bytes = 0;
  for (const VariableUpdate& update : local.updates())
    if (update.value != local.arguments()[update.argument].value)
      bytes += local.value(update.value).type.bytes();
  return bytes;
}

// The program for a session whose steps take effect as a whole: what spares take of the memory budget is not the
// program's. That is enough, and more than enough where new values have memory of their own anyway.
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

}  // namespace

struct Session::Impl {
  Impl(const Graph& g, SessionOptions o)
      : asked(g),
        graph(g),
        options(std::move(o)),
        transport(options.executor.transport),
        record(options.executor.record != nullptr ? options.executor.record : std::make_shared<StepRecord>()),
        backend(options.workers > 0 ? options.workers : WorkerPool::DefaultWorkers(), options.own_cores) {}

  // Error: other domains know only the process that forked this one.
  absl::Status CheckIsHere() const { return transport == nullptr ? absl::OkStatus() : made.Check("Session"); }

  // One compiled program, ready to run.
  struct Ready {
    Program program;
    std::unique_ptr<Executor> executor;
  };

  absl::StatusOr<Ready> Prepare(const Graph& global, const CompileOptions& compile,
                                const ExecutorOptions& executor_options) {
    MESHWORK_ASSIGN_OR_RETURN(Program program, CompileInAll(global, compile, executor_options.atomic));
    return Prepare(std::move(program), executor_options);
  }
  absl::StatusOr<Ready> Prepare(Program program, const ExecutorOptions& executor_options) {
    MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                              Executor::Create(program, backend, executor_options, &variables));
    return Ready{std::move(program), std::move(executor)};
  }
  absl::StatusOr<Program> CompileInAll(const Graph& global, const CompileOptions& compile,
                                       bool atomic) const {
    absl::StatusOr<Program> program =
        atomic ? CompileBesideSpares(global, compile) : Compile(global, compile);
    MESHWORK_RETURN_IF_ERROR(AllGoOn("the compile", program.status(), "done"));
    return program;
  }

  // Whether this domain and all others can go on with the same thing.
  absl::Status AllGoOn(std::string_view what, const absl::Status& mine, std::string_view value) const {
    if (transport == nullptr) return mine;
    if (!mine.ok()) return Agree(*transport, what, mine);
    return Agree(*transport, what, std::string(value));
  }

  // Dim 0 of the inputs: the first input's that has dims; 0 if none has.
  int64_t BatchSize() const {
    for (const Argument& argument : graph.arguments()) {
      const Shape& shape = graph.value(argument.value).type.shape;
      if (!argument.is_variable && !shape.empty()) return shape[0];
    }
    return 0;
  }

  // The leading size that the feeds agree on, if it is a shorter batch; else the full one, and the
  // executor says what does not fit.
  int64_t FedBatch(const Feeds& feeds) const {
    const int64_t full = BatchSize();
    int64_t fed = 0;
    for (const Argument& argument : graph.arguments()) {
      const ValueInfo& info = graph.value(argument.value);
      if (argument.is_variable || info.type.shape.empty() || info.type.shape[0] != full) continue;
      const auto feed = feeds.find(info.name);
      if (feed == feeds.end() || !feed->second.valid() || feed->second.type().rank() == 0) return full;
      const int64_t rows = feed->second.shape()[0];
      if (rows < 1 || rows > full || (fed != 0 && rows != fed)) return full;
      fed = rows;
    }
    return fed == 0 ? full : fed;
  }

  // A step on this memory, for the rows that are fed, with all outputs. Its program is compiled when so many
  // rows first come. In all domains or in none.
  absl::StatusOr<BoundStep> Bind(StepMemory memory, bool update) {
    const int64_t full = BatchSize(), rows = FedBatch(memory.feeds);
    const std::string step = fmt::format("{} of {}", update ? "a step" : "an evaluation", Count(rows, "row"));
    auto found = ready.find({rows, update});
    if (found == ready.end()) {
      MESHWORK_RETURN_IF_ERROR(AllGoOn("the step", absl::OkStatus(), step));
      MESHWORK_ASSIGN_OR_RETURN(Ready made, Make(full, rows, update));
      found = ready.emplace(std::pair(rows, update), std::move(made)).first;
    }
    Executor& executor = *found->second.executor;
    memory.outputs.merge(executor.NewOutputs());
    absl::StatusOr<BoundStep> bound = executor.Bind(std::move(memory));
    MESHWORK_RETURN_IF_ERROR(AllGoOn("the step", bound.status(), step));
    return bound;
  }

  absl::StatusOr<StepResult> Run(const Feeds& feeds, bool update) {
    MESHWORK_ASSIGN_OR_RETURN(BoundStep step, Bind({.feeds = feeds}, update));
    MESHWORK_RETURN_IF_ERROR(step.Run());
    return StepResult(step.outputs(), step.distributed_outputs());
  }

  // Lets the program gather the outputs that lie in several domains.
  absl::Status GatherOutputs() {
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

  // A variable whose blocks lie in several domains, whole, by a program of its own.
  absl::StatusOr<Tensor> Gather(const std::string& name) {
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

  const Ready& full() const { return ready.at({BatchSize(), true}); }

  // Where this domain's devices are, on the mesh of the full step.
  Domain here() const { return HereOn(full().program.body.mesh()); }
  // REQUIRES: a program was compiled to this mesh.
  Domain HereOn(const Mesh& mesh) const {
    return transport == nullptr
               ? Domain(mesh)
               : Domain(Placement::Create(mesh, transport->num_domains()).value(), transport->domain());
  }

  // A variable that the program did not pin, or left open, lies where the full step put it, for all programs; so does
  // state that the step shards. `local`: of the step.
  void LayOutVariables(const Graph& local) {
    graph.CutMesh(local.mesh());
    for (size_t a = 0; a < local.arguments().size(); ++a) {
      if (!local.arguments()[a].is_variable) continue;
      ValueInfo& info = graph.mutable_value(graph.arguments()[a].value);
      info.layout = local.value(local.arguments()[a].value).layout;
      info.modes.clear();
    }
  }

  // How the variables get to where `next` has them, whose full step is `program`. Errors: what keeps `next` from making
  // that step, as far as it can be told before; more memory than options.memory_budget.
  absl::StatusOr<StateMove> PlanMove(const Impl& next, const Program& program,
                                     const RemeshOptions& remesh) const {
    MESHWORK_RETURN_IF_ERROR(Executor::PlanMemory(program, next.backend, next.options.executor).status());
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

  absl::StatusOr<Ready> Make(int64_t full, int64_t rows, bool update) {
    Graph global = update ? graph : WithoutUpdates(graph);
    if (rows != full) {
      absl::StatusOr<Graph> rebatched = Rebatch(global, full, rows);
      if (!rebatched.ok()) return Annotate(rebatched.status(), "Session: ");
      global = *std::move(rebatched);
    }
    return Prepare(global, rows == full && update ? options.compile : ForOthers(), ForStep(update));
  }

  ExecutorOptions ForStep(bool update) const {
    ExecutorOptions executor = options.executor;
    executor.record = update ? record : nullptr;
    return executor;
  }

  // For what is compiled beside the full step, which alone is dumped, and says how the mesh is
  // cut and where state lies.
  CompileOptions ForOthers() const {
    CompileOptions compile = options.compile;
    compile.dump = nullptr;
    compile.cut_mesh = false;
    compile.shard_weight_update = false;
    return compile;
  }

  // For programs without the inputs and outputs of the step.
  ExecutorOptions Whole() const {
    ExecutorOptions executor = options.executor;
    executor.distributed.clear();
    executor.in_place.clear();
    executor.atomic = false;
    executor.record = nullptr;
    return executor;
  }

  const Graph asked;  // as the user wrote it
  Graph graph;        // its open variables as they lie
  SessionOptions options;
  Transport* const transport;  // null: there is one domain
  const std::shared_ptr<StepRecord> record;
  const ForkMark made;
  CpuBackend backend;
  std::map<std::string, DTensor> variables;
  std::map<std::pair<int64_t, bool>, Ready> ready;  // by leading size, and whether it updates
  std::map<std::string, Ready> gathers;             // by variable
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

namespace {

// What f returns, or a status where it throws: there is not enough memory, or a user's op threw while its
// kernel was made. Other domains do not wait for this one then.
template <typename F>
std::invoke_result_t<F> WithoutExceptions(Transport* transport, F&& f) {
  try {
    return f();
  } catch (...) {
    absl::Status status = CaughtStatus("Session", "there is not enough memory");
    if (transport != nullptr) transport->Abort(status);
    return status;
  }
}

SessionOptions Completed(SessionOptions options) {
  if (options.executor.transport != nullptr)
    options.compile.num_domains = options.executor.transport->num_domains();
  if (options.compile.deterministic) options.executor.coalesce = false;
  return options;
}

}  // namespace

absl::StatusOr<Session> Session::Create(const Graph& graph, SessionOptions options) {
  return WithoutExceptions(options.executor.transport, [&] { return TryCreate(graph, std::move(options)); });
}

absl::StatusOr<Session> Session::TryCreate(const Graph& graph, SessionOptions options) {
  MESHWORK_RETURN_IF_ERROR(graph.status());
  MESHWORK_RETURN_IF_ERROR(CheckHasResults(graph));
  MESHWORK_RETURN_IF_ERROR(CheckWorkers(options.workers));
  options = Completed(std::move(options));
  auto impl = std::make_unique<Impl>(graph, std::move(options));
  MESHWORK_RETURN_IF_ERROR(impl->AllGoOn("the mesh", absl::OkStatus(), graph.mesh().ToString()));
  if (impl->options.gather_outputs) MESHWORK_RETURN_IF_ERROR(impl->GatherOutputs());
  const int64_t full = impl->BatchSize();
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready step, impl->Make(full, full, /*update=*/true));
  impl->LayOutVariables(step.program.body);
  impl->ready.emplace(std::pair(full, true), std::move(step));
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready init, impl->Prepare(InitializerGraph(impl->graph, impl->options.seed),
                                                            impl->ForOthers(), impl->Whole()));
  MESHWORK_RETURN_IF_ERROR(init.executor->Run({}, nullptr));
  return Session(std::move(impl));
}

absl::StatusOr<RemeshReport> Session::Remesh(const Mesh& mesh, const NamedLayouts& layouts,
                                             const RemeshOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport,
                           [&] { return TryRemesh(OnOtherMesh(impl_->asked, mesh, layouts), options); });
}
absl::StatusOr<RemeshReport> Session::Remesh(const Graph& graph, const RemeshOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return TryRemesh(graph, options); });
}

absl::StatusOr<RemeshReport> Session::TryRemesh(const absl::StatusOr<Graph>& graph,
                                                const RemeshOptions& options) {
  absl::Status status = graph.status();
  if (status.ok()) status = graph->status();
  if (status.ok()) status = CheckHasResults(*graph);
  if (status.ok()) status = CheckSameVariables(*graph, impl_->variables);
  if (status.ok()) status = CheckOptions(options);
  MESHWORK_RETURN_IF_ERROR(impl_->AllGoOn(
      "the mesh", status,
      status.ok()
          ? fmt::format("{}, {} bytes at a time", graph->mesh().ToString(), options.max_bytes_in_flight)
          : ""));
  SessionOptions session = impl_->options;
  session.compile.topology = {};
  if (options.compile.has_value()) session.compile = *options.compile;
  auto next = std::make_unique<Impl>(*graph, Completed(std::move(session)));
  if (next->options.gather_outputs) MESHWORK_RETURN_IF_ERROR(next->GatherOutputs());
  MESHWORK_ASSIGN_OR_RETURN(
      Program program, next->CompileInAll(next->graph, next->options.compile, next->options.executor.atomic));
  next->LayOutVariables(program.body);
  const absl::StatusOr<StateMove> move = impl_->PlanMove(*next, program, options);
  MESHWORK_RETURN_IF_ERROR(impl_->AllGoOn("the program", move.status(), Fingerprint(program.body)));
  // From here on there is no way back.
  const std::unique_ptr<Impl> old = std::move(impl_);
  old->ready.clear();
  old->gathers.clear();
  old->record->Forget();
  for (auto& [name, tensor] : old->variables) tensor.DropSpare();
  MESHWORK_RETURN_IF_ERROR(
      move->Run(next->transport, next->backend.memory(), old->variables, next->variables));
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready step,
                            next->Prepare(std::move(program), next->ForStep(/*update=*/true)));
  next->record->set_done(old->record->done());
  next->ready.emplace(std::pair(next->BatchSize(), true), std::move(step));
  impl_ = std::move(next);
  const int64_t here = impl_->transport == nullptr ? 0 : impl_->transport->domain();
  return RemeshReport{move->sent_bytes(here), move->received_bytes(here), move->total_bytes(),
                      move->peak_bytes()};
}

absl::StatusOr<StepResult> Session::Run(const Feeds& feeds) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Run(feeds, /*update=*/true); });
}
absl::StatusOr<StepResult> Session::Evaluate(const Feeds& feeds) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Run(feeds, /*update=*/false); });
}

absl::StatusOr<BoundStep> Session::Bind(const Feeds& feeds) { return Bind(StepMemory{.feeds = feeds}); }

absl::StatusOr<BoundStep> Session::Bind(StepMemory memory) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Bind(std::move(memory), /*update=*/true); });
}

RowRange Session::RowsHere(int64_t rows) const {
  if (impl_ == nullptr) return {0, std::max<int64_t>(rows, 0)};
  return RowsOfDomain(impl_->graph, impl_->full().program.body, impl_->here(), impl_->BatchSize(), rows);
}

absl::StatusOr<DTensor> Session::NewFeed(std::string_view name) const {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return WithoutExceptions(nullptr, [&] { return impl_->full().executor->NewFeed(name); });
}

absl::StatusOr<DTensor> Session::NewOutput(std::string_view name) const {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return WithoutExceptions(nullptr, [&] { return impl_->full().executor->NewOutput(name); });
}

absl::StatusOr<Tensor> Session::Get(std::string_view variable) const {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  const auto found = impl_->variables.find(std::string(variable));
  if (found == impl_->variables.end()) return NoSuch("variable", variable, impl_->variables);
  const DTensor& tensor = found->second;
  if (tensor.layout().ShardedAxes().Intersects(tensor.domain().placement().across()))
    return WithoutExceptions(impl_->transport, [&] { return impl_->Gather(found->first); });
  return Unpack(tensor, impl_->options.executor.check_replicas);
}

absl::Status Session::Set(std::string_view variable, const Tensor& value) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  const auto found = impl_->variables.find(std::string(variable));
  if (found == impl_->variables.end()) return NoSuch("variable", variable, impl_->variables);
  return Annotate(Pack(value, found->second, impl_->options.executor.poison_padding),
                  fmt::format("variable \"{}\": ", variable));
}

std::vector<std::string> Session::variable_names() const {
  std::vector<std::string> names;
  if (impl_ == nullptr) return names;
  for (const Argument& argument : impl_->graph.arguments())
    if (argument.is_variable) names.push_back(impl_->graph.value(argument.value).name);
  return names;
}

std::map<std::string, DTensor> Session::State() const {
  if (impl_ == nullptr) return {};
  return impl_->variables;
}

int64_t Session::steps_done() const { return impl_ == nullptr ? 0 : impl_->record->done(); }

void Session::set_steps_done(int64_t steps) {
  if (impl_ != nullptr) impl_->record->set_done(steps);
}

absl::Status Session::Undo() {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return Annotate(impl_->record->Undo(), "Session: ");
}

std::shared_ptr<StepRecord> Session::record() const { return impl_ == nullptr ? nullptr : impl_->record; }

absl::Status Session::Save(const std::string& dir, const CheckpointNote& note) const {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return WithoutExceptions(impl_->transport, [&] { return SaveState(Here(), dir, note); });
}

absl::StatusOr<CheckpointNote> Session::Restore(const std::string& path, const RestoreOptions& options) {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return WithoutExceptions(impl_->transport, [&]() -> absl::StatusOr<CheckpointNote> {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> note, RestoreState(Here(), path, options));
    if (note.has_value()) return *note;
    return absl::NotFoundError(fmt::format("{}: there is no checkpoint.", path));
  });
}

DomainState Session::Here() const {
  if (impl_ == nullptr) return {};
  return {impl_->transport, impl_->variables};
}

const Program& Session::program() const {
  static const auto* const none = new Program{.body = Graph(Mesh())};
  if (impl_ == nullptr) return *none;
  return impl_->full().program;
}
const ExecutorMemory& Session::memory() const {
  static const ExecutorMemory none;
  if (impl_ == nullptr) return none;
  return impl_->full().executor->memory();
}

std::string Session::Explain() const {
  if (impl_ == nullptr) return std::string(MessageOf(CheckIsThere(nullptr))) + "\n";
  const CompileOptions& options = impl_->options.compile;
  Explanation explanation = meshwork::Explain(program(), options.topology);
  explanation.search = CheaperLayouts(impl_->asked, program(), options);
  return ToText(explanation);
}

absl::StatusOr<StepPrediction> Session::Predict(const Topology& topology) const {
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  return WithoutExceptions(nullptr, [&] {
    return Executor::Predict(program(), impl_->backend, impl_->options.executor, topology);
  });
}

meshwork::Profile Session::Profile() const {
  if (impl_ == nullptr) return {};
  return impl_->full().executor->Profile();
}

meshwork::Trace Session::Trace() const {
  if (impl_ == nullptr) return {};
  return impl_->full().executor->Trace();
}

}  // namespace meshwork
