// dispatch/<program>/workers:<n>: a step of 1,000 tiny ops on 8 virtual devices, each on one row of 4
// elements, so that the time is the executor's overhead around ops. The counter ns_per_op is the time of
// a step per op and device; `barriers` says how often the workers meet in a step.
//
//   elementwise   each op reads the one before it, and may run together with it
//   reversals     every other op moves the elements of a row, so that none can run together with another
//   collectives   every third op is an all-reduce among all devices, which the next one reads
#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor.h"

namespace meshwork::dispatch_benchmark {
namespace {

constexpr int kDevices = 8, kOps = 1000;

// The i-th op, which reads `from`, as a line of text; none where it counts as part of another.
struct Case {
  std::string_view name;
  std::string (*op)(int i, const std::string& from, const std::string& to);
};

std::string Elementwise(int i, const std::string& from, const std::string& to) {
  constexpr std::string_view kNames[] = {"mul", "add", "maximum", "sub"};
  return fmt::format("  {} = {} {}, %c\n", to, kNames[i % 4], from);
}

std::string WithReversals(int i, const std::string& from, const std::string& to) {
  return i % 2 == 0 ? Elementwise(i / 2, from, to) : fmt::format("  {} = reverse {} dims=[1]\n", to, from);
}

// A sum over the devices, which Compile completes by an all-reduce.
std::string WithCollectives(int i, const std::string& from, const std::string& to) {
  if (i % 3 != 0) return "";
  return fmt::format("  {0}_sum = reduce_sum {1} dims=[0]\n  {0} = mul %c, {0}_sum\n", to, from);
}

constexpr Case kCases[] = {
    {"elementwise", Elementwise}, {"reversals", WithReversals}, {"collectives", WithCollectives}};

std::string TextOf(const Case& c) {
  std::string text = fmt::format(
      "mesh [x={0}]\nfunc step(var %a: f32[{0},4] {{x,_}}, var %c: f32[{0},4] {{x,_}}) {{\n", kDevices);
  std::string last = "%a";
  for (int i = 0; i < kOps; ++i) {
    const std::string next = fmt::format("%v{}", i), op = c.op(i, last, next);
    if (op.empty()) continue;
    text += op;
    last = next;
  }
  return text + fmt::format("  update %a = {}\n}}\n", last);
}

absl::Status Measure(benchmark::State& state, const Case& c, int workers) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(TextOf(c)));
  // Without gathers: otherwise every device could gather the value and sum it whole.
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, {.replication_budget = 0}));
  const int64_t ops = std::ssize(program.body.nodes());
  if (ops < kOps) return absl::InternalError(fmt::format("the compiled program has only {} ops.", ops));
  CpuBackend backend(workers);
  std::map<std::string, DTensor> variables;
  MESHWORK_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                            Executor::Create(program, backend, {.poison_padding = false}, &variables));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, executor->Bind({}, {}));
  std::vector<double> times;
  for (auto _ : state) {
    absl::Status status;
    const double seconds = Seconds([&] { status = step.Run(); });
    MESHWORK_RETURN_IF_ERROR(status);
    state.SetIterationTime(seconds);
    times.push_back(seconds);
  }
  state.counters["ns_per_op"] = 1e9 * Median(std::move(times)) / static_cast<double>(ops * kDevices);
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["barriers"] = executor->memory().num_barriers;
  return absl::OkStatus();
}

const bool kRegistered = [] {
  for (const Case& c : kCases)
    for (const int workers : std::set<int>{1, WorkerPool::DefaultWorkers()})
      RegisterMeasurement(fmt::format("dispatch/{}/workers:{}", c.name, workers), benchmark::kMicrosecond,
                          [&c, workers](benchmark::State& state) { return Measure(state, c, workers); });
  return true;
}();

}  // namespace
}  // namespace meshwork::dispatch_benchmark
