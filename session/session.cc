#include "meshwork/session/session.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/runtime/exec/input_wait.h"
#include "meshwork/session/rows_here.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/session/session_graphs.h"
#include "meshwork/session/session_impl.h"
#include "meshwork/session/shared_variables.h"
#include "meshwork/session/staged_feeds.h"
#include "meshwork/session/without_exceptions.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {

absl::StatusOr<Tensor> StepResult::Get(std::string_view name) const {
  const auto found = outputs_.find(std::string(name));
  if (found == outputs_.end()) return NoSuchOfSession("output", name, KeysOf(outputs_));
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

absl::Status CheckMaxPrograms(int programs) {
  if (programs >= 1) return absl::OkStatus();
  return InvalidArgument("Session: max_programs={}; give 1 or more.", programs);
}

// Error: a program without results, unless it only declares variables.
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

}  // namespace

Session::Session(std::unique_ptr<Impl> impl)
    : caller_(std::make_shared<OneCaller>()), impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

absl::StatusOr<OneCaller::Call> Session::Begin(const char* call) const {
  if (caller_ == nullptr) return CheckIsThere(nullptr);
  absl::StatusOr<OneCaller::Call> begun = caller_->Begin("Session", call);
  if (!begun.ok()) return begun;
  // Checked only now, because Remesh makes another impl_.
  MESHWORK_RETURN_IF_ERROR(CheckIsThere(impl_.get()));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckGpuIsHere());
  return begun;
}

namespace {

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
  MESHWORK_RETURN_IF_ERROR(CheckMaxPrograms(options.max_programs));
  options = Completed(std::move(options));
  auto impl = std::make_unique<Impl>(graph, std::move(options));
  absl::StatusOr<std::shared_ptr<Backend>> backend = MakeBackend(impl->options);
  MESHWORK_RETURN_IF_ERROR(impl->AllGoOn("the mesh", backend.status(), graph.mesh().ToString()));
  impl->backend = *std::move(backend);
  if (impl->options.gather_outputs) MESHWORK_RETURN_IF_ERROR(impl->GatherOutputs());
  const int64_t full = impl->BatchSize();
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready step, impl->Make({.rows = full}));
  LayOutVariables(step.program.body, impl->graph);
  impl->ready.emplace(Impl::Kind{.rows = full}, std::move(step));
  MESHWORK_RETURN_IF_ERROR(impl->Initialize());
  TakeInputWait();  // what this thread waited for before is not the first step's
  return Session(std::move(impl));
}

absl::StatusOr<Session> Session::Share(const Graph& graph) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Share"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return TryShare(graph); });
}

absl::StatusOr<Session> Session::TryShare(const Graph& graph) const {
  absl::Status status = graph.status();
  if (status.ok()) status = CheckHasResults(graph);
  if (status.ok()) status = CheckCanShare(graph, impl_->asked, impl_->variables, *impl_->family);
  MESHWORK_RETURN_IF_ERROR(impl_->AllGoOn("the mesh", status, graph.mesh().ToString()));
  SessionOptions options = impl_->options;
  options.compile = impl_->ForOthers();
  options.executor = impl_->Whole();
  options.compiled = nullptr;
  auto impl = std::make_unique<Impl>(graph, std::move(options));
  impl->backend = impl_->backend;
  impl->family = impl_->family;
  impl->graph.CutMesh(impl_->full().program.body.mesh());
  const std::set<std::string> others = ShareVariables(impl_->variables, impl->graph);
  for (const Argument& argument : impl->graph.arguments()) {
    const auto found = impl_->variables.find(impl->graph.value(argument.value).name);
    if (argument.is_variable && found != impl_->variables.end()) impl->variables.insert(*found);
  }
  if (impl->options.gather_outputs) MESHWORK_RETURN_IF_ERROR(impl->GatherOutputs());
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready step, impl->Make({.rows = impl->BatchSize()}));
  LayOutVariables(step.program.body, impl->graph);
  impl->ready.emplace(Impl::Kind{.rows = impl->BatchSize()}, std::move(step));
  if (!others.empty()) MESHWORK_RETURN_IF_ERROR(impl->Initialize(&others));
  Session shared(std::move(impl));
  shared.caller_ = caller_;
  return shared;
}

absl::StatusOr<RemeshReport> Session::Remesh(const Mesh& mesh, const NamedLayouts& layouts,
                                             const RemeshOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Remesh"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport,
                           [&] { return TryRemesh(OnOtherMesh(impl_->asked, mesh, layouts), options); });
}
absl::StatusOr<RemeshReport> Session::Remesh(const Graph& graph, const RemeshOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Remesh"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return TryRemesh(graph, options); });
}

absl::StatusOr<RemeshReport> Session::TryRemesh(const absl::StatusOr<Graph>& graph,
                                                const RemeshOptions& options) {
  absl::Status status = graph.status();
  if (impl_->family.use_count() > 1)
    status = absl::FailedPreconditionError(
        "Remesh: another session shares the variables (Session::Share); end it first.");
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
  next->backend = impl_->backend;
  if (next->options.gather_outputs) MESHWORK_RETURN_IF_ERROR(next->GatherOutputs());
  MESHWORK_ASSIGN_OR_RETURN(
      Program program, next->CompileInAll(next->graph, next->options.compile, next->options.executor.atomic));
  LayOutVariables(program.body, next->graph);
  const absl::StatusOr<StateMove> move = impl_->PlanMove(*next, program, options);
  MESHWORK_RETURN_IF_ERROR(impl_->AllGoOn("the program", move.status(), Fingerprint(program.body)));
  // From here on there is no way back.
  const std::unique_ptr<Impl> old = std::move(impl_);
  old->ready.clear();
  old->gathers.clear();
  old->record->Forget();
  for (auto& [name, tensor] : old->variables) tensor.DropSpare();
  MESHWORK_RETURN_IF_ERROR(
      move->Run(next->transport, next->backend->memory(), old->variables, next->variables));
  MESHWORK_ASSIGN_OR_RETURN(Impl::Ready step, next->Prepare(std::move(program), next->ForStep()));
  ++next->programs_made;
  next->record->set_done(old->record->done());
  next->ready.emplace(Impl::Kind{.rows = next->BatchSize()}, std::move(step));
  impl_ = std::move(next);
  const int64_t here = impl_->transport == nullptr ? 0 : impl_->transport->domain();
  return RemeshReport{move->sent_bytes(here), move->received_bytes(here), move->total_bytes(),
                      move->peak_bytes()};
}

absl::StatusOr<StepResult> Session::Run(const Feeds& feeds) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Run"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Run({.feeds = feeds}); });
}
absl::StatusOr<StepResult> Session::Run(const Feeds& feeds, const StagedFeeds& staged) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Run"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport,
                           [&] { return impl_->Run({.feeds = feeds, .staged = staged.AmongThem(feeds)}); });
}
absl::StatusOr<StagedFeeds> Session::NewStagedFeeds() const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("NewStagedFeeds"));
  return StagedFeeds(impl_->backend->memory());
}
absl::StatusOr<StepResult> Session::Evaluate(const Feeds& feeds, const std::vector<std::string>& outputs) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Evaluate"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Evaluate(feeds, outputs); });
}
absl::StatusOr<StepResult> Session::Accumulate(const Feeds& feeds, const std::vector<std::string>& outputs) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Accumulate"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport,
                           [&] { return impl_->Evaluate(feeds, outputs, Impl::Mode::kAccumulate); });
}
absl::StatusOr<StepResult> Session::Predict(const Feeds& feeds, const std::vector<std::string>& outputs) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Predict"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  return WithoutExceptions(impl_->transport, [&] { return impl_->Predict(feeds, outputs); });
}

absl::StatusOr<BoundStep> Session::Bind(const Feeds& feeds) { return Bind(StepMemory{.feeds = feeds}); }

absl::StatusOr<BoundStep> Session::Bind(StepMemory memory) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Bind"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  absl::StatusOr<BoundStep> bound =
      WithoutExceptions(impl_->transport, [&] { return impl_->Bind(std::move(memory), {}); });
  if (bound.ok()) bound->RefuseBeside(caller_, "Session");
  return bound;
}

RowRange Session::RowsHere(int64_t rows) const {
  if (impl_ == nullptr) return {0, std::max<int64_t>(rows, 0)};
  return RowsOfDomain(impl_->graph, impl_->full().program.body, impl_->here(), impl_->BatchSize(), rows);
}

absl::StatusOr<DTensor> Session::NewFeed(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("NewFeed"));
  return WithoutExceptions(nullptr, [&] { return impl_->full().executor->NewFeed(name); });
}

absl::StatusOr<DTensor> Session::NewOutput(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("NewOutput"));
  return WithoutExceptions(nullptr, [&] { return impl_->full().executor->NewOutput(name); });
}

absl::StatusOr<Tensor> Session::Get(std::string_view variable) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Get"));
  return TryGet(variable);
}

absl::StatusOr<Tensor> Session::TryGet(std::string_view variable) const {
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  MESHWORK_ASSIGN_OR_RETURN(const DTensor tensor, impl_->Find(variable));
  if (tensor.layout().ShardedAxes().Intersects(tensor.domain().placement().across()))
    return WithoutExceptions(impl_->transport, [&] { return impl_->Gather(std::string(variable)); });
  return Unpack(tensor, impl_->options.executor.check_replicas);
}

absl::Status Session::Set(std::string_view variable, const Tensor& value) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Set"));
  MESHWORK_RETURN_IF_ERROR(impl_->CheckIsHere());
  MESHWORK_ASSIGN_OR_RETURN(DTensor tensor, impl_->Find(variable));
  return Annotate(Pack(value, tensor, impl_->options.executor.poison_padding),
                  fmt::format("variable \"{}\": ", variable));
}

std::vector<std::string> Session::variable_names() const {
  std::vector<std::string> names;
  if (impl_ == nullptr) return names;
  for (const Argument& argument : impl_->graph.arguments())
    if (argument.is_variable) names.push_back(impl_->graph.value(argument.value).name);
  return names;
}

absl::StatusOr<Layout> Session::LayoutOf(std::string_view variable) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("LayoutOf"));
  MESHWORK_ASSIGN_OR_RETURN(const DTensor tensor, impl_->Find(variable));
  return tensor.layout();
}

absl::StatusOr<std::vector<Shard>> Session::Shards(std::string_view variable) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Shards"));
  MESHWORK_ASSIGN_OR_RETURN(const DTensor tensor, impl_->Find(variable));
  return WithoutExceptions(nullptr, [&] { return ShardsOf(tensor); });
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
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Undo"));
  return Annotate(impl_->record->Undo(), "Session: ");
}

std::shared_ptr<StepRecord> Session::record() const { return impl_ == nullptr ? nullptr : impl_->record; }

absl::Status Session::Save(const std::string& dir, const CheckpointNote& note) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Save"));
  return WithoutExceptions(impl_->transport, [&] { return SaveState(Here(), dir, note); });
}

absl::StatusOr<CheckpointNote> Session::Restore(const std::string& path, const RestoreOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("Restore"));
  return WithoutExceptions(impl_->transport, [&]() -> absl::StatusOr<CheckpointNote> {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> note, RestoreState(Here(), path, options));
    if (note.has_value()) return *note;
    return NoCheckpoint(path);
  });
}

DomainState Session::Here() const {
  if (impl_ == nullptr) return {};
  return {impl_->transport, impl_->variables, std::string(impl_->backend->name())};
}

const Graph& Session::graph() const {
  static const auto* const none = new Graph(Mesh());
  return impl_ == nullptr ? *none : impl_->asked;
}
const Program& Session::program() const {
  static const auto* const none = new Program{.body = Graph(Mesh())};
  if (impl_ == nullptr) return *none;
  return impl_->full().program;
}
const CompileOptions& Session::compile_options() const {
  static const auto* const none = new CompileOptions();
  return impl_ == nullptr ? *none : impl_->options.compile;
}
const ExecutorMemory& Session::memory() const {
  static const ExecutorMemory none;
  if (impl_ == nullptr) return none;
  return impl_->full().executor->memory();
}

KeptPrograms Session::kept_programs() const {
  if (impl_ == nullptr) return {};
  KeptPrograms programs{.made = impl_->programs_made, .kept = std::ssize(impl_->ready)};
  for (const auto& [kind, program] : impl_->ready) {
    const ExecutorMemory& memory = program.executor->memory();
    programs.bytes += memory.private_bytes + memory.shared_bytes + memory.constant_bytes;
  }
  return programs;
}

std::string Session::Explain(const ExplainOptions& asked) const {
  if (impl_ == nullptr) return std::string(MessageOf(CheckIsThere(nullptr))) + "\n";
  const CompileOptions& options = impl_->options.compile;
  Explanation explanation = meshwork::Explain(program(), options.topology);
  if (asked.search) explanation.search = CheaperLayouts(impl_->asked, program(), options);
  return ToText(explanation);
}

absl::StatusOr<StepPrediction> Session::PredictTime(const Topology& topology) const {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, Begin("PredictTime"));
  return WithoutExceptions(nullptr, [&] {
    return Executor::PredictTime(program(), *impl_->backend, impl_->options.executor, topology);
  });
}

meshwork::Profile Session::Profile() const {
  if (impl_ == nullptr) return {};
  meshwork::Profile profile = impl_->full().executor->Profile();
  profile.input = impl_->input;
  return profile;
}

meshwork::Trace Session::Trace() const {
  if (impl_ == nullptr) return {};
  return impl_->full().executor->Trace();
}

}  // namespace meshwork
