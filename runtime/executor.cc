#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/status.h"
#include "base/suggest.h"
#include "fmt/ranges.h"
#include "runtime/local_program.h"

namespace meshwork {
namespace {

// The DTensor that argument `a` of the program is bound to: the one there is, or a new one.
absl::StatusOr<DTensor> BindVariable(const Graph& graph, int a,
                                     const std::map<std::string, DTensor>& variables, bool share) {
  const std::string& name = graph.argument_name(a);
  const ValueInfo& info = graph.value(graph.arguments()[a].value);
  const auto it = variables.find(name);
  if (it == variables.end()) return DTensor(info.global, *info.layout, share);
  const DTensor& state = it->second;
  if (state.valid() && state.type() == info.global && state.layout() == *info.layout) return state;
  return InvalidArgument(
      "Executor: variable \"{}\" is {} {} on {} in the program and {} {} on {} in the state; programs that "
      "share a variable must declare it alike.",
      name, info.global.ToString(), info.layout->ToString(), graph.mesh().ToString(), state.type().ToString(),
      state.layout().ToString(), state.layout().mesh().ToString());
}

}  // namespace

Executor::Executor(const Program& program, WorkerPool& pool, const ExecutorOptions& options)
    : graph_(program.body), pool_(pool), options_(options), communicator_(MakeThreadCommunicator()) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(const Program& program, WorkerPool& pool,
                                                           const ExecutorOptions& options,
                                                           std::map<std::string, DTensor>* variables) {
  MESHWORK_CHECK(variables != nullptr);
  RETURN_IF_ERROR(CheckLocalProgram(program.body));
  std::unique_ptr<Executor> executor(new Executor(program, pool, options));
  RETURN_IF_ERROR(executor->Prepare(*variables));
  return executor;
}

absl::Status Executor::Prepare(std::map<std::string, DTensor>& variables) {
  std::vector<InstanceMap> instances(graph_.arguments().size());
  variables_.resize(graph_.arguments().size());
  for (size_t a = 0; a < variables_.size(); ++a) {
    if (!graph_.arguments()[a].is_variable) continue;
    ASSIGN_OR_RETURN(variables_[a], BindVariable(graph_, static_cast<int>(a), variables, options_.share));
    instances[a] = variables_[a].instances();
    memory_.variable_bytes += variables_[a].bytes();
  }
  ASSIGN_OR_RETURN(schedule_, MakeSchedule(graph_, instances, pool_.num_workers(), options_.share));
  addresses_.resize(schedule_.buffers.size(), nullptr);
  feed_buffers_.resize(graph_.arguments().size());
  output_buffers_.resize(graph_.outputs().size());
  for (size_t b = 0; b < schedule_.buffers.size(); ++b) {
    const Place& place = schedule_.buffers[b].place;
    if (place.kind == Place::Kind::kFeed) feed_buffers_[place.index].push_back(static_cast<BufferId>(b));
    if (place.kind == Place::Kind::kOutput) output_buffers_[place.index] = static_cast<BufferId>(b);
  }
  AllocateArenas();
  call_args_.resize(schedule_.num_workers);
  statuses_.resize(schedule_.num_workers);
  for (const Instruction& instruction : schedule_.instructions) {
    for (CallArgs& args : call_args_) {
      args.in.resize(std::max<size_t>(args.in.size(), instruction.num_in));
      args.out.resize(std::max<size_t>(args.out.size(), instruction.num_out));
    }
  }
  RETURN_IF_ERROR(PrepareCollectives());
  for (size_t a = 0; a < variables_.size(); ++a)
    if (variables_[a].valid()) variables.emplace(graph_.argument_name(static_cast<int>(a)), variables_[a]);
  return absl::OkStatus();
}

void Executor::AllocateArenas() {
  memory_.num_barriers = schedule_.num_barriers;
  memory_.num_instructions = static_cast<int>(schedule_.instructions.size());
  memory_.shared_bytes = schedule_.shared_bytes;
  arenas_.resize(schedule_.num_workers + 1);
  for (int w = 0; w < schedule_.num_workers; ++w) {
    arenas_[w] = AllocateAligned(schedule_.private_bytes[w]);
    memory_.private_bytes += schedule_.private_bytes[w];
  }
  arenas_.back() = AllocateAligned(schedule_.shared_bytes);
  // Pages go to the memory of the core that touches them first.
  pool_.Run([this](int w) {
    std::memset(arenas_[w].get(), 0, static_cast<size_t>(schedule_.private_bytes[w]));
    if (w == 0) std::memset(arenas_.back().get(), 0, static_cast<size_t>(schedule_.shared_bytes));
  });
  for (size_t b = 0; b < addresses_.size(); ++b) {
    const Place& place = schedule_.buffers[b].place;
    std::byte* base = nullptr;
    if (place.kind == Place::Kind::kPrivate) base = static_cast<std::byte*>(arenas_[place.index].get());
    if (place.kind == Place::Kind::kShared) base = static_cast<std::byte*>(arenas_.back().get());
    if (place.kind == Place::Kind::kVariable) base = variables_[place.index].instance(0);
    if (base != nullptr) addresses_[b] = base + place.offset;
  }
}

absl::Status Executor::PrepareCollectives() {
  collectives_.resize(schedule_.instructions.size());
  for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
    const Instruction& instruction = schedule_.instructions[i];
    if (instruction.kind != Instruction::Kind::kCollective) continue;
    CollectivePlan plan{graph_.Describe(instruction.node), instruction.transfers, instruction.slices};
    ASSIGN_OR_RETURN(collectives_[i], communicator_->Prepare(std::move(plan), addresses_));
  }
  return absl::OkStatus();
}

std::string Executor::Signature() const {
  std::vector<std::string> inputs;
  for (const Argument& argument : graph_.arguments()) {
    if (argument.is_variable) continue;
    const ValueInfo& info = graph_.value(argument.value);
    inputs.push_back(fmt::format("{}: {}", info.name, info.global.ToString()));
  }
  return fmt::format("{}({})", graph_.name, fmt::join(inputs, ", "));
}

absl::Status Executor::CheckFeeds(const std::map<std::string, Tensor>& feeds) const {
  for (const auto& [name, tensor] : feeds) {
    const int a = graph_.FindArgument(name);
    if (a >= 0 && !graph_.arguments()[a].is_variable) continue;
    if (a >= 0) {
      return InvalidArgument(
          "Run: feed \"{}\" is a variable; the program keeps its value; set it between steps (Session::Set, "
          "or Pack).",
          name);
    }
    std::vector<std::string> inputs;
    for (size_t i = 0; i < graph_.arguments().size(); ++i)
      if (!graph_.arguments()[i].is_variable) inputs.push_back(graph_.argument_name(static_cast<int>(i)));
    std::string hint = DidYouMean(name, inputs);
    return InvalidArgument("Run: feed \"{}\" is no input of {}{}", name, Signature(),
                           hint.empty() ? "." : hint);
  }
  for (const Argument& argument : graph_.arguments()) {
    if (argument.is_variable) continue;
    const ValueInfo& info = graph_.value(argument.value);
    const auto it = feeds.find(info.name);
    if (it == feeds.end()) {
      return InvalidArgument("Run: feed \"{}\" is missing; {} takes every input at every step.", info.name,
                             Signature());
    }
    const Type& type = it->second.type();
    if (!it->second.valid()) {
      return InvalidArgument("Run: feed \"{}\" is a Tensor without elements; the program takes {}.",
                             info.name, info.global.ToString());
    }
    if (type.shape != info.global.shape) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, compile it for this shape or feed that one.",
          info.name, type.ToString(), info.global.ToString());
    }
    if (type.dtype != info.global.dtype) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, convert it or cast inside the program.", info.name,
          type.ToString(), info.global.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status Executor::Run(const std::map<std::string, Tensor>& feeds,
                           std::map<std::string, Tensor>* outputs) {
  RETURN_IF_ERROR(CheckFeeds(feeds));
  for (size_t a = 0; a < feed_buffers_.size(); ++a) {
    if (graph_.arguments()[a].is_variable) continue;
    // Feeds are read, never written: no instruction has one of these buffers as its target.
    const void* host = feeds.at(graph_.argument_name(static_cast<int>(a))).raw();
    auto* base = static_cast<std::byte*>(const_cast<void*>(host));
    for (BufferId b : feed_buffers_[a]) addresses_[b] = base + schedule_.buffers[b].place.offset;
  }
  std::map<std::string, Tensor> results;
  for (size_t o = 0; o < output_buffers_.size() && outputs != nullptr; ++o) {
    Tensor& result = results[OutputName(graph_, static_cast<int>(o))];
    result = Tensor(graph_.value(graph_.outputs()[o].value).global);
    addresses_[output_buffers_[o]] = static_cast<std::byte*>(result.raw());
  }
  if (options_.poison_padding) Poison();
  const bool unpack = outputs != nullptr;
  std::fill(statuses_.begin(), statuses_.end(), absl::OkStatus());
  pool_.Run([this, unpack](int worker) { RunWorker(worker, unpack); });
  for (const absl::Status& status : statuses_) RETURN_IF_ERROR(status);
  if (outputs != nullptr) *outputs = std::move(results);
  return absl::OkStatus();
}

void Executor::Poison() {
  constexpr int kNan = 0xFF;
  for (int w = 0; w < schedule_.num_workers; ++w)
    std::memset(arenas_[w].get(), kNan, static_cast<size_t>(schedule_.private_bytes[w]));
  std::memset(arenas_.back().get(), kNan, static_cast<size_t>(schedule_.shared_bytes));
}

void Executor::RunWorker(int worker, bool unpack) {
  for (size_t i = 0; i < schedule_.instructions.size(); ++i) {
    const Instruction& instruction = schedule_.instructions[i];
    if (instruction.barrier) pool_.barrier().Wait();
    switch (instruction.kind) {
      case Instruction::Kind::kKernel: RunKernel(instruction, worker); break;
      case Instruction::Kind::kCollective:
        collectives_[i]->Start(worker);
        if (absl::Status status = collectives_[i]->Wait(worker); !status.ok()) {
          // The others get the same reason; all go on to the end, for they meet at barriers.
          communicator_->Abort(status);
          if (statuses_[worker].ok()) statuses_[worker] = std::move(status);
        }
        break;
      case Instruction::Kind::kUnpack:
        if (!unpack) break;
        [[fallthrough]];
      case Instruction::Kind::kPack:
      case Instruction::Kind::kAssign:
        RunTransfers(instruction.transfers, instruction.slices[worker], addresses_);
        break;
    }
  }
}

void Executor::RunKernel(const Instruction& instruction, int worker) {
  const int num_in = instruction.num_in, num_out = instruction.num_out;
  CallArgs& call = call_args_[worker];
  const bool blocks_per_item = instruction.blocks.size() == instruction.buffers.size();
  for (const WorkSlice& slice : instruction.slices[worker]) {
    const size_t first = static_cast<size_t>(slice.item) * (num_in + num_out);
    const BufferId* buffers = instruction.buffers.data() + first;
    for (int i = 0; i < num_in; ++i) call.in[i] = addresses_[buffers[i]];
    for (int i = 0; i < num_out; ++i) call.out[i] = addresses_[buffers[num_in + i]];
    const std::span<const Block> blocks(instruction.blocks.data() + (blocks_per_item ? first : 0),
                                        num_in + num_out);
    instruction.kernel.run({.in = {call.in.data(), static_cast<size_t>(num_in)},
                            .out = {call.out.data(), static_cast<size_t>(num_out)},
                            .in_blocks = blocks.first(num_in),
                            .out_blocks = blocks.subspan(num_in),
                            .begin = slice.begin,
                            .end = slice.end});
  }
}

}  // namespace meshwork
