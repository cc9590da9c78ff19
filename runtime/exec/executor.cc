#include "meshwork/runtime/exec/executor.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/binding.h"
#include "meshwork/runtime/exec/step_record.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/arrange.h"
#include "meshwork/runtime/plan/cross_device.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/loop.h"
#include "meshwork/runtime/plan/overlap.h"
#include "meshwork/runtime/plan/reduce_early.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {
namespace {

// The DTensor that argument `a` of the program is bound to; null if there is none yet.
absl::StatusOr<const DTensor*> FindVariable(const Graph& graph, int a, const Domain& domain,
                                            const Memory& memory,
                                            const std::map<std::string, DTensor>& variables) {
  const std::string& name = graph.argument_name(a);
  const ValueInfo& info = graph.value(graph.arguments()[a].value);
  const auto it = variables.find(name);
  if (it == variables.end()) return nullptr;
  const DTensor& state = it->second;
  if (state.valid() && state.type() == info.global && state.layout() == *info.layout) {
    if (&state.memory() != &memory)
      return InvalidArgument("Executor: variable \"{}\" lies in {}; the backend works in {}.", name,
                             state.memory().name(), memory.name());
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

// Whether sums are made by NCCL.
bool TakesNccl(const ExecutorOptions& options) {
  return options.cross_device_ops != nullptr && options.cross_device_ops->is_nccl();
}
// Whether a cross-device op makes the sums within the domain.
bool HasSumsOfOps(const ExecutorOptions& options) {
  return options.cross_device_ops != nullptr && !TakesNccl(options);
}

std::optional<CrossDevicePlan> CrossDeviceOf(const ExecutorOptions& options, const Memory& memory) {
  if (!HasSumsOfOps(options)) return std::nullopt;
  return CrossDevicePlan{.bytes_per_pack = options.bytes_per_pack,
                         .in_parts = options.cross_device_ops->is_thread_safe(),
                         .algorithm = options.cross_device_ops->algorithm(),
                         .makes_moves = !memory.is_host()};
}

absl::Status CheckNccl(const ExecutorOptions& options, const Domain& domain, const Backend& backend) {
  if (!backend.sums_domains())
    return absl::FailedPreconditionError(fmt::format(
        "Executor: {}: NCCL adds up between GPUs, and the devices are on {}; use RingAllReduce() or "
        "HierarchicalCopyAllReduce(), or leave cross_device_ops out.",
        options.cross_device_ops->name(), backend.name()));
  if (!options.coalesce && !domain.is_only())
    return InvalidArgument(
        "Executor: {}: NCCL adds up in an order of its own, and coalesce=false, as CompileOptions::deterministic has it, "
        "asks for one order whatever the number of GPUs; leave one of them out.",
        options.cross_device_ops->name());
  if (options.bytes_per_pack > 0)
    return InvalidArgument(
        "Executor: {}: bytes_per_pack={}; NCCL adds up each tensor where it lies, without packs, so leave bytes_per_pack "
        "out.",
        options.cross_device_ops->name(), options.bytes_per_pack);
  return absl::OkStatus();
}

absl::Status CheckCrossDevice(const ExecutorOptions& options, const Domain& domain, const Backend& backend) {
  if (TakesNccl(options)) return CheckNccl(options, domain, backend);
  const CrossDeviceOps* const ops = options.cross_device_ops.get();
  if (ops == nullptr || backend.memory()->is_host() || ops->algorithm() != nullptr) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format(
      "Executor: the cross-device op \"{}\" is code for the memory of the host, and the devices are on {}; describe it "
      "as a CrossDeviceAlgorithm, which MakeCrossDeviceOps makes an op of, or take ReductionToOneDevice(), "
      "HierarchicalCopyAllReduce() or RingAllReduce(), or leave cross_device_ops out.",
      ops->name(), backend.name()));
}

absl::Status CheckPacks(int64_t bytes_per_pack) {
  if (bytes_per_pack >= 0) return absl::OkStatus();
  return InvalidArgument(
      "Executor: bytes_per_pack={}; give the most bytes of a pack, or 0 to reduce each tensor by itself.",
      bytes_per_pack);
}

StepPlanOptions PlanOptions(const ExecutorOptions& options, const Domain& domain, const Memory& memory,
                            int64_t bytes_under_way) {
  std::set<std::string> kept;
  for (const auto& [output, input] : options.in_place) kept.insert(output);
  return {.domain = domain,
          .distributed = options.distributed,
          .host_is_read = memory.is_host(),
          .latency_bytes = options.transport == nullptr ? 0 : options.transport->latency_bytes(),
          .bytes_under_way = bytes_under_way,
          .kept = std::move(kept),
          .share = options.share,
          .coalesce = options.coalesce,
          .check_replicas = options.check_replicas,
          .atomic = options.atomic,
          .cross_device = CrossDeviceOf(options, memory),
          .sums_domains = TakesNccl(options)};
}

// The time that a bucket of gradients takes to cross, in latencies of the link. The next bucket starts meanwhile. The
// last one, which no compute hides, is short.
constexpr int64_t kBucketLatencies = 4;
constexpr int64_t kLeastBucket = int64_t{1}
                                 << 20;  // bytes: an operation costs more than the latency of a fast link
// The bytes that may be under way at a time, in multiples of the largest collective across domains: room for all parts
// of one collective, and for those of the next.
constexpr int64_t kMostUnderWay = 2;

// Whether collectives across domains run beside compute.
bool Overlaps(const ExecutorOptions& options) { return options.overlap && options.transport != nullptr; }

int64_t BucketBytes(const Transport& transport) {
  if (transport.latency_bytes() == 0) return 0;  // nothing takes time
  return std::max(kBucketLatencies * transport.latency_bytes(), kLeastBucket);
}

Graph OrderOf(const Graph& local, const ExecutorOptions& options, AxisSet across) {
  const bool coalesces = options.coalesce && options.share;
  return WithRegions(LowerLoops(local), [&](const Graph& lowered) {
    const Graph program =
        Overlaps(options) ? Overlap(lowered, across, BucketBytes(*options.transport)) : lowered;
    // A cross-device op gets the tensors together that the compiler has put into one collective, so this is not split.
    if ((!coalesces && !options.fuse) || HasSumsOfOps(options)) return program;
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
  MESHWORK_ASSIGN_OR_RETURN(Placement placement, Placement::Create(program.body.mesh(), domains));
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
        "or let the program gather it (relayout, or SessionOptions::gather_outputs).",
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

absl::Status CheckInPlace(const Graph& local, const ExecutorOptions& options) {
  std::map<std::string, std::string> seen;  // outputs by input
  for (const auto& [output, input] : options.in_place) {
    MESHWORK_ASSIGN_OR_RETURN(const ValueId to, FindOutput(local, output));
    MESHWORK_ASSIGN_OR_RETURN(const ValueId from, FindInput(local, input));
    for (const std::string& name : {input, output})
      if (!options.distributed.contains(name))
        return InvalidArgument(
            "Executor: output \"{}\" takes the place of input \"{}\", and \"{}\" is not distributed; name it "
            "in ExecutorOptions::distributed.",
            output, input, name);
    const ValueInfo &a = local.value(from), &b = local.value(to);
    if (a.global != b.global || a.layout->WithoutTrivialAxes() != b.layout->WithoutTrivialAxes())
      return InvalidArgument(
          "Executor: output \"{}\" is {} {} and takes the place of input \"{}\", {} {}; they must agree.",
          output, b.global.ToString(), b.layout->ToString(), input, a.global.ToString(),
          a.layout->ToString());
    const auto [other, is_new] = seen.emplace(input, output);
    if (!is_new)
      return InvalidArgument("Executor: outputs \"{}\" and \"{}\" take the place of one input, \"{}\".",
                             other->second, output, input);
  }
  return absl::OkStatus();
}

// The program in which an input that an output replaces is a variable, and the output its new value.
Graph WithInPlace(const Graph& local, const InPlace& in_place) {
  std::set<std::string> replaced;
  for (const auto& [output, input] : in_place) replaced.insert(input);
  Graph to(local.mesh());
  to.name = local.name;
  std::vector<ValueId> map(local.values().size(), kNoValue);
  for (const Argument& argument : local.arguments()) {
    const ValueInfo& info = local.value(argument.value);
    map[argument.value] = to.AddArgument(info, argument.is_variable || replaced.contains(info.name));
  }
  for (const Node& node : local.nodes()) CopyNode(local, node, to, map);
  for (const OutputInfo& output : local.outputs()) to.AddOutput({output.name, map[output.value]});
  for (const VariableUpdate& update : local.updates()) to.AddUpdate({update.argument, map[update.value]});
  for (size_t o = 0; o < local.outputs().size(); ++o)
    if (const auto input = in_place.find(OutputName(local, static_cast<int>(o))); input != in_place.end())
      to.AddUpdate({local.FindArgument(input->second), map[local.outputs()[o].value]});
  return to;
}

PrepareOptions PreparationOptions(const ExecutorOptions& options) {
  return {.fuse = options.fuse,
          .matmul_precision = options.matmul_precision,
          .blocking_launches = options.blocking_launches,
          .poison_padding = options.poison_padding,
          .profile = options.profile,
          .trace_steps = options.trace_steps,
          .transport = options.transport,
          .cross_device_ops = options.cross_device_ops,
          .check_replicas = options.check_replicas};
}

// Everything that is decided before a backend sees the program.
struct Planned {
  Domain domain;
  StepPlan plan;
  int64_t variable_bytes = 0, spare_bytes = 0;
  std::vector<std::string> unshared;  // variables whose existing DTensors are not shared as options say
};

absl::StatusOr<Planned> Plan(const Program& program, const Backend& backend, const ExecutorOptions& options,
                             const std::map<std::string, DTensor>& variables) {
  Planned planned;
  MESHWORK_RETURN_IF_ERROR(CheckPacks(options.bytes_per_pack));
  MESHWORK_ASSIGN_OR_RETURN(planned.domain, DomainOf(program, options.transport));
  MESHWORK_RETURN_IF_ERROR(CheckCrossDevice(options, planned.domain, backend));
  MESHWORK_RETURN_IF_ERROR(CheckLocalProgram(program.body, program.num_domains));
  const Domain& domain = planned.domain;
  MESHWORK_RETURN_IF_ERROR(CheckDistributed(program.body, domain, options.distributed));
  MESHWORK_RETURN_IF_ERROR(CheckInPlace(program.body, options));
  auto local = std::make_shared<const Graph>(
      options.in_place.empty() ? program.body : WithInPlace(program.body, options.in_place));
  auto graph = std::make_shared<const Graph>(OrderOf(*local, options, domain.placement().across()));
  MESHWORK_RETURN_IF_ERROR(CheckKernels(*graph, backend));
  const int64_t bytes_under_way =
      Overlaps(options) ? kMostUnderWay * MostBytesAcross(program.body, domain.placement().across()) : 0;
  const std::shared_ptr<Memory> memory = backend.memory();
  std::vector<InstanceMap> instances(graph->arguments().size());
  for (size_t a = 0; a < instances.size(); ++a) {
    if (!graph->arguments()[a].is_variable) continue;
    const ValueInfo& info = graph->value(graph->arguments()[a].value);
    if (options.distributed.contains(info.name)) {  // and replaced
      instances[a] = InstancesOf(domain, *info.layout, /*share=*/true);
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(const DTensor* const bound,
                              FindVariable(*graph, static_cast<int>(a), domain, *memory, variables));
    instances[a] = InstancesOf(domain, *info.layout, options.share);
    if (bound != nullptr && bound->instances().varying() != instances[a].varying()) {
      instances[a] = bound->instances();
      planned.unshared.push_back(info.name);
    }
    planned.variable_bytes +=
        bound != nullptr ? bound->bytes() : BytesOfDTensor(domain, info.global, *info.layout, options.share);
  }
  MESHWORK_ASSIGN_OR_RETURN(
      planned.plan,
      BuildStepPlan(std::move(graph), instances, PlanOptions(options, domain, *memory, bytes_under_way)));
  planned.plan.program = std::move(local);
  for (const Storage& storage : planned.plan.storages)
    if (storage.kind == Storage::Kind::kSpare) planned.spare_bytes += storage.bytes;
  return planned;
}

// Per argument of the program: its DTensor, new if `variables` has none; invalid for inputs.
std::vector<DTensor> StateOf(const Planned& planned, const Backend& backend, const ExecutorOptions& options,
                             const std::map<std::string, DTensor>& variables) {
  const Graph& graph = *planned.plan.graph;
  std::vector<DTensor> state(graph.arguments().size());
  for (size_t a = 0; a < state.size(); ++a) {
    const ValueInfo& info = graph.value(graph.arguments()[a].value);
    if (!graph.arguments()[a].is_variable || options.distributed.contains(info.name)) continue;
    const auto bound = variables.find(info.name);
    state[a] = bound != variables.end()
                   ? bound->second
                   : DTensor(planned.domain, backend.memory(), info.global, *info.layout, options.share);
  }
  return state;
}

// The arguments whose new values the plan puts into spares.
std::vector<int> SparesOf(const StepPlan& plan) {
  std::vector<int> arguments;
  for (const Storage& storage : plan.storages)
    if (storage.kind == Storage::Kind::kSpare) arguments.push_back(storage.index);
  return arguments;
}

// The variables with spares, which are added where they are missing; null if there are none.
std::shared_ptr<std::vector<DTensor>> WithSpares(const std::vector<DTensor>& state,
                                                 const std::vector<int>& arguments) {
  if (arguments.empty()) return nullptr;
  auto updated = std::make_shared<std::vector<DTensor>>();
  for (int a : arguments) updated->push_back(state[static_cast<size_t>(a)]);
  for (DTensor& variable : *updated) variable.AddSpare();
  return updated;
}

// What all ranks of NCCL must have in common, too: whether kernels are launched as a graph or one by one.
std::string HowItIsLaunched(const ExecutorOptions& options) {
  if (!TakesNccl(options)) return "";
  return fmt::format(" measured={} blocking_launches={}", options.profile || options.trace_steps > 0,
                     options.blocking_launches);
}

// The settings that all domains must have in common, because they decide what is sent.
std::string TextOf(const Program& program, const ExecutorOptions& options, const Planned& planned,
                   const Backend& backend) {
  return fmt::format(
      "{} (share={} coalesce={} fuse={} overlap={} check_replicas={} distributed=[{}] in_place={} unshared=[{}] "
      "latency={}{}{}{})",
      Fingerprint(program.body), options.share, options.coalesce, options.fuse, options.overlap,
      options.check_replicas, fmt::join(options.distributed, ", "), options.in_place,
      fmt::join(planned.unshared, ", "),
      options.transport == nullptr ? 0 : options.transport->latency_bytes(), options.atomic ? " atomic" : "",
      options.cross_device_ops == nullptr
          ? ""
          : fmt::format(" cross_device_ops={} bytes_per_pack={}{}", options.cross_device_ops->name(),
                        options.bytes_per_pack, HowItIsLaunched(options)),
      backend.memory()->is_host() ? "" : fmt::format(" on {}", backend.name()));
}

// OK if this domain and all others can go on and agree on value().
absl::Status AllGoOn(Transport* transport, std::string_view what, const absl::Status& mine,
                     const std::function<std::string()>& value,
                     const std::function<std::string()>& text = nullptr) {
  if (transport == nullptr) return mine;
  return Agree(*transport, what, mine.ok() ? absl::StatusOr<std::string>(value()) : mine, text);
}

absl::Status CheckIsDistributed(std::string_view name, const std::set<std::string>& distributed) {
  if (distributed.contains(std::string(name))) return absl::OkStatus();
  return InvalidArgument("Executor: \"{}\" is not distributed, so a host tensor is bound to it.", name);
}

}  // namespace

Executor::Executor(std::shared_ptr<const Graph> graph, const Domain& domain, const Backend& backend,
                   const ExecutorOptions& options, const ExecutorMemory& memory,
                   std::map<std::string, DTensor> state, std::shared_ptr<std::vector<DTensor>> updated,
                   std::shared_ptr<PreparedStep> step)
    : graph_(std::move(graph)),
      domain_(domain),
      backend_(backend),
      distributed_(options.distributed),
      in_place_(options.in_place),
      memory_(memory),
      state_(std::move(state)),
      updated_(std::move(updated)),
      record_(options.record),
      names_step_(options.cross_device_ops != nullptr),
      step_(std::move(step)) {}

Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, Backend& backend,
                                                           const ExecutorOptions& options,
                                                           std::map<std::string, DTensor>* variables) {
  MESHWORK_CHECK(variables != nullptr);
  try {
    // All domains have an executor, or none has.
    absl::StatusOr<Planned> planned = Plan(program, backend, options, *variables);
    MESHWORK_RETURN_IF_ERROR(AllGoOn(
        options.transport, "the program", planned.status(),
        [&] { return TextOf(program, options, *planned, backend); },
        [&] { return PrintGraph(program.body); }));
    const std::shared_ptr<const Graph> graph = planned->plan.graph, local = planned->plan.program;
    const std::vector<DTensor> state = StateOf(*planned, backend, options, *variables);
    const std::vector<int> spares = SparesOf(planned->plan);
    absl::StatusOr<std::unique_ptr<PreparedStep>> step =
        backend.Prepare(std::move(planned->plan), state, PreparationOptions(options));
    MESHWORK_RETURN_IF_ERROR(
        AllGoOn(options.transport, "what it needs", step.status(), [] { return "there"; }));
    std::shared_ptr<std::vector<DTensor>> updated = WithSpares(state, spares);
    std::map<std::string, DTensor> bound;
    for (size_t a = 0; a < state.size(); ++a)
      if (state[a].valid()) bound.emplace(graph->argument_name(static_cast<int>(a)), state[a]);
    variables->insert(bound.begin(), bound.end());
    ExecutorMemory memory = (*step)->memory();
    memory.variable_bytes = planned->variable_bytes;
    memory.spare_bytes = planned->spare_bytes;
    std::shared_ptr<const Graph> given =
        options.in_place.empty() ? local : std::make_shared<const Graph>(program.body);
    return std::unique_ptr<Executor>(new Executor(std::move(given), planned->domain, backend, options, memory,
                                                  std::move(bound), std::move(updated), *std::move(step)));
  } catch (...) {
    if (options.transport != nullptr)
      options.transport->Abort(CaughtStatus("Executor", "there is not enough memory"));
    throw;
  }
}

absl::StatusOr<ExecutorMemory> Executor::PlanMemory(const Program& program, const Backend& backend,
                                                    const ExecutorOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(Planned planned, Plan(program, backend, options, {}));
  MESHWORK_ASSIGN_OR_RETURN(ExecutorMemory memory,
                            backend.PlanMemory(std::move(planned.plan), PreparationOptions(options)));
  memory.variable_bytes = planned.variable_bytes;
  memory.spare_bytes = planned.spare_bytes;
  return memory;
}

absl::StatusOr<StepPrediction> Executor::PredictTime(const Program& program, const Backend& backend,
                                                     const ExecutorOptions& options,
                                                     const Topology& topology) {
  MESHWORK_RETURN_IF_ERROR(topology.CheckDescribes(program.body.mesh()));
  MESHWORK_ASSIGN_OR_RETURN(const Planned planned, Plan(program, backend, options, {}));
  return meshwork::PredictTime(planned.plan, topology);
}

absl::StatusOr<StepPlan> Executor::PlanStep(const Program& program, const Backend& backend,
                                            const ExecutorOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(Planned planned, Plan(program, backend, options, {}));
  return std::move(planned.plan);
}

absl::StatusOr<BoundStep> Executor::Bind(std::map<std::string, Tensor> feeds,
                                         std::map<std::string, Tensor> outputs) {
  return Bind(StepMemory{.feeds = std::move(feeds), .outputs = std::move(outputs)});
}

absl::StatusOr<BoundStep> Executor::Bind(StepMemory memory) {
  MESHWORK_RETURN_IF_ERROR(CheckFeeds(*graph_, distributed_, memory));
  MESHWORK_RETURN_IF_ERROR(CheckOutputs(*graph_, distributed_, memory));
  for (const auto& [output, input] : in_place_) {
    if (memory.distributed_outputs.contains(output))
      return InvalidArgument(
          "Run: output \"{}\" takes the place of feed \"{}\" (ExecutorOptions::in_place), and is bound to "
          "memory of its own; bind the feed alone.",
          output, input);
  }
  MESHWORK_RETURN_IF_ERROR(CheckDTensors(*graph_, domain_, *backend_.memory(), memory));
  MESHWORK_RETURN_IF_ERROR(CheckStaged(*backend_.memory(), memory));
  for (size_t o = 0; o < graph_->outputs().size(); ++o) {
    const std::string name = OutputName(*graph_, static_cast<int>(o));
    if (!distributed_.contains(name) || memory.distributed_outputs.contains(name)) continue;
    const auto replaced = in_place_.find(name);
    memory.distributed_outputs[name] = replaced == in_place_.end()
                                           ? NewDTensor(graph_->outputs()[o].value)
                                           : memory.distributed_feeds.at(replaced->second);
  }
  MESHWORK_RETURN_IF_ERROR(CheckApart(*graph_, in_place_, state_, memory));
  BoundStep bound(step_);
  bound.updated_ = updated_;
  bound.record_ = record_;
  bound.names_step_ = names_step_;
  bound.memory_ = std::move(memory);
  bound.feed_addresses_.resize(graph_->arguments().size(), nullptr);
  bound.output_addresses_.resize(graph_->outputs().size(), nullptr);
  for (size_t a = 0; a < bound.feed_addresses_.size(); ++a) {
    if (graph_->arguments()[a].is_variable) continue;
    const std::string& name = graph_->argument_name(static_cast<int>(a));
    if (distributed_.contains(name))
      bound.feed_addresses_[a] = bound.memory_.distributed_feeds.at(name).instance(0);
    else bound.feed_addresses_[a] = static_cast<const std::byte*>(bound.memory_.feeds.at(name).raw());
    const auto staged = bound.memory_.staged.find(name);
    if (staged == bound.memory_.staged.end()) continue;
    bound.staged_.resize(graph_->arguments().size(), nullptr);
    bound.staged_[a] = staged->second.elements();
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
  MESHWORK_ASSIGN_OR_RETURN(const ValueId id, FindInput(*graph_, name));
  MESHWORK_RETURN_IF_ERROR(CheckIsDistributed(name, distributed_));
  return NewDTensor(id);
}

absl::StatusOr<DTensor> Executor::NewOutput(std::string_view name) const {
  MESHWORK_ASSIGN_OR_RETURN(const ValueId id, FindOutput(*graph_, name));
  MESHWORK_RETURN_IF_ERROR(CheckIsDistributed(name, distributed_));
  return NewDTensor(id);
}

absl::Status Executor::Run(const std::map<std::string, Tensor>& feeds,
                           std::map<std::string, Tensor>* outputs) {
  std::map<std::string, Tensor> results;
  if (outputs != nullptr) results = NewOutputs();
  MESHWORK_ASSIGN_OR_RETURN(BoundStep bound, Bind(feeds, results));
  MESHWORK_RETURN_IF_ERROR(bound.Run());
  if (outputs != nullptr) *outputs = std::move(results);
  return absl::OkStatus();
}

absl::Status BoundStep::Run() {
  if (step_ == nullptr)
    return absl::FailedPreconditionError("BoundStep: it was moved to another one; go on with that.");
  if (caller_ == nullptr) return RunAlone();
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, caller_->Begin(object_, "Run of a BoundStep"));
  return RunAlone();
}

absl::Status BoundStep::RunAlone() {
  absl::Status status = step_->Run(feed_addresses_, output_addresses_, staged_);
  if (record_ != nullptr && step_->wrote_spares()) record_->Forget();
  if (names_step_ && record_ != nullptr)
    status = Annotate(status, fmt::format("Step {}: ", record_->done() + 1));
  MESHWORK_RETURN_IF_ERROR(status);
  if (updated_ != nullptr)
    for (DTensor& variable : *updated_) variable.SwapSpare();
  if (record_ != nullptr) record_->End(updated_);
  return absl::OkStatus();
}

meshwork::Profile Executor::Profile() const { return step_->Profile(); }
meshwork::Trace Executor::Trace() const { return step_->Trace(); }
void Executor::ClearProfile() { step_->ClearProfile(); }

}  // namespace meshwork
