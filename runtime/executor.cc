#include "meshwork/runtime/executor.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/regions.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/arrange.h"
#include "meshwork/runtime/backend.h"
#include "meshwork/runtime/binding.h"
#include "meshwork/runtime/local_program.h"
#include "meshwork/runtime/loop.h"
#include "meshwork/runtime/reduce_early.h"
#include "meshwork/runtime/step_plan.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {
namespace {

// The DTensor that argument `a` of the program is bound to; null if there is none yet.
absl::StatusOr<const DTensor*> FindVariable(const Graph& graph, int a, const Domain& domain,
                                            const std::map<std::string, DTensor>& variables) {
  const std::string& name = graph.argument_name(a);
  const ValueInfo& info = graph.value(graph.arguments()[a].value);
  const auto it = variables.find(name);
  if (it == variables.end()) return nullptr;
  const DTensor& state = it->second;
  if (state.valid() && state.type() == info.global && state.layout() == *info.layout) {
    if (state.domain() == domain) return &state;
    return InvalidArgument(
        "Executor: variable \"{}\" lies in domain {} of {} in the program and in domain {} of {} in the "
        "state; a variable stays where it was made.",
        name, domain.index(), domain.placement().ToString(), state.domain().index(),
        state.domain().placement().ToString());
  }
  return InvalidArgument(
      "Executor: variable \"{}\" is {} {} on {} in the program and {} {} on {} in the state; programs that "
      "share a variable must declare it alike.",
      name, info.global.ToString(), info.layout->ToString(), graph.mesh().ToString(), state.type().ToString(),
      state.layout().ToString(), state.layout().mesh().ToString());
}

StepPlanOptions PlanOptions(const ExecutorOptions& options, const Domain& domain) {
  return {.domain = domain,
          .distributed = options.distributed,
          .share = options.share,
          .coalesce = options.coalesce,
          .check_replicas = options.check_replicas};
}

Graph OrderOf(const Graph& local, const ExecutorOptions& options, AxisSet across) {
  const bool coalesces = options.coalesce && options.share;
  return WithRegions(LowerLoops(local), [&](const Graph& program) {
    if (!coalesces && !options.fuse) return program;
    Graph arranged = Arrange(program, across);
    return coalesces ? ReduceEarly(arranged, across) : arranged;
  });
}

// The domain whose step is planned: the transport's.
absl::StatusOr<Domain> DomainOf(const Program& program, const Transport* transport) {
  const int64_t domains = transport == nullptr ? 1 : transport->num_domains();
  if (domains != program.num_domains)
    return InvalidArgument(
        "Executor: the program {} is for {} and {}; compile it with CompileOptions::num_domains={}.",
        program.body.name, Count(program.num_domains, "domain"),
        transport == nullptr ? "there is no transport, so there is one"
                             : fmt::format("the transport is between {}", domains),
        domains);
  ASSIGN_OR_RETURN(Placement placement, Placement::Create(program.body.mesh(), domains));
  if (!(placement.mesh() == program.body.mesh()))
    return InvalidArgument("Executor: the program {} is on {}; {} are on a mesh cut where they end, {}.",
                           program.body.name, program.body.mesh().ToString(), Count(domains, "domain"),
                           placement.mesh().ToString());
  return Domain(std::move(placement), transport == nullptr ? 0 : transport->domain());
}

absl::Status CheckDistributed(const Graph& local, const Domain& domain,
                              const std::set<std::string>& distributed) {
  std::vector<std::string> names;
  for (const Argument& argument : local.arguments())
    if (!argument.is_variable) names.push_back(local.value(argument.value).name);
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    names.push_back(OutputName(local, static_cast<int>(o)));
    const ValueInfo& info = local.value(local.outputs()[o].value);
    if (distributed.contains(names.back()) ||
        !info.layout->ShardedAxes().Intersects(domain.placement().across()))
      continue;
    return InvalidArgument(
        "Executor: output \"{}\" is {} {}, whose blocks lie in {}; name it in ExecutorOptions::distributed, "
        "or "
        "let the program gather it (relayout).",
        names.back(), info.global.ToString(), info.layout->ToString(), domain.placement().ToString());
  }
  for (const std::string& name : distributed) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string hint = DidYouMean(name, names);
    return InvalidArgument("Executor: distributed \"{}\" is no input or output of {}{}", name, local.name,
                           hint.empty() ? "." : hint);
  }
  return absl::OkStatus();
}

PrepareOptions PreparationOptions(const ExecutorOptions& options) {
  return {.fuse = options.fuse,
          .poison_padding = options.poison_padding,
          .profile = options.profile,
          .trace_steps = options.trace_steps,
          .transport = options.transport};
}

// All that is decided before a backend sees the program.
struct Planned {
  Domain domain;
  StepPlan plan;
  int64_t variable_bytes = 0;
};

absl::StatusOr<Planned> Plan(const Program& program, const Backend& backend, const ExecutorOptions& options,
                             const std::map<std::string, DTensor>& variables) {
  RETURN_IF_ERROR(CheckLocalProgram(program.body, backend));
  Planned planned;
  ASSIGN_OR_RETURN(planned.domain, DomainOf(program, options.transport));
  const Domain& domain = planned.domain;
  RETURN_IF_ERROR(CheckDistributed(program.body, domain, options.distributed));
  auto graph = std::make_shared<const Graph>(OrderOf(program.body, options, domain.placement().across()));
  std::vector<InstanceMap> instances(graph->arguments().size());
  for (size_t a = 0; a < instances.size(); ++a) {
    if (!graph->arguments()[a].is_variable) continue;
    const ValueInfo& info = graph->value(graph->arguments()[a].value);
    ASSIGN_OR_RETURN(const DTensor* const bound,
                     FindVariable(*graph, static_cast<int>(a), domain, variables));
    instances[a] = bound != nullptr ? bound->instances() : InstancesOf(domain, *info.layout, options.share);
    planned.variable_bytes +=
        bound != nullptr ? bound->bytes() : BytesOfDTensor(domain, info.global, *info.layout, options.share);
  }
  ASSIGN_OR_RETURN(planned.plan, BuildStepPlan(std::move(graph), instances, PlanOptions(options, domain)));
  return planned;
}

// Per argument of the program: its DTensor, new if `variables` has none; invalid for inputs.
std::vector<DTensor> StateOf(const Planned& planned, const Backend& backend, const ExecutorOptions& options,
                             const std::map<std::string, DTensor>& variables) {
  const Graph& graph = *planned.plan.graph;
  std::vector<DTensor> state(graph.arguments().size());
  for (size_t a = 0; a < state.size(); ++a) {
    if (!graph.arguments()[a].is_variable) continue;
    const ValueInfo& info = graph.value(graph.arguments()[a].value);
    const auto bound = variables.find(info.name);
    state[a] = bound != variables.end()
                   ? bound->second
                   : DTensor(planned.domain, backend.memory(), info.global, *info.layout, options.share);
  }
  return state;
}

// Whether this domain and all others can go on with the same program, planned in the same way.
absl::Status AgreeOn(std::string_view what, const absl::Status& mine, const Program& program,
                     const ExecutorOptions& options) {
  if (options.transport == nullptr) return mine;
  if (!mine.ok()) return Agree(*options.transport, what, mine);
  return Agree(*options.transport, what,
               fmt::format("{} (share={} coalesce={} check_replicas={} distributed=[{}])",
                           Fingerprint(program.body), options.share, options.coalesce, options.check_replicas,
                           fmt::join(options.distributed, ", ")));
}

}  // namespace

Executor::Executor(std::shared_ptr<const Graph> graph, const Domain& domain, const Backend& backend,
                   std::set<std::string> distributed, const ExecutorMemory& memory,
                   std::unique_ptr<PreparedStep> step)
    : graph_(std::move(graph)),
      domain_(domain),
      backend_(backend),
      distributed_(std::move(distributed)),
      memory_(memory),
      step_(std::move(step)) {}

Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, Backend& backend,
                                                           const ExecutorOptions& options,
                                                           std::map<std::string, DTensor>* variables) {
  MESHWORK_CHECK(variables != nullptr);
  try {
    // All domains have an executor, or none has.
    absl::StatusOr<Planned> planned = Plan(program, backend, options, *variables);
    RETURN_IF_ERROR(AgreeOn("the program", planned.status(), program, options));
    const std::shared_ptr<const Graph> graph = planned->plan.graph;
    const std::vector<DTensor> state = StateOf(*planned, backend, options, *variables);
    absl::StatusOr<std::unique_ptr<PreparedStep>> step =
        backend.Prepare(std::move(planned->plan), state, PreparationOptions(options));
    RETURN_IF_ERROR(AgreeOn("what it needs", step.status(), program, options));
    for (size_t a = 0; a < state.size(); ++a)
      if (state[a].valid()) variables->emplace(graph->argument_name(static_cast<int>(a)), state[a]);
    ExecutorMemory memory = (*step)->memory();
    memory.variable_bytes = planned->variable_bytes;
    return std::unique_ptr<Executor>(
        new Executor(graph, planned->domain, backend, options.distributed, memory, *std::move(step)));
  } catch (...) {
    if (options.transport != nullptr)
      options.transport->Abort(CaughtStatus("Executor", "there is not enough memory"));
    throw;
  }
}

absl::StatusOr<ExecutorMemory> Executor::PlanMemory(const Program& program, const Backend& backend,
                                                    const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(Planned planned, Plan(program, backend, options, {}));
  ExecutorMemory memory = backend.PlanMemory(std::move(planned.plan), PreparationOptions(options));
  memory.variable_bytes = planned.variable_bytes;
  return memory;
}

absl::StatusOr<BoundStep> Executor::Bind(std::map<std::string, Tensor> feeds,
                                         std::map<std::string, Tensor> outputs) {
  return Bind(StepMemory{.feeds = std::move(feeds), .outputs = std::move(outputs)});
}

absl::StatusOr<BoundStep> Executor::Bind(StepMemory memory) {
  RETURN_IF_ERROR(CheckFeeds(*graph_, distributed_, memory));
  RETURN_IF_ERROR(CheckOutputs(*graph_, distributed_, memory));
  RETURN_IF_ERROR(CheckDTensors(*graph_, domain_, memory));
  for (size_t o = 0; o < graph_->outputs().size(); ++o) {
    const std::string name = OutputName(*graph_, static_cast<int>(o));
    if (!distributed_.contains(name) || memory.distributed_outputs.contains(name)) continue;
    memory.distributed_outputs[name] = NewDTensor(graph_->outputs()[o].value);
  }
  BoundStep bound(*step_);
  bound.memory_ = std::move(memory);
  bound.feed_addresses_.resize(graph_->arguments().size(), nullptr);
  bound.output_addresses_.resize(graph_->outputs().size(), nullptr);
  for (size_t a = 0; a < bound.feed_addresses_.size(); ++a) {
    if (graph_->arguments()[a].is_variable) continue;
    const std::string& name = graph_->argument_name(static_cast<int>(a));
    if (distributed_.contains(name))
      bound.feed_addresses_[a] = bound.memory_.distributed_feeds.at(name).instance(0);
    else bound.feed_addresses_[a] = static_cast<const std::byte*>(bound.memory_.feeds.at(name).raw());
  }
  for (size_t o = 0; o < bound.output_addresses_.size(); ++o) {
    const std::string name = OutputName(*graph_, static_cast<int>(o));
    const auto host = bound.memory_.outputs.find(name);
    if (distributed_.contains(name))
      bound.output_addresses_[o] = bound.memory_.distributed_outputs.at(name).instance(0);
    else if (host != bound.memory_.outputs.end())
      bound.output_addresses_[o] = static_cast<std::byte*>(host->second.raw());
  }
  return bound;
}

std::map<std::string, Tensor> Executor::NewOutputs() const {
  std::map<std::string, Tensor> outputs;
  for (size_t o = 0; o < graph_->outputs().size(); ++o) {
    const std::string name = OutputName(*graph_, static_cast<int>(o));
    if (!distributed_.contains(name))
      outputs[name] = Tensor(graph_->value(graph_->outputs()[o].value).global);
  }
  return outputs;
}

DTensor Executor::NewDTensor(ValueId id) const {
  const ValueInfo& info = graph_->value(id);
  return DTensor(domain_, backend_.memory(), info.global, *info.layout);
}

absl::StatusOr<DTensor> Executor::NewFeed(std::string_view name) const {
  ASSIGN_OR_RETURN(const ValueId id, FindInput(*graph_, name));
  return NewDTensor(id);
}

absl::StatusOr<DTensor> Executor::NewOutput(std::string_view name) const {
  ASSIGN_OR_RETURN(const ValueId id, FindOutput(*graph_, name));
  return NewDTensor(id);
}

absl::Status Executor::Run(const std::map<std::string, Tensor>& feeds,
                           std::map<std::string, Tensor>* outputs) {
  std::map<std::string, Tensor> results;
  if (outputs != nullptr) results = NewOutputs();
  ASSIGN_OR_RETURN(BoundStep bound, Bind(feeds, results));
  RETURN_IF_ERROR(bound.Run());
  if (outputs != nullptr) *outputs = std::move(results);
  return absl::OkStatus();
}

absl::Status BoundStep::Run() { return step_->Run(feed_addresses_, output_addresses_); }

meshwork::Profile Executor::Profile() const { return step_->Profile(); }
meshwork::Trace Executor::Trace() const { return step_->Trace(); }
void Executor::ClearProfile() { step_->ClearProfile(); }

}  // namespace meshwork
