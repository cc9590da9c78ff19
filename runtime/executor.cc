#include "meshwork/runtime/executor.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"
#include "meshwork/runtime/arrange.h"
#include "meshwork/runtime/backend.h"
#include "meshwork/runtime/binding.h"
#include "meshwork/runtime/local_program.h"
#include "meshwork/runtime/loop.h"
#include "meshwork/runtime/reduce_early.h"
#include "meshwork/runtime/step_plan.h"

namespace meshwork {
namespace {

// The DTensor that argument `a` of the program is bound to; null if there is none yet.
absl::StatusOr<const DTensor*> FindVariable(const Graph& graph, int a,
                                            const std::map<std::string, DTensor>& variables) {
  const std::string& name = graph.argument_name(a);
  const ValueInfo& info = graph.value(graph.arguments()[a].value);
  const auto it = variables.find(name);
  if (it == variables.end()) return nullptr;
  const DTensor& state = it->second;
  if (state.valid() && state.type() == info.global && state.layout() == *info.layout) return &state;
  return InvalidArgument(
      "Executor: variable \"{}\" is {} {} on {} in the program and {} {} on {} in the state; programs that "
      "share a variable must declare it alike.",
      name, info.global.ToString(), info.layout->ToString(), graph.mesh().ToString(), state.type().ToString(),
      state.layout().ToString(), state.layout().mesh().ToString());
}

StepPlanOptions PlanOptions(const ExecutorOptions& options) {
  return {.share = options.share, .coalesce = options.coalesce, .check_replicas = options.check_replicas};
}

Graph OrderOf(const Graph& local, const ExecutorOptions& options) {
  const bool coalesces = PlanOptions(options).coalesces();
  return WithRegions(LowerLoops(local), [&](const Graph& program) {
    if (!coalesces && !options.fuse) return program;
    return coalesces ? ReduceEarly(Arrange(program)) : Arrange(program);
  });
}

PrepareOptions PreparationOptions(const ExecutorOptions& options) {
  return {.fuse = options.fuse,
          .poison_padding = options.poison_padding,
          .profile = options.profile,
          .trace_steps = options.trace_steps};
}

// All that is decided before a backend sees the program.
struct Planned {
  StepPlan plan;
  int64_t variable_bytes = 0;
};

absl::StatusOr<Planned> Plan(const Program& program, const Backend& backend, const ExecutorOptions& options,
                             const std::map<std::string, DTensor>& variables) {
  RETURN_IF_ERROR(CheckLocalProgram(program.body, backend));
  auto graph = std::make_shared<const Graph>(OrderOf(program.body, options));
  Planned planned;
  std::vector<InstanceMap> instances(graph->arguments().size());
  for (size_t a = 0; a < instances.size(); ++a) {
    if (!graph->arguments()[a].is_variable) continue;
    const ValueInfo& info = graph->value(graph->arguments()[a].value);
    ASSIGN_OR_RETURN(const DTensor* const bound, FindVariable(*graph, static_cast<int>(a), variables));
    instances[a] = bound != nullptr ? bound->instances() : InstancesOf(*info.layout, options.share);
    planned.variable_bytes +=
        bound != nullptr ? bound->bytes() : BytesOfDTensor(info.global, *info.layout, options.share);
  }
  ASSIGN_OR_RETURN(planned.plan, BuildStepPlan(std::move(graph), instances, PlanOptions(options)));
  return planned;
}

}  // namespace

Executor::Executor(std::shared_ptr<const Graph> graph, const ExecutorMemory& memory,
                   std::unique_ptr<PreparedStep> step)
    : graph_(std::move(graph)), memory_(memory), step_(std::move(step)) {}

Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, Backend& backend,
                                                           const ExecutorOptions& options,
                                                           std::map<std::string, DTensor>* variables) {
  MESHWORK_CHECK(variables != nullptr);
  ASSIGN_OR_RETURN(Planned planned, Plan(program, backend, options, *variables));
  const std::shared_ptr<const Graph> graph = planned.plan.graph;
  std::vector<DTensor> state(graph->arguments().size());  // per argument; invalid for inputs
  for (size_t a = 0; a < state.size(); ++a) {
    if (!graph->arguments()[a].is_variable) continue;
    const ValueInfo& info = graph->value(graph->arguments()[a].value);
    const auto bound = variables->find(info.name);
    state[a] = bound != variables->end()
                   ? bound->second
                   : DTensor(backend.memory(), info.global, *info.layout, options.share);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<PreparedStep> step,
                   backend.Prepare(std::move(planned.plan), state, PreparationOptions(options)));
  for (size_t a = 0; a < state.size(); ++a)
    if (state[a].valid()) variables->emplace(graph->argument_name(static_cast<int>(a)), state[a]);
  ExecutorMemory memory = step->memory();
  memory.variable_bytes = planned.variable_bytes;
  return std::unique_ptr<Executor>(new Executor(graph, memory, std::move(step)));
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
  RETURN_IF_ERROR(CheckFeeds(*graph_, feeds));
  RETURN_IF_ERROR(CheckOutputs(*graph_, feeds, outputs));
  BoundStep bound(*step_);
  bound.feeds_ = std::move(feeds);
  bound.outputs_ = std::move(outputs);
  bound.feed_addresses_.resize(graph_->arguments().size(), nullptr);
  bound.output_addresses_.resize(graph_->outputs().size(), nullptr);
  for (size_t a = 0; a < bound.feed_addresses_.size(); ++a) {
    if (graph_->arguments()[a].is_variable) continue;
    const Tensor& feed = bound.feeds_.at(graph_->argument_name(static_cast<int>(a)));
    bound.feed_addresses_[a] = static_cast<const std::byte*>(feed.raw());
  }
  for (size_t o = 0; o < bound.output_addresses_.size(); ++o) {
    const auto output = bound.outputs_.find(OutputName(*graph_, static_cast<int>(o)));
    if (output == bound.outputs_.end()) continue;
    bound.output_addresses_[o] = static_cast<std::byte*>(output->second.raw());
  }
  return bound;
}

std::map<std::string, Tensor> Executor::NewOutputs() const {
  std::map<std::string, Tensor> outputs;
  for (size_t o = 0; o < graph_->outputs().size(); ++o)
    outputs[OutputName(*graph_, static_cast<int>(o))] =
        Tensor(graph_->value(graph_->outputs()[o].value).global);
  return outputs;
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
