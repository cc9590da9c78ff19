#include "support/program_trial.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/replicas.h"
#include "meshwork/runtime/plan/local_program.h"
#include "support/arguments.h"
#include "support/ends.h"
#include "support/stability.h"
#include "support/tensors.h"

namespace meshwork {
namespace {

// What differs beyond rounding, or "".
std::string Differs(const std::string& name, const Tensor& found, const HostTensor& expected,
                    const Expected& all) {
  if (found.type() != expected.type())
    return fmt::format("{} is {}, not {}", name, found.type().ToString(), expected.type().ToString());
  const DType dtype = found.type().dtype;
  const double epsilon = dtype == F64 ? 1e-12 : dtype == F32 ? 1e-5 : dtype == BF16 ? 2e-2 : 0;
  const std::vector<double> a = NumbersOf(found), b = expected.Numbers();
  const auto agree = [&](double x, double y) {
    if (!all.is_exact) return std::abs(x - y) <= epsilon * all.scale;
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  };
  for (size_t i = 0; i < a.size(); ++i)
    if (!agree(a[i], b[i])) return fmt::format("{}[{}] is {}, not {}", name, i, a[i], b[i]);
  return "";
}

absl::Status RunStep(const RandomProgram& random, const Program& program, Backend& backend,
                     const ExecutorOptions& options, std::map<std::string, DTensor>& state,
                     std::map<std::string, Tensor>& outputs) {
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, options, &state));
  MESHWORK_ASSIGN_OR_RETURN(const auto feeds, PackArguments(random.graph, random.feeds, state));
  return executor->Run(feeds, &outputs);
}

using Tensors = std::map<std::string, Tensor>;
using DTensors = std::map<std::string, DTensor>;

std::string Compare(const Expected& expected, const Tensors& outputs, const Tensors& state) {
  std::string error;
  for (const auto& [name, value] : expected.step.outputs)
    if (error.empty()) error = Differs(name, outputs.at(name), value, expected);
  for (const auto& [name, value] : expected.step.variables)
    if (error.empty()) error = Differs(name, state.at(name), value, expected);
  return error;
}

std::string Compare(const Expected& expected, const Tensors& outputs, const DTensors& state) {
  Tensors whole;
  for (const auto& [name, value] : expected.step.variables) {
    const absl::StatusOr<Tensor> found = Unpack(state.at(name), /*check_replicas=*/true);
    if (!found.ok()) return std::string(MessageOf(found.status()));
    whole.emplace(name, *found);
  }
  return Compare(expected, outputs, whole);
}

// ---- Several domains.

// The result of a step in one domain.
struct InDomain {
  absl::Status status;
  DTensors outputs, state;
};

// A copy in the memory of this process.
absl::StatusOr<DTensor> OnHost(const DTensor& tensor) {
  if (tensor.memory().is_host()) return tensor;
  DTensor host(tensor.domain(), CpuMemory(), tensor.type(), tensor.layout());
  if (host.bytes() != tensor.bytes())
    host = DTensor(tensor.domain(), CpuMemory(), tensor.type(), tensor.layout(), /*share=*/false);
  MESHWORK_RETURN_IF_ERROR(tensor.memory().Download(BoxCopy::Linear(tensor.bytes()), /*size=*/1,
                                                    tensor.instance(0), host.instance(0)));
  return host;
}

absl::Status AllOnHost(DTensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    MESHWORK_ASSIGN_OR_RETURN(tensor, OnHost(tensor));
  }
  return absl::OkStatus();
}

absl::Status RunInDomain(const RandomProgram& random, const Program& program, Transport& transport,
                         Backend& backend, ExecutorOptions options, InDomain& there) {
  options.poison_padding = options.check_replicas = true;
  options.transport = &transport;
  for (size_t o = 0; o < program.body.outputs().size(); ++o)
    options.distributed.insert(OutputName(program.body, static_cast<int>(o)));
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, options, &there.state));
  const auto tensor_of = [&](const ValueInfo& info) {
    return ToTensor(HostTensor(info.type, random.feeds.at(info.name)));
  };
  StepMemory memory;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    if (argument.is_variable) continue;
    if (options.distributed.contains(info.name)) {
      MESHWORK_ASSIGN_OR_RETURN(DTensor feed, executor->NewFeed(info.name));
      MESHWORK_RETURN_IF_ERROR(Pack(tensor_of(info), feed, /*poison_padding=*/true));
      memory.distributed_feeds.emplace(info.name, feed);
    } else {
      memory.feeds.emplace(info.name, tensor_of(info));
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, executor->Bind(std::move(memory)));
  for (int round = 0; round < 2; ++round) {
    for (const Argument& argument : random.graph.arguments()) {
      const ValueInfo& info = random.graph.value(argument.value);
      if (argument.is_variable) MESHWORK_RETURN_IF_ERROR(Pack(tensor_of(info), there.state.at(info.name)));
    }
    MESHWORK_RETURN_IF_ERROR(step.Run());
  }
  there.outputs = step.distributed_outputs();
  MESHWORK_RETURN_IF_ERROR(AllOnHost(there.outputs));
  return AllOnHost(there.state);
}

// The other domains' parts of `tensor`: every process sends its own blocks to the others.
absl::StatusOr<std::vector<DTensor>> FromAll(const std::string& name, const DTensor& tensor, Transport& end) {
  const auto* const bytes = reinterpret_cast<const char*>(tensor.instance(0));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            end.AllGather(name, {bytes, static_cast<size_t>(tensor.bytes())}));
  std::vector<DTensor> tensors;
  for (size_t d = 0; d < all.size(); ++d) {
    const Domain domain(tensor.domain().placement(), static_cast<int64_t>(d));
    DTensor there(domain, CpuMemory(), tensor.type(), tensor.layout());
    if (there.bytes() != std::ssize(all[d]))
      there = DTensor(domain, CpuMemory(), tensor.type(), tensor.layout(), /*share=*/false);
    if (there.bytes() != std::ssize(all[d]))
      return absl::InternalError(fmt::format("{} has other blocks", name));
    std::copy(all[d].begin(), all[d].end(), reinterpret_cast<char*>(there.instance(0)));
    tensors.push_back(there);
  }
  return tensors;
}

// `domains` are those of all processes, each of which has run its own domain.
absl::Status GatherDomains(Transport& end, std::vector<InDomain>& domains) {
  const InDomain mine = domains[static_cast<size_t>(end.domain())];
  for (DTensors InDomain::*of : {&InDomain::outputs, &InDomain::state}) {
    for (const auto& [name, tensor] : mine.*of) {
      MESHWORK_ASSIGN_OR_RETURN(const std::vector<DTensor> all, FromAll(name, tensor, end));
      for (size_t d = 0; d < all.size(); ++d) (domains[d].*of).insert_or_assign(name, all[d]);
    }
  }
  return absl::OkStatus();
}

// Puts the blocks of all domains together. Error: two domains differ in a block.
absl::Status PutTogether(const std::vector<InDomain>& domains, DTensors InDomain::*of, Tensors& whole) {
  for (const InDomain& domain : domains) {
    for (const auto& [name, tensor] : domain.*of) {
      const bool is_first = whole.try_emplace(name, Tensor(tensor.type())).second;
      auto* const host = static_cast<std::byte*>(whole.at(name).raw());
      const Shape shape = tensor.type().shape;
      const int64_t size = DTypeSize(tensor.type().dtype);
      for (int64_t i = 0; i < tensor.instances().count(); ++i) {
        const int64_t device = tensor.instances().Representative(i);
        const BoxBuffer all = BoxBuffer::Whole(tensor.layout().FactorShape(shape));
        const BoxCopy box(tensor.block(i), BoxBuffer::OfDevice(tensor.layout(), shape, device), all);
        if (!is_first && !tensor.layout().ShardedAxes().Intersects(tensor.domain().placement().across())) {
          Tensor other(tensor.type());
          box.Copy(tensor.instance(i), static_cast<std::byte*>(other.raw()), size, 0, box.elements());
          const BoxCopy same(tensor.block(i), all, all);
          if (FindDifference(same, 0, same.elements(), size, host,
                             static_cast<const std::byte*>(other.raw())))
            return absl::InternalError(fmt::format("{} of device {} differs: {} before, now {}", name, device,
                                                   fmt::join(NumbersOf(whole.at(name)), " "),
                                                   fmt::join(NumbersOf(other), " ")));
        }
        box.Copy(tensor.instance(i), host, size, 0, box.elements());
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

Graph WithOutputNames(const Graph& graph) {
  Graph named = graph;
  named.ClearOutputs();
  for (size_t o = 0; o < graph.outputs().size(); ++o)
    named.AddOutput({OutputName(graph, static_cast<int>(o)), graph.outputs()[o].value});
  return named;
}

RandomProgram WithFeeds(Graph graph) {
  RandomProgram random{std::move(graph), {}};
  double next = 0;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    std::vector<double>& numbers = random.feeds[info.name];  // of an empty argument, too
    for (int64_t i = 0; i < info.type.num_elements(); ++i) {
      next = next > 0.9 ? next - 1.7 : next + 0.37;
      numbers.push_back(next);
    }
  }
  return random;
}

Expected ExpectedOf(const RandomProgram& random) {
  LargestNumber largest;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    largest.See(HostTensor(info.type, random.feeds.at(info.name)));
  }
  LargestNumber live = largest;
  Expected expected;
  expected.step = Interpret(random.graph, random.feeds, largest.observer());
  if (!std::isfinite(largest.value())) {
    // Values that nothing reads may be infinite or NaN.
    Interpret(DropDeadCode(random.graph), random.feeds, live.observer());
    largest = live;
  }
  expected.scale = std::max(1.0, largest.value());
  return expected;
}

Expected ExpectedOnOneDomain(const RandomProgram& random) {
  CpuBackend backend(1);
  DTensors state;
  Tensors outputs;
  const absl::StatusOr<Program> program = Compile(random.graph);
  MESHWORK_CHECK(program.ok(), "{}", MessageOf(program.status()));
  const absl::Status status = RunStep(random, *program, backend, {.poison_padding = true}, state, outputs);
  MESHWORK_CHECK(status.ok(), "{}", MessageOf(status));
  Expected expected;
  const auto to_host = [&](const Tensor& tensor) {
    const std::vector<double> numbers = NumbersOf(tensor);
    for (double number : numbers) expected.scale = std::max(expected.scale, std::abs(number));
    return HostTensor(tensor.type(), numbers);
  };
  for (const auto& [name, tensor] : outputs) expected.step.outputs[name] = to_host(tensor);
  for (const auto& [name, tensor] : state)
    expected.step.variables[name] = to_host(Unpack(tensor, /*check_replicas=*/true).value());
  return expected;
}

Trial TryProgram(const RandomProgram& random, const Expected& expected, Backend& backend,
                 const CompileOptions& options, ExecutorOptions executor_options) {
  const absl::StatusOr<Program> program = Compile(random.graph, options);
  if (!program.ok()) return {.rejected = std::string(MessageOf(program.status()))};
  return TryCompiled(random, expected, backend, *program, executor_options);
}

Trial TryOnDomains(const RandomProgram& random, const Expected& expected, int64_t num_domains, int workers,
                   const ExecutorOptions& options) {
  return TryOnDomains(
      random, expected, num_domains,
      [&](int64_t) { return std::make_unique<CpuBackend>(workers, /*own_cores=*/false); }, options);
}

Trial TryOnDomains(const RandomProgram& random, const Expected& expected, int64_t num_domains,
                   const BackendMaker& make_backend, const ExecutorOptions& options) {
  const absl::StatusOr<Program> program = Compile(random.graph, {.num_domains = num_domains});
  if (!program.ok()) return {.rejected = std::string(MessageOf(program.status()))};
  const Ends ends = MakeEnds(num_domains, std::chrono::minutes(2));
  std::vector<InDomain> domains(ends.size());
  std::vector<std::thread> threads;
  bool is_here = false;
  for (size_t d = 0; d < ends.size(); ++d) {
    if (ends[d] == nullptr) continue;
    is_here = true;
    threads.emplace_back([&, d] {
      const absl::StatusOr<std::unique_ptr<Backend>> backend = make_backend(static_cast<int64_t>(d));
      domains[d].status = backend.ok()
                              ? RunInDomain(random, *program, *ends[d], **backend, options, domains[d])
                              : backend.status();
      if (domains[d].status.ok() && IsLaunched()) domains[d].status = GatherDomains(*ends[d], domains);
      if (!domains[d].status.ok()) ends[d]->Abort(domains[d].status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!is_here) return {};
  const auto failed = [&](const absl::Status& status) {
    return fmt::format("on {}: {}\n{}", Count(num_domains, "domain"), MessageOf(status),
                       PrintGraph(program->body));
  };
  for (const InDomain& domain : domains)
    if (!domain.status.ok()) return {.rejected = failed(domain.status)};
  Tensors outputs, state;
  for (const absl::Status& status :
       {PutTogether(domains, &InDomain::outputs, outputs), PutTogether(domains, &InDomain::state, state)})
    if (!status.ok()) return {.wrong = failed(status)};
  const std::string error = Compare(expected, outputs, state);
  return {.wrong = error.empty() ? "" : failed(absl::InternalError(error))};
}

Trial TryCompiled(const RandomProgram& random, const Expected& expected, Backend& backend,
                  const Program& program, ExecutorOptions executor_options) {
  executor_options.poison_padding = executor_options.check_replicas = true;
  std::map<std::string, DTensor> state;
  std::map<std::string, Tensor> outputs;
  if (absl::Status status = RunStep(random, program, backend, executor_options, state, outputs); !status.ok())
    return {.rejected = fmt::format("{}\n{}", MessageOf(status), PrintGraph(program.body))};
  const std::string error = Compare(expected, outputs, state);
  return {.wrong = error.empty() ? "" : error + "\n" + PrintGraph(program.body)};
}

}  // namespace meshwork
