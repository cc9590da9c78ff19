// simulated: how long training steps take by simulation (simulate/process.h), and measured, side by side. See --help.
//
// Exit code 2: the input is wrong; 1: a step failed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "benchmarks/simulated/works.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/simulate/measure.h"
#include "meshwork/simulate/process.h"
#include "meshwork/storage/file.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

struct Options {
  int64_t rounds = 5, steps = 5, workers = 0, count = 0;
  std::string only, json;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "simulated",
      "Simulates training steps of an MLP, a CNN and a transformer on meshes of virtual CPU devices, and measures them:\n"
      "by this machine's roofline alone, and by the times of each piece of the step, timed alone. Rounds of pieces and\n"
      "of steps take turns. Then ranks layouts of one model by both.");
  flags.Int("rounds", "of each program", &o.rounds, 1, 1000);
  flags.Int("steps", "of a round, after one that is not timed", &o.steps, 1, 1000);
  flags.Int("workers", "threads; 0: one per core", &o.workers, 0, 1024);
  flags.Int("programs", "how many, from the first on; 0: all", &o.count, 0, 1000);
  flags.Text("only", "programs whose names begin so, as \"gpt\"", &o.only);
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

struct Row {
  std::string name;
  double measured = 0, simulated = 0, by_roofline = 0;  // seconds
  bool ranked = false;
};

absl::StatusOr<Row> Compare(const SimulatedWork& work, const Machine& bare,
                            const std::shared_ptr<CpuBackend>& backend, const Options& o) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, GraphOf(work));
  SessionOptions options{.backend = backend};
  options.executor.poison_padding = options.executor.check_replicas = false;
  options.compile.verify = false;
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(options)));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, session.Bind(FeedsOf(work)));
  std::vector<double> measured, simulated;
  absl::Status status;
  for (int64_t round = 0; round < o.rounds; ++round) {
    for (int64_t s = 0; s <= o.steps; ++s) {
      const double seconds = Seconds([&] { status.Update(step.Run()); });
      if (s > 0) measured.push_back(seconds);
    }
    MESHWORK_RETURN_IF_ERROR(status);
    Machine machine = bare;
    MESHWORK_RETURN_IF_ERROR(MeasureKernels(session.program(), machine,
                                            {.rounds = static_cast<int>(o.steps), .backend = backend.get()}));
    MESHWORK_ASSIGN_OR_RETURN(const Simulation simulation, SimulateProcess(session.program(), machine));
    simulated.push_back(simulation.seconds);
  }
  MESHWORK_ASSIGN_OR_RETURN(const Simulation by_roofline, SimulateProcess(session.program(), bare));
  return Row{.name = work.name(),
             .measured = Median(std::move(measured)),
             .simulated = Median(std::move(simulated)),
             .by_roofline = by_roofline.seconds,
             .ranked = work.ranked};
}

// The rank of each value, equal ones sharing theirs.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto less = std::count_if(values.begin(), values.end(), [&](double x) { return x < value; });
    const auto same = std::count(values.begin(), values.end(), value);
    ranks.push_back(static_cast<double>(less) + static_cast<double>(same - 1) / 2);
  }
  return ranks;
}

// Spearman's rank correlation. REQUIRES: at least two values.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = RanksOf(a), y = RanksOf(b);
  const double mean = static_cast<double>(x.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

absl::Status Report(const std::vector<Row>& rows, const Options& o) {
  nlohmann::ordered_json json = {{"cpu", CpuName()}, {"programs", nlohmann::ordered_json::array()}};
  std::vector<double> measured, simulated;
  size_t near = 0;
  for (const Row& row : rows) {
    const double ratio = row.simulated / row.measured;
    if (std::abs(ratio - 1) <= 0.15) ++near;
    json["programs"].push_back({{"name", row.name},
                                {"measured_s", row.measured},
                                {"simulated_s", row.simulated},
                                {"roofline_s", row.by_roofline},
                                {"simulated_by_measured", ratio}});
    if (!row.ranked) continue;
    measured.push_back(row.measured);
    simulated.push_back(row.simulated);
  }
  fmt::print("{} of {} programs within 15 %\n", near, rows.size());
  if (measured.size() > 1) {
    const double correlation = RankCorrelation(measured, simulated);
    fmt::print("rank correlation of {} layouts: {:.3f}\n", measured.size(), correlation);
    json["rank_correlation"] = correlation;
  }
  return o.json.empty() ? absl::OkStatus() : WriteFileAtomically(o.json, json.dump(2) + "\n");
}

absl::Status Run(const Options& o) {
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(CheckWritable(o.json));
  const auto backend = std::make_shared<CpuBackend>(o.workers == 0 ? WorkerPool::DefaultWorkers()
                                                                   : static_cast<int>(o.workers));
  MESHWORK_ASSIGN_OR_RETURN(const Machine bare, MeasureMachine({.backend = backend.get()}));
  fmt::print("{}, {} workers: {:.1f} GFLOP/s, {:.1f} GB/s, an op {:.2f} µs, a step {:.2f} µs\n", CpuName(),
             bare.workers, bare.product_flops / 1e9, bare.memory_bandwidth / 1e9, 1e6 * bare.op_seconds,
             1e6 * bare.step_seconds);
  fmt::print("{:<60} {:>11} {:>11} {:>7} {:>11}\n", "program", "measured ms", "simulated", "ratio",
             "by roofline");
  std::vector<Row> rows;
  for (const SimulatedWork& work : SimulatedWorks()) {
    if (work.name().rfind(o.only, 0) != 0) continue;
    if (o.count > 0 && static_cast<int64_t>(rows.size()) == o.count) break;
    MESHWORK_ASSIGN_OR_RETURN(const Row row, Compare(work, bare, backend, o));
    fmt::print("{:<60} {:>11.3f} {:>11.3f} {:>7.2f} {:>11.3f}\n", row.name, 1e3 * row.measured,
               1e3 * row.simulated, row.simulated / row.measured, 1e3 * row.by_roofline);
    std::fflush(stdout);
    rows.push_back(row);
  }
  if (rows.empty()) return InvalidArgument("--only: no program's name begins with \"{}\".", o.only);
  return Report(rows, o);
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("simulated", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
