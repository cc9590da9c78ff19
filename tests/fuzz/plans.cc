// Which small programs take the compiler and the planner longest: random programs of up to 40 lines on meshes of two to
// four axes, with links that differ, some with a memory budget.
//
//   random_plans --count=500 --folder=build/fuzz/plans             // from seed 1 on
//   random_plans --count=500 --from=900 --folder=build/fuzz/plans
//
// Each program is compiled, and then planned, as `meshwork compile` and `meshwork plan` do. The slowest ones are
// printed, with seconds of processor time, and written to the folder with their topologies. Times differ from run to
// run; what is found does not.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/auto/auto_layouts.h"
#include "support/random_program.h"

namespace meshwork {
namespace {

constexpr std::string_view kMeshesToPlan[] = {"x=2,y=2,z=2",     "x=4,y=2,z=2",   "x=3,y=4,z=2",
                                              "x=2,y=3,z=4",     "x=8,y=4,z=2",   "x=4,y=4",
                                              "x=2,y=2,z=2,w=2", "x=2*2,y=3,z=2", "x=16,y=8,z=4"};

// Most operands are results of earlier ops, brought to the shape that the op needs; most values are open.
class PlansDrawer : RowsDrawer {
 public:
  PlansDrawer(const std::vector<Sample>& pool, uint64_t seed) : RowsDrawer(pool, seed, kMeshesToPlan) {}

  RandomProgram Draw() && {
    for (int i = 0; i < 2; ++i) AddInput({F32, {4, 4, static_cast<int64_t>(1 + Below(8))}});
    const size_t most = 8 + Below(28);
    while (graph().nodes().size() < most) AddOne();
    AddOutputs();
    return TakeProgram();
  }

 private:
  ValueId AddInput(const Type& type) {
    ValueInfo info{.name = fmt::format("a{}", graph().arguments().size()), .type = type, .global = type};
    if (Chance(20)) SetPin(info);
    return graph().AddArgument(std::move(info), /*is_variable=*/Chance(20));
  }

  // An earlier value of the same dtype, reshaped, padded or cut to `type`; else a new input.
  ValueId Brought(const Type& type) {
    std::vector<ValueId> all;
    for (ValueId id = 0; id < static_cast<ValueId>(graph().values().size()); ++id)
      if (graph().value(id).type.dtype == type.dtype && graph().value(id).type.num_elements() > 0)
        all.push_back(id);
    if (all.empty() || type.num_elements() == 0 || Chance(15)) return AddInput(type);
    Value x(&graph(), Pick(all));
    if (graph().value(x.id()).type == type) return x.id();
    const int64_t has = graph().value(x.id()).type.num_elements(), needs = type.num_elements();
    x = Reshape(x, {has});
    if (has < needs) x = Pad(x, {0}, {needs - has}, 1);
    if (has > needs) x = Slice(x, {0}, {needs});
    return Reshape(x, type.shape).id();
  }

  void AddOne() {
    const Sample& sample = DrawSample();
    std::vector<ValueId> operands;
    for (const Type& type : sample.operands) operands.push_back(Brought(type));
    AddNode(sample, operands);
  }
};

struct Trial {
  uint64_t seed;
  double compile_seconds, plan_seconds;
  std::string text, topology, budget;

  double seconds() const { return std::max(compile_seconds, plan_seconds); }
};

template <typename F>
double SecondsOf(F&& f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

std::string DrawTopology(const Mesh& mesh, std::mt19937_64& engine) {
  constexpr double kBandwidths[] = {1e6, 1e8, 1e10};
  constexpr double kLatencies[] = {0, 1e-6, 1e-3};
  std::string axes;
  for (const Axis& axis : mesh.axes())
    axes += fmt::format("{}\"{}\": {{\"bandwidth\": {}, \"latency\": {}}}", axes.empty() ? "" : ", ",
                        axis.name, kBandwidths[engine() % 3], kLatencies[engine() % 3]);
  return fmt::format("{{\"axes\": {{{}}}, \"flops\": 1000000000.0}}\n", axes);
}

Trial Try(const std::vector<Sample>& pool, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const Graph graph = PlansDrawer(pool, seed).Draw().graph;
  Trial trial{.seed = seed, .text = PrintGraph(graph)};
  CompileOptions options;
  if (engine() % 4 != 0) {
    trial.topology = DrawTopology(graph.mesh(), engine);
    options.topology = Topology::Parse(graph.mesh(), trial.topology).value();
  }
  trial.compile_seconds = SecondsOf([&] { static_cast<void>(Compile(graph, options)); });
  if (engine() % 4 == 0) {
    options.memory_budget = static_cast<int64_t>(1) << (6 + engine() % 10);
    trial.budget = fmt::format(" --memory-budget {}", options.memory_budget);
  }
  trial.plan_seconds = SecondsOf([&] { static_cast<void>(FindLayouts(graph, options)); });
  return trial;
}

void Write(const std::filesystem::path& folder, const Trial& trial) {
  const std::string name = (folder / fmt::format("plan_{}", trial.seed)).string();
  const std::string topology = trial.topology.empty() ? "" : fmt::format(" --topology {}.json", name);
  std::ofstream(name + ".mw") << trial.text;
  if (!trial.topology.empty()) std::ofstream(name + ".json") << trial.topology;
  fmt::print("compile {:7.3f} s  plan {:7.3f} s  meshwork plan {}.mw{}{}\n", trial.compile_seconds,
             trial.plan_seconds, name, topology, trial.budget);
}

int Misuse(std::string_view message) {
  fmt::print(stderr, "random_plans: {}\n", message);
  return 2;
}

int Main(int argc, char** argv) {
  constexpr size_t kSlowest = 10;
  int64_t count = 0;
  uint64_t from = 1;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equal = argument.find('=');
    const std::string_view name = argument.substr(0, equal);
    const std::string value(equal == std::string_view::npos ? "" : argument.substr(equal + 1));
    const bool is_read = name == "--count"    ? absl::SimpleAtoi(value, &count)
                         : name == "--from"   ? absl::SimpleAtoi(value, &from)
                         : name == "--folder" ? !(folder = value).empty()
                                              : false;
    if (!is_read)
      return Misuse(fmt::format("{}: there are --count=N, --from=SEED and --folder=FOLDER.", argument));
  }
  if (count <= 0 || folder.empty()) return Misuse("--count=N says how many, --folder=FOLDER where to write.");
  std::filesystem::create_directories(folder);
  const RandomPrograms programs;
  std::vector<Trial> slowest;
  double compile = 0, plan = 0;
  for (uint64_t seed = from; seed < from + static_cast<uint64_t>(count); ++seed) {
    slowest.push_back(Try(programs.pool(), seed));
    compile += slowest.back().compile_seconds;
    plan += slowest.back().plan_seconds;
    std::stable_sort(slowest.begin(), slowest.end(),
                     [](const Trial& a, const Trial& b) { return a.seconds() > b.seconds(); });
    if (slowest.size() > kSlowest) slowest.pop_back();
  }
  fmt::print("{} programs: compile {:.3f} s, plan {:.3f} s each, on average\n", count,
             compile / static_cast<double>(count), plan / static_cast<double>(count));
  for (const Trial& trial : slowest) Write(folder, trial);
  return 0;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Main(argc, argv); }
