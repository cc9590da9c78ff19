// scaling/<program>/L:<layers>/log2_devices:<n>: all parts of the compiler that take a program, on programs
// of L layers. The time of an iteration is that of all parts. Counters: medians of each part's processor time
// per layer, in µs (us_compile, us_verify, …), so that a linear part has the same number in every row; the
// same for each pass, in wall time (us_propagate, …); and MB_peak, the peak memory of the process.
//
// The same counters for the parts that compile a program several times:
//   scaling_memory/…   with a memory budget a tenth below the need, and with a budget that cannot be met
//   scaling_cheaper/…  cheaper layouts; `tried` is the number of layouts that are compiled
//   scaling_refused/…  the search for a way out where a gather is refused
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/layered_mlp.h"
#include "benchmarks/layered_transformer.h"
#include "benchmarks/machine.h"
#include "benchmarks/measure.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/verify/certificate.h"
#include "meshwork/verify/verify.h"
#include "nlohmann/json.hpp"

namespace meshwork::scaling_benchmark {
namespace {

using Build = void (*)(Graph& graph, int layers);

template <WeightLayout weights, Gathering gather = Gathering::kOnUse>
void BuildMlp(Graph& graph, int layers) {
  BuildLayeredMlp(graph, {.layers = layers, .local_examples = 1, .weights = weights, .gather = gather});
}

// Each layer is a recurrence along the only dim, which is sharded and would be gathered for the recurrence.
void BuildRecurrences(Graph& graph, int layers) {
  const LayoutSpec by_rows = {DimSpec{"batch", "model"}};
  Value h = graph.Input("x", F32, {16 * graph.mesh().num_devices()}, by_rows);
  for (int layer = 0; layer < layers; ++layer) h = WithLayout(LinearRecurrence(Tanh(h), h, 0), by_rows);
  graph.Output("h", h);
}

void BuildTransformer(Graph& graph, int layers) { BuildLayeredTransformer(graph, {.layers = layers}); }

struct MeasuredProgram {
  std::string name;
  Build build;
  bool has_topology = false;  // `batch` is slower than `model`
};

const std::vector<MeasuredProgram>& MeasuredPrograms() {
  static const auto& programs = *new std::vector<MeasuredProgram>{
      {"by_model", BuildMlp<WeightLayout::kByModel>},
      {"zero3", BuildMlp<WeightLayout::kByRows>},
      {"zero3_by_model", BuildMlp<WeightLayout::kByBatchAndModel>},
      {"hybrid", BuildMlp<WeightLayout::kByRowsInHost>, true},
      {"replicated", BuildMlp<WeightLayout::kByRows, Gathering::kAllowed>},
      {"transformer", BuildTransformer},
  };
  return programs;
}

CompileOptions OptionsOf(const MeasuredProgram& measured, const Mesh& mesh) {
  CompileOptions options{.verify = false};
  if (measured.has_topology)
    options.topology = Topology::Create(mesh, {{"batch", {1e9, 1e-5}}, {"model", {1e11, 1e-6}}}).value();
  return options;
}

double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Processor time of each part, of every run.
class Parts {
 public:
  void Add(const std::string& part, double seconds) { seconds_[part].push_back(seconds); }
  template <typename F>
  auto Time(const std::string& part, F&& f) {
    const double start = ProcessorSeconds();
    auto result = f();
    Add(part, ProcessorSeconds() - start);
    return result;
  }
  void Report(benchmark::State& state, int layers) const {
    for (const auto& [part, seconds] : seconds_)
      state.counters["us_" + part] = 1e6 * Median(seconds) / layers;
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

absl::Status RunAll(const MeasuredProgram& measured, const Mesh& mesh, int layers, Parts& parts,
                    benchmark::State& state) {
  Graph graph(mesh);
  parts.Time("build", [&] {
    measured.build(graph, layers);
    return 0;
  });
  const CompileOptions options = OptionsOf(measured, mesh);
  MESHWORK_ASSIGN_OR_RETURN(const Program program,
                            parts.Time("compile", [&] { return Compile(graph, options); }));
  const Graph& local = program.body;
  MESHWORK_ASSIGN_OR_RETURN(const Proof proof, parts.Time("verify", [&] { return Verify(graph, local); }));
  parts.Time("memory", [&] { return PrintMemoryReport(local, ReportMemory(local)); });
  const std::string text = parts.Time("print", [&] { return PrintGraph(graph); });
  MESHWORK_RETURN_IF_ERROR(parts.Time("parse", [&] { return ParseGraph(text); }).status());
  const Explanation explanation = parts.Time("explain", [&] { return Explain(program, options.topology); });
  parts.Time("text", [&] { return ToText(explanation); });
  parts.Time("json", [&] { return ToJson(explanation).dump(2); });
  const std::string certificate =
      parts.Time("certificate", [&] { return CertificateToJson(MakeCertificate(graph, local, proof)); });
  MESHWORK_RETURN_IF_ERROR(parts.Time("check", [&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const Certificate read, CertificateFromJson(certificate));
    return CheckCertificate(graph, read);
  }));
  for (const PassTiming& pass : program.passes) parts.Add(pass.pass, pass.seconds);
  state.counters["global_nodes"] = static_cast<double>(graph.nodes().size());
  state.counters["local_nodes"] = static_cast<double>(local.nodes().size());
  return absl::OkStatus();
}

// A compile that may fail.
absl::Status Expect(const absl::Status& status, absl::StatusCode failure) {
  return status.code() == failure ? absl::OkStatus() : status;
}

absl::Status RunMemory(const MeasuredProgram& measured, const Mesh& mesh, int layers, Parts& parts,
                       benchmark::State&) {
  Graph graph(mesh);
  measured.build(graph, layers);
  CompileOptions options = OptionsOf(measured, mesh);
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, options));
  const int64_t peak = LogicalPeakBytes(program.body);
  options.memory_budget = peak - peak / 10;
  MESHWORK_RETURN_IF_ERROR(
      Expect(parts.Time("a_tenth_less", [&] { return Compile(graph, options); }).status(),
             absl::StatusCode::kResourceExhausted));
  options.memory_budget = 1;
  return Expect(parts.Time("no_memory", [&] { return Compile(graph, options); }).status(),
                absl::StatusCode::kResourceExhausted);
}

absl::Status RunCheaper(const MeasuredProgram& measured, const Mesh& mesh, int layers, Parts& parts,
                        benchmark::State& state) {
  Graph graph(mesh);
  measured.build(graph, layers);
  const CompileOptions options = OptionsOf(measured, mesh);
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, options));
  const LayoutSearch search = parts.Time("cheaper", [&] { return CheaperLayouts(graph, program, options); });
  state.counters["tried"] = static_cast<double>(search.tried);
  return absl::OkStatus();
}

absl::Status RunRefused(const MeasuredProgram& measured, const Mesh& mesh, int layers, Parts& parts,
                        benchmark::State&) {
  Graph graph(mesh);
  measured.build(graph, layers);
  CompileOptions options = OptionsOf(measured, mesh);
  options.replication_budget = 0;
  const absl::Status status = parts.Time("refused", [&] { return Compile(graph, options); }).status();
  return status.ok() ? absl::InternalError("the compile was not refused.")
                     : Expect(status, absl::StatusCode::kInvalidArgument);
}

template <typename Run>
void Measure(benchmark::State& state, const MeasuredProgram& measured, Run&& run) {
  const int layers = static_cast<int>(state.range(0));
  const Mesh mesh = Mesh::Parse(SquareMesh(static_cast<int>(state.range(1)))).value();
  Parts parts;
  malloc_trim(0);
  ForgetPeak();
  for (auto _ : state) {
    const absl::Status status = run(measured, mesh, layers, parts, state);
    if (!status.ok()) return state.SkipWithError(std::string(MessageOf(status)).c_str());
  }
  parts.Report(state, layers);
  state.counters["MB_peak"] = MegabytesOf("VmHWM");
}

void Register(const std::string& family, const MeasuredProgram& measured, auto&& run) {
  auto* bench = benchmark::RegisterBenchmark(
      (family + "/" + measured.name).c_str(),
      [&measured, run](benchmark::State& state) { Measure(state, measured, run); });
  bench->ArgNames({"L", "log2_devices"})->Unit(benchmark::kMillisecond);
  for (int layers : {4, 16, 64, 256})
    for (int log2_devices : {3, 20}) bench->Args({layers, log2_devices});
}

const bool kRegistered = [] {
  for (const MeasuredProgram& measured : MeasuredPrograms()) {
    Register("scaling", measured, RunAll);
    Register("scaling_memory", measured, RunMemory);
    Register("scaling_cheaper", measured, RunCheaper);
  }
  static const auto& recurrences = *new MeasuredProgram{"recurrences", BuildRecurrences};
  Register("scaling_refused", recurrences, RunRefused);
  return true;
}();

}  // namespace
}  // namespace meshwork::scaling_benchmark
