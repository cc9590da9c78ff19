// overlap: the training step of a transformer over several processes, with communication beside compute, and with
// processes that wait for it; and the time of the step as predicted from the measured link. See --help.
//
// Exit code 2: the input is wrong; 1: a step failed, or the two compute other losses.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "examples/support/gpt.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr int64_t kMost = 1 << 20;
constexpr double kLossTolerance = 1e-3;
constexpr double kCountFlops = 1e9;  // of a device, to read what a step computes off its prediction

struct Options {
  GptModel model{.layers = 4, .dim = 256, .heads = 4, .sequence = 128};
  int64_t batch = 16, rounds = 5, calls = 3, workers = 0;
  JoinOptions join;
  std::string json;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "overlap",
      "Times training steps of a transformer whose examples are shared by all processes, each with one device: with\n"
      "the gradients crossing while others are computed, and without; in turns, a round of calls each. Beside them\n"
      "stand the same examples in each process without the others, and the time of a step by the measured link.\n"
      "Start it by mpirun, or by examples/multi_worker/launch, or between slow hosts (processes/slow_hosts).");
  flags.Int("layers", "of the transformer", &o.model.layers, 1, kMost);
  flags.Int("dim", "units of a byte", &o.model.dim, 1, kMost);
  flags.Int("heads", "of attention", &o.model.heads, 1, kMost);
  flags.Int("sequence", "bytes of an example", &o.model.sequence, 1, kMost);
  flags.Int("batch", "examples of a step, of all processes", &o.batch, 1, kMost);
  flags.Int("workers", "threads of a process; 0: one per core, shared by the processes of a host", &o.workers,
            0, 1024);
  flags.Int("rounds", "of each", &o.rounds, 1, kMost);
  flags.Int("calls", "of a round, after one that is not timed", &o.calls, 1, kMost);
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  AddJoinFlags(flags, &o.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

Feeds RandomExamples(const Options& o, int64_t batch) {
  return {{"tokens", RandomTokens(o.model, batch, /*stream=*/0)},
          {"targets", RandomTokens(o.model, batch, /*stream=*/1)}};
}

// A session and its examples, on which it trains repeatedly.
class Trainee {
 public:
  static absl::StatusOr<Trainee> Create(const Options& o, const Mesh& mesh, int64_t batch,
                                        SessionOptions options) {
    Graph graph(mesh);
    BuildGpt(graph, o.model, batch, Adam({.learning_rate = 1e-3}));
    options.executor.poison_padding = options.executor.check_replicas = false;
    MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(options)));
    return Trainee(std::move(session), RandomExamples(o, batch));
  }

  // The median seconds of some steps, after one that is not counted.
  absl::StatusOr<double> Time(int64_t calls) {
    std::vector<double> seconds;
    for (int64_t i = 0; i <= calls; ++i) {
      absl::StatusOr<StepResult> result = absl::UnknownError("");
      const double took = Seconds([&] { result = session_.Run(feeds_); });
      MESHWORK_RETURN_IF_ERROR(result.status());
      MESHWORK_ASSIGN_OR_RETURN(losses_.emplace_back(), result->scalar("loss"));
      if (i > 0) seconds.push_back(took);
    }
    return Median(std::move(seconds));
  }

  const std::vector<double>& losses() const { return losses_; }
  const Session& session() const { return session_; }

 private:
  Trainee(Session session, Feeds feeds) : session_(std::move(session)), feeds_(std::move(feeds)) {}

  Session session_;
  Feeds feeds_;
  std::vector<double> losses_;
};

// The maximum over all processes.
absl::StatusOr<double> Longest(const Processes& processes, double seconds) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            processes.transport()->AllGather("a time", fmt::format("{:.9f}", seconds)));
  for (const std::string& text : all) seconds = std::max(seconds, std::stod(text));
  return seconds;
}

absl::StatusOr<Topology> TopologyOf(const Mesh& mesh, const Link& link, double flops) {
  std::vector<Topology::AxisLink> links;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) links.push_back({mesh.axis(axis).name, link});
  return Topology::Create(mesh, links, flops);
}

struct Measured {
  std::vector<double> alone, beside, waiting, predicted;  // seconds, per round
};

absl::Status Report(const Options& o, const Trainee& shared, const Link& link,
                    const StepPrediction& prediction, const Measured& measured) {
  const double alone = Median(measured.alone), beside = Median(measured.beside),
               waiting = Median(measured.waiting), predicted = Median(measured.predicted);
  std::vector<double> hidden, hidden_of_possible, ratios;
  // If a process sends nothing, no communication can be hidden.
  const double computing = 1 - prediction.start_seconds / prediction.compute_seconds;
  for (size_t r = 0; r < measured.beside.size(); ++r) {
    const double crossing = measured.waiting[r] - measured.alone[r],
                 won = measured.waiting[r] - measured.beside[r];
    hidden.push_back(won / crossing);
    hidden_of_possible.push_back(won / std::min(crossing, computing * measured.alone[r]));
    ratios.push_back(measured.beside[r] / measured.predicted[r]);
  }
  const nlohmann::ordered_json json = {{"latency_s", link.latency},
                                       {"bandwidth_bytes_per_s", link.bandwidth},
                                       {"alone_s", alone},
                                       {"waiting_s", waiting},
                                       {"beside_s", beside},
                                       {"hidden", Median(hidden)},
                                       {"hidden_of_possible", Median(hidden_of_possible)},
                                       {"predicted_s", predicted},
                                       {"measured_by_predicted", Median(ratios)}};
  fmt::print("link: {:.3f} ms, {:.1f} MB/s; a step sends {:.1f} MB\n", 1e3 * link.latency,
             link.bandwidth / 1e6, prediction.remote_bytes / 1e6);
  fmt::print("{:<52} {:>10}\n", "step", "ms");
  fmt::print("{:<52} {:>10.1f}\n", "each process alone, with its examples", 1e3 * alone);
  fmt::print("{:<52} {:>10.1f}\n", "all, each waiting for what crosses", 1e3 * waiting);
  fmt::print("{:<52} {:>10.1f}\n", "all, with what crosses beside compute", 1e3 * beside);
  fmt::print("{:<52} {:>10.1f}\n", "a process computes on after its first gradient", 1e3 * computing * alone);
  fmt::print("{:<52} {:>9.0f} %\n", "of the time that crossing adds, hidden", 100 * Median(hidden));
  fmt::print("{:<52} {:>9.0f} %\n", "of that which can be hidden", 100 * Median(hidden_of_possible));
  fmt::print("{:<52} {:>10.1f}\n", "predicted by the link and what a process computes", 1e3 * predicted);
  fmt::print("{:<52} {:>10.2f}\n", "measured / predicted", Median(ratios));
  fmt::print("loss {:.4f}, then {:.4f}\n", shared.losses().front(), shared.losses().back());
  return o.json.empty() ? absl::OkStatus() : WriteFileAtomically(o.json, json.dump(2) + "\n");
}

absl::Status Compare(const Options& o, const Processes& processes) {
  const int64_t domains = processes.cluster().num_processes();
  if (o.batch % domains != 0)
    return InvalidArgument("--batch: {} examples are not shared evenly by {} processes.", o.batch, domains);
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(fmt::format("batch={}", domains)));
  MESHWORK_ASSIGN_OR_RETURN(const Mesh one, Mesh::VirtualCpus("batch=1"));
  SessionOptions options{.workers = static_cast<int>(o.workers)};
  processes.Use(options);
  SessionOptions waiting_options = options, alone_options = options;
  waiting_options.executor.overlap = false;
  alone_options.executor.transport = nullptr;
  MESHWORK_ASSIGN_OR_RETURN(Trainee beside, Trainee::Create(o, mesh, o.batch, options));
  MESHWORK_ASSIGN_OR_RETURN(Trainee waiting, Trainee::Create(o, mesh, o.batch, waiting_options));
  MESHWORK_ASSIGN_OR_RETURN(Trainee alone, Trainee::Create(o, one, o.batch / domains, alone_options));
  const Link link = processes.transport()->speed();
  MESHWORK_ASSIGN_OR_RETURN(const Topology count, TopologyOf(one, link, kCountFlops));
  MESHWORK_ASSIGN_OR_RETURN(const StepPrediction computed, alone.session().PredictTime(count));

  Measured measured;
  StepPrediction prediction;
  for (int64_t round = 0; round < o.rounds; ++round) {
    MESHWORK_RETURN_IF_ERROR(Agree(*processes.transport(), "the turn", std::string("alone")));
    MESHWORK_ASSIGN_OR_RETURN(const double mine, alone.Time(o.calls));
    MESHWORK_ASSIGN_OR_RETURN(measured.alone.emplace_back(), Longest(processes, mine));
    MESHWORK_ASSIGN_OR_RETURN(measured.waiting.emplace_back(), waiting.Time(o.calls));
    MESHWORK_ASSIGN_OR_RETURN(measured.beside.emplace_back(), beside.Time(o.calls));
    MESHWORK_ASSIGN_OR_RETURN(
        const Topology topology,
        TopologyOf(mesh, link, kCountFlops * computed.compute_seconds / measured.alone.back()));
    MESHWORK_ASSIGN_OR_RETURN(prediction, beside.session().PredictTime(topology));
    measured.predicted.push_back(prediction.seconds);
    if (processes.is_chief()) {
      fmt::print(stderr, "round {} of {}\n", round + 1, o.rounds);
      std::fflush(stderr);
    }
  }
  for (size_t i = 0; i < beside.losses().size(); ++i)
    if (!(std::abs(beside.losses()[i] - waiting.losses()[i]) <= kLossTolerance))
      return absl::InternalError(fmt::format("step {}: the loss is {} with overlap and {} without.", i,
                                             beside.losses()[i], waiting.losses()[i]));
  return processes.is_chief() ? Report(o, beside, link, prediction, measured) : absl::OkStatus();
}

absl::Status Run(const Options& o) {
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(o.join));
  if (processes.is_alone()) return InvalidArgument("There is one process; start several (--help).");
  return processes.Run([&] { return Compare(o, processes); });
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("overlap", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
