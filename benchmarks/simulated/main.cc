// simulated: the times of training steps, simulated (tools/simulate/process.h) and measured, side by side. See --help.
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
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/tools/simulate/measure.h"
#include "meshwork/tools/simulate/process.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

struct Options {
  int64_t rounds = 5, steps = 5, workers = 0, count = 0;
  std::string only, json;
  JoinOptions join;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "simulated",
      "Simulates training steps of an MLP, a CNN and a transformer on meshes of virtual CPU devices, and measures them:\n"
      "by this machine's roofline alone, and by the times of each piece of the step, timed alone. Rounds of pieces and\n"
      "of steps take turns. Then ranks layouts of one model by both. Several processes, which mpirun or\n"
      "processes/slow_hosts start, share the devices of those programs that they can share.");
  flags.Int("rounds", "of each program", &o.rounds, 1, 1000);
  flags.Int("steps", "of a round, after one that is not timed", &o.steps, 1, 1000);
  flags.Int("workers", "threads; 0: one per core, shared by the processes of a host", &o.workers, 0, 1024);
  flags.Int("programs", "how many, from the first on; 0: all", &o.count, 0, 1000);
  flags.Text("only", "programs whose names begin so, as \"gpt\"", &o.only);
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  AddJoinFlags(flags, &o.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

struct Row {
  std::string name;
  double measured = 0, simulated = 0;              // seconds, medians of the rounds
  double ratio = 0;                                // the median of simulated / measured of each round
  double least_measured = 0, least_simulated = 0;  // seconds, of the quickest rounds
  double by_roofline = 0, links = 0;               // seconds
  bool ranked = false;
};

// The resources of a step: the threads of this process, and the other processes that share the devices.
struct Site {
  std::shared_ptr<CpuBackend> backend;
  const Processes& processes;
  Machine bare;  // without kernels
};

// The maximum over all processes.
absl::StatusOr<double> Longest(const Processes& processes, double seconds) {
  if (processes.is_alone()) return seconds;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            processes.transport()->AllGather("a time", fmt::format("{:.9f}", seconds)));
  for (const std::string& text : all) seconds = std::max(seconds, std::stod(text));
  return seconds;
}

// The links between processes, as measured when the processes joined.
absl::StatusOr<Topology> LinksOf(const Mesh& mesh, const Processes& processes) {
  if (processes.is_alone()) return Topology();
  std::vector<Topology::AxisLink> links;
  for (const Axis& axis : mesh.axes()) links.push_back({axis.name, processes.transport()->speed()});
  return Topology::Create(mesh, links);
}

// A program whose steps are measured and simulated, a round of each in turn.
class Comparison {
 public:
  static absl::StatusOr<std::unique_ptr<Comparison>> Create(const SimulatedWork& work, const Site& site) {
    MESHWORK_ASSIGN_OR_RETURN(const Graph graph, GraphOf(work));
    SessionOptions options;
    site.processes.Use(options);
    options.backend = site.backend;
    options.executor.poison_padding = options.executor.check_replicas = false;
    options.compile.verify = false;
    MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(options)));
    MESHWORK_ASSIGN_OR_RETURN(BoundStep step, session.Bind(FeedsOf(work)));
    Machine bare = site.bare;
    MESHWORK_ASSIGN_OR_RETURN(bare.topology, LinksOf(graph.mesh(), site.processes));
    return std::unique_ptr<Comparison>(
        new Comparison(work, site, std::move(session), std::move(step), std::move(bare)));
  }

  absl::Status Round(int64_t steps) {
    std::vector<double> seconds;
    for (int64_t s = 0; s <= steps; ++s) {
      absl::Status status;
      const double mine = Seconds([&] { status = step_.Run(); });
      MESHWORK_RETURN_IF_ERROR(status);
      MESHWORK_ASSIGN_OR_RETURN(const double longest, Longest(site_.processes, mine));
      if (s > 0) seconds.push_back(longest);
    }
    measured_.push_back(Median(std::move(seconds)));
    Machine machine = bare_;
    MESHWORK_RETURN_IF_ERROR(MeasureKernels(
        session_.program(), machine, {.rounds = static_cast<int>(steps), .backend = site_.backend.get()}));
    MESHWORK_ASSIGN_OR_RETURN(const Simulation simulation, SimulateProcess(session_.program(), machine));
    MESHWORK_ASSIGN_OR_RETURN(simulated_.emplace_back(), Longest(site_.processes, simulation.seconds));
    ratios_.push_back(simulated_.back() / measured_.back());
    return absl::OkStatus();
  }

  absl::StatusOr<Row> Finish() const {
    MESHWORK_ASSIGN_OR_RETURN(const Simulation by_roofline, SimulateProcess(session_.program(), bare_));
    return Row{.name = work_.name(),
               .measured = Median(measured_),
               .simulated = Median(simulated_),
               .ratio = Median(ratios_),
               .least_measured = *std::min_element(measured_.begin(), measured_.end()),
               .least_simulated = *std::min_element(simulated_.begin(), simulated_.end()),
               .by_roofline = by_roofline.seconds,
               .links = by_roofline.link_seconds,
               .ranked = work_.ranked};
  }

 private:
  Comparison(const SimulatedWork& work, const Site& site, Session session, BoundStep step, Machine bare)
      : work_(work),
        site_(site),
        session_(std::move(session)),
        step_(std::move(step)),
        bare_(std::move(bare)) {}

  const SimulatedWork& work_;
  const Site& site_;
  Session session_;
  BoundStep step_;
  const Machine bare_;
  std::vector<double> measured_, simulated_, ratios_;  // per round
};

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
  fmt::print("{:<60} {:>11} {:>11} {:>7} {:>11} {:>9}\n", "program", "measured ms", "simulated", "ratio",
             "by roofline", "of links");
  for (const Row& row : rows) {
    fmt::print("{:<60} {:>11.3f} {:>11.3f} {:>7.2f} {:>11.3f} {:>9.3f}\n", row.name, 1e3 * row.measured,
               1e3 * row.simulated, row.ratio, 1e3 * row.by_roofline, 1e3 * row.links);
    if (std::abs(row.ratio - 1) <= 0.15) ++near;
    json["programs"].push_back({{"name", row.name},
                                {"measured_s", row.measured},
                                {"simulated_s", row.simulated},
                                {"roofline_s", row.by_roofline},
                                {"simulated_by_measured", row.ratio}});
    if (!row.ranked) continue;
    measured.push_back(row.least_measured);
    simulated.push_back(row.least_simulated);
  }
  fmt::print("{} of {} programs within 15 %\n", near, rows.size());
  if (measured.size() > 1) {
    const double correlation = RankCorrelation(measured, simulated);
    fmt::print("rank correlation of {} layouts: {:.3f}\n", measured.size(), correlation);
    json["rank_correlation"] = correlation;
  }
  return o.json.empty() ? absl::OkStatus() : WriteFileAtomically(o.json, json.dump(2) + "\n");
}

// The most devices that the processes can share.
bool CanShare(const SimulatedWork& work, const Processes& processes) {
  const int64_t domains = processes.cluster().num_processes();
  return Mesh::VirtualCpus(work.mesh)->num_devices() % domains == 0;
}

absl::Status CompareAll(const Options& o, const Processes& processes) {
  SessionOptions shared{.workers = static_cast<int>(o.workers)};
  processes.Use(shared);
  const int workers = shared.workers == 0 ? WorkerPool::DefaultWorkers() : shared.workers;
  Site site{.backend = std::make_shared<CpuBackend>(workers), .processes = processes};
  MESHWORK_ASSIGN_OR_RETURN(site.bare, MeasureMachine({.backend = site.backend.get()}));
  const bool prints = processes.is_chief();
  const Machine& bare = site.bare;
  if (prints) {
    fmt::print("{}, {} of {} workers: {:.1f} GFLOP/s, {:.1f} GB/s, an op {:.2f} µs, a step {:.2f} µs\n",
               CpuName(), processes.HowMany(), bare.workers, bare.product_flops / 1e9,
               bare.memory_bandwidth / 1e9, 1e6 * bare.op_seconds, 1e6 * bare.step_seconds);
    if (!processes.is_alone()) {
      const Link link = processes.transport()->speed();
      fmt::print("link: {:.3f} ms, {:.1f} MB/s\n", 1e3 * link.latency, link.bandwidth / 1e6);
    }
  }
  std::vector<std::unique_ptr<Comparison>> comparisons;
  for (const SimulatedWork& work : SimulatedWorks()) {
    if (work.name().rfind(o.only, 0) != 0 || !CanShare(work, processes)) continue;
    if (o.count > 0 && static_cast<int64_t>(comparisons.size()) == o.count) break;
    MESHWORK_ASSIGN_OR_RETURN(comparisons.emplace_back(), Comparison::Create(work, site));
  }
  if (comparisons.empty()) return InvalidArgument("--only: no program's name begins with \"{}\".", o.only);
  // A disturbance of the machine affects one round of each program.
  for (int64_t round = 0; round < o.rounds; ++round) {
    for (const auto& comparison : comparisons) MESHWORK_RETURN_IF_ERROR(comparison->Round(o.steps));
    if (prints) fmt::print(stderr, "round {} of {}\n", round + 1, o.rounds);
  }
  std::vector<Row> rows;
  for (const auto& comparison : comparisons) {
    MESHWORK_ASSIGN_OR_RETURN(const Row row, comparison->Finish());
    rows.push_back(row);
  }
  return prints ? Report(rows, o) : absl::OkStatus();
}

absl::Status Run(const Options& o) {
  if (!o.json.empty()) MESHWORK_RETURN_IF_ERROR(CheckWritable(o.json));
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(o.join));
  return processes.Run([&] { return CompareAll(o, processes); });
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("simulated", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
