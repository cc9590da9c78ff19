// Prints two lines per step of random_pins.json: its seed, the bytes of JAX and of meshwork, with choose_layouts and
// without ("plain"), the seconds of both compilations, what is refused with a replication budget without end and with
// the default one; and the operations of products.
//
//   random_pins_report [FIRST [END [FOLDER]]]   // FOLDER gets the programs that send more than 1.1 times JAX's bytes
//   random_pins_report --programs FOLDER        // only writes all programs, for tests/stablehlo/shardy.py
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/spmd/passes.h"
#include "random_pins/random_pins.h"

namespace meshwork {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int WritePrograms(const std::string& folder) {
  for (const RandomPins& step : LoadRandomPins())
    std::ofstream(fmt::format("{}/{}.mw", folder, step.seed)) << PrintGraph(BuildStep(step));
  return 0;
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--programs") return WritePrograms(argv[2]);
  const int64_t first = argc > 1 ? std::atoll(argv[1]) : 0, end = argc > 2 ? std::atoll(argv[2]) : 1 << 30;
  for (const RandomPins& step : LoadRandomPins()) {
    if (step.seed < first || step.seed >= end) continue;
    const Graph graph = BuildStep(step);
    if (!graph.status().ok()) {
      fmt::print("seed {} mistake {}\n", step.seed, graph.status().ToString());
      continue;
    }
    const CompileOptions options = {.verify = false, .replication_budget = int64_t{1} << 50};
    const double t0 = Now();
    const Passed with = RunPasses(graph, options, {});
    const double t1 = Now();
    const Passed without = RunPasses(graph, options, {.left_out = {"choose_layouts"}});
    const double t2 = Now();
    const Passed budget = RunPasses(graph, {.verify = false}, {});
    const int64_t ours = CostOf(with.program.body, {}).bytes, plain = CostOf(without.program.body, {}).bytes;
    fmt::print(
        "seed {} mesh {} jax {} ours {} ratio {:.4f} plain {} plain_ratio {:.4f} s {:.2f} {:.2f} status {} {} default {}\n",
        step.seed, step.mesh, step.jax_bytes, ours, double(ours) / double(step.jax_bytes), plain,
        double(plain) / double(step.jax_bytes), t1 - t0, t2 - t1,
        with.status.ok() ? "ok" : with.status.ToString(),
        without.status.ok() ? "ok" : without.status.ToString(),
        budget.status.ok() ? fmt::format("ok {}", CostOf(budget.program.body, {}).bytes)
                           : budget.status.ToString());
    fmt::print("flops {} jax {:.4g} ours {:.4g} plain {:.4g}\n", step.seed, step.jax_flops,
               ProductFlops(with.program.body), ProductFlops(without.program.body));
    std::fflush(stdout);
    if (argc > 3 && double(ours) > 1.1 * double(step.jax_bytes)) {
      std::ofstream(fmt::format("{}/{}.mw", argv[3], step.seed)) << PrintGraph(graph);
      std::ofstream(fmt::format("{}/{}.local.mw", argv[3], step.seed)) << PrintGraph(with.program.body);
    }
  }
  return 0;
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) { return meshwork::Main(argc, argv); }
