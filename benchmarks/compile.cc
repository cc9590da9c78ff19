// compile/<optimizer>/L:<layers>/log2_devices:<n>: from the global program of a training step of an L-layer
// MLP to the program of each device. Counters: each pass and the proof in ms, nodes of both programs, time
// per layer.
#include <benchmark/benchmark.h>

#include <map>

#include "base/status.h"
#include "benchmarks/layered_mlp.h"

namespace meshwork {
namespace {

void CompileLayeredMlp(benchmark::State& state, const std::string& optimizer) {
  const int layers = static_cast<int>(state.range(0));
  const Mesh mesh = Mesh::Parse(SquareMesh(static_cast<int>(state.range(1)))).value();
  Graph graph(mesh);
  BuildLayeredMlp(graph, {.layers = layers, .optimizer = optimizer});
  std::map<std::string, double> pass_seconds;
  size_t nodes = 0;
  for (auto _ : state) {
    absl::StatusOr<Program> program = Compile(graph);
    if (!program.ok()) return state.SkipWithError(std::string(MessageOf(program.status())).c_str());
    benchmark::DoNotOptimize(program);
    for (const PassTiming& pass : program->passes) pass_seconds[pass.pass] += pass.seconds;
    pass_seconds["verify"] += program->verify_seconds;
    nodes = program->body.nodes().size();
  }
  using benchmark::Counter;
  for (const auto& [pass, seconds] : pass_seconds)
    state.counters["ms_" + pass] = Counter(1e3 * seconds, Counter::kAvgIterations);
  state.counters["per_layer"] = Counter(layers, Counter::kIsIterationInvariantRate | Counter::kInvert);
  state.counters["global_nodes"] = static_cast<double>(graph.nodes().size());
  state.counters["local_nodes"] = static_cast<double>(nodes);
}

void Arguments(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"L", "log2_devices"})->Unit(benchmark::kMillisecond);
  for (int layers : {4, 16, 64, 256})
    for (int log2_devices : {3, 10, 20}) bench->Args({layers, log2_devices});
}

BENCHMARK_CAPTURE(CompileLayeredMlp, adam, "adam")->Name("compile/adam")->Apply(Arguments);
BENCHMARK_CAPTURE(CompileLayeredMlp, sgd, "sgd")->Name("compile/sgd")->Apply(Arguments);

}  // namespace
}  // namespace meshwork
