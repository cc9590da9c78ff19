// compile/<optimizer>/L:<layers>/log2_devices:<n>: compiles a training step of an L-layer MLP, from the
// global program to that of each device. Counters: medians in ms of each pass, of the proof (ms_verify) and
// of all but the proof (ms_rest); nodes of both programs; time per layer; MB_verify, the memory that the
// proof adds while it runs; MB_peak, the memory of the process meanwhile.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <map>
#include <string>
#include <vector>

#include "benchmarks/layered_mlp.h"
#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork/base/status.h"
#include "meshwork/verify/verify.h"

namespace meshwork::compile_benchmark {
namespace {

void CompileLayeredMlp(benchmark::State& state, const std::string& optimizer) {
  const int layers = static_cast<int>(state.range(0));
  const Mesh mesh = Mesh::Parse(SquareMesh(static_cast<int>(state.range(1)))).value();
  Graph graph(mesh);
  BuildLayeredMlp(graph, {.layers = layers, .optimizer = optimizer});
  std::map<std::string, std::vector<double>> pass_seconds;
  absl::StatusOr<Program> program = Compile(graph);
  if (!program.ok()) return state.SkipWithError(std::string(MessageOf(program.status())).c_str());
  for (auto _ : state) {
    const double seconds = Seconds([&] { program = Compile(graph); });
    benchmark::DoNotOptimize(program);
    for (const PassTiming& pass : program->passes) pass_seconds[pass.pass].push_back(pass.seconds);
    pass_seconds["verify"].push_back(program->verify_seconds);
    pass_seconds["rest"].push_back(seconds - program->verify_seconds);
  }
  const size_t nodes = program->body.nodes().size();
  malloc_trim(0);
  ForgetPeak();
  const double before = MegabytesOf("VmRSS");
  const bool is_right = Verify(graph, program->body).ok();
  if (!is_right) return state.SkipWithError("Verify accepts a program within Compile, and then does not.");
  using benchmark::Counter;
  state.counters["MB_peak"] = MegabytesOf("VmHWM");
  state.counters["MB_verify"] = MegabytesOf("VmHWM") - before;
  for (const auto& [pass, seconds] : pass_seconds) state.counters["ms_" + pass] = 1e3 * Median(seconds);
  state.counters["per_layer"] = Counter(layers, Counter::kIsIterationInvariantRate | Counter::kInvert);
  state.counters["global_nodes"] = static_cast<double>(graph.nodes().size());
  state.counters["local_nodes"] = static_cast<double>(nodes);
}

void Arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"L", "log2_devices"})->Unit(benchmark::kMillisecond);
  for (int layers : {4, 16, 64, 256})
    for (int log2_devices : {3, 10, 20}) bench->Args({layers, log2_devices});
  // 96 layers, and 96 blocks of two, on 4,096 devices.
  for (int layers : {96, 192}) bench->Args({layers, 12});
}

BENCHMARK_CAPTURE(CompileLayeredMlp, adam, "adam")->Name("compile/adam")->Apply(Arguments);
BENCHMARK_CAPTURE(CompileLayeredMlp, sgd, "sgd")->Name("compile/sgd")->Apply(Arguments);

}  // namespace
}  // namespace meshwork::compile_benchmark
