#include "support/program_trial.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/simplify.h"
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
  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                   Executor::Create(program, backend, options, &state));
  std::map<std::string, Tensor> feeds;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    const Tensor tensor = ToTensor(HostTensor(info.type, random.feeds.at(info.name)));
    if (argument.is_variable) RETURN_IF_ERROR(Pack(tensor, state.at(info.name)));
    else feeds.emplace(info.name, tensor);
  }
  return executor->Run(feeds, &outputs);
}

std::string Compare(const Expected& expected, const std::map<std::string, Tensor>& outputs,
                    const std::map<std::string, DTensor>& state) {
  std::string error;
  for (const auto& [name, value] : expected.step.outputs)
    if (error.empty()) error = Differs(name, outputs.at(name), value, expected);
  for (const auto& [name, value] : expected.step.variables) {
    const absl::StatusOr<Tensor> found = Unpack(state.at(name), /*check_replicas=*/true);
    if (!found.ok()) return std::string(MessageOf(found.status()));
    if (error.empty()) error = Differs(name, *found, value, expected);
  }
  return error;
}

}  // namespace

RandomProgram WithFeeds(Graph graph) {
  RandomProgram random{std::move(graph), {}};
  double next = 0;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    for (int64_t i = 0; i < info.type.num_elements(); ++i) {
      next = next > 0.9 ? next - 1.7 : next + 0.37;
      random.feeds[info.name].push_back(next);
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
    // What nothing reads may be no number.
    Interpret(DropDeadCode(random.graph), random.feeds, live.observer());
    largest = live;
  }
  expected.scale = std::max(1.0, largest.value());
  return expected;
}

Trial TryProgram(const RandomProgram& random, const Expected& expected, Backend& backend,
                 const CompileOptions& options, ExecutorOptions executor_options) {
  const absl::StatusOr<Program> program = Compile(random.graph, options);
  if (!program.ok()) return {.rejected = std::string(MessageOf(program.status()))};
  return TryCompiled(random, expected, backend, *program, executor_options);
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
