// gpt_step: one training step of a transformer on meshes of virtual CPU devices, in one process and in turns.
// See --help.
//
// Exit code 2: the input is wrong; 1: a step failed or computed another loss.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "examples/support/gpt.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/runtime/cpu/worker_pool.h"

namespace meshwork {
namespace {

constexpr int64_t kBatches = 8;  // of the data, over which all steps cycle
constexpr int64_t kWarmUp = 3;
constexpr double kLossTolerance = 1e-3;
constexpr std::chrono::milliseconds kPause{2};  // time in which waiting threads fall asleep
constexpr int64_t kMost = 1 << 20;

struct Options {
  std::string meshes = "batch=1 batch=8 batch=4,model=2", only, json, profile = "off";
  int64_t batch = 16, repeats = 5, steps = 5;
  GptModel model{.layers = 4, .dim = 256, .heads = 8, .sequence = 128, .rotary = false};
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "gpt_step",
      "Times a training step of a transformer over bytes (forward, backward and Adam, f32, learned\n"
      "positions) on meshes of virtual CPU devices. All take turns, a round of steps each.");
  flags.Text("meshes", "a list with spaces; the first is what the others are compared with", &o.meshes);
  flags.Text("only", "one mesh, alone in the process", &o.only);
  flags.Int("batch", "sequences per step", &o.batch, 1, kMost);
  flags.Int("layers", "blocks", &o.model.layers, 0, kMost);
  flags.Int("dim", "units of a token", &o.model.dim, 1, kMost);
  flags.Int("heads", "of attention; they divide the units", &o.model.heads, 1, kMost);
  flags.Int("sequence", "tokens of a sequence", &o.model.sequence, 1, kMost);
  flags.Int("repeats", "rounds of each", &o.repeats, 1, kMost);
  flags.Int("steps", "of a round, after one that is not timed", &o.steps, 1, kMost);
  flags.Choice("profile", "prints where the time of each mesh's steps went", &o.profile, {"on", "off"});
  flags.Text("json", "writes what was measured as JSON into this file; -: to standard output, and no table",
             &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  if (!o.only.empty()) o.meshes = o.only;
  return o;
}

struct Runner {
  std::string mesh;
  Session session;
  double gflop = 0;
  int64_t steps = 0;
  double loss = 0;                  // of the last step of the warm-up
  std::vector<double> rounds = {};  // seconds of a step
  std::vector<double> ratios = {};  // to the first runner's round of the same repeat
  double fastest = 1e300;

  // Seconds.
  absl::StatusOr<double> Step(const std::vector<Feeds>& data) {
    const Feeds& feeds = data[static_cast<size_t>(steps++ % kBatches)];
    absl::StatusOr<StepResult> result = absl::UnknownError("");
    const double seconds = Seconds([&] { result = session.Run(feeds); });
    MESHWORK_RETURN_IF_ERROR(result.status());
    if (steps == kWarmUp) {
      MESHWORK_ASSIGN_OR_RETURN(loss, result->scalar("loss"));
    }
    fastest = std::min(fastest, seconds);
    return seconds;
  }

  absl::Status Round(const std::vector<Feeds>& data, int64_t count) {
    std::this_thread::sleep_for(kPause);
    MESHWORK_RETURN_IF_ERROR(Step(data).status());
    std::vector<double> seconds;
    for (int64_t step = 0; step < count; ++step) {
      MESHWORK_ASSIGN_OR_RETURN(seconds.emplace_back(), Step(data));
    }
    rounds.push_back(Median(std::move(seconds)));
    return absl::OkStatus();
  }
};

absl::StatusOr<Runner> MakeRunner(const Options& o, const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(text);
  if (!mesh.ok()) return Annotate(mesh.status(), fmt::format("\"{}\": ", text));
  Graph graph(*mesh);
  BuildGpt(graph, o.model, o.batch, Adam({.learning_rate = 1e-3}));
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += FlopsOf(graph, node);
  SessionOptions options;
  options.executor.profile = o.profile == "on";
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(options)));
  return Runner{.mesh = text, .session = std::move(session), .gflop = 1e-9 * flops};
}

absl::StatusOr<std::vector<Runner>> Measure(const Options& o) {
  std::vector<Feeds> data;
  for (int64_t b = 0; b < kBatches; ++b)
    data.push_back({{"tokens", RandomTokens(o.model, o.batch, 2 * b)},
                    {"targets", RandomTokens(o.model, o.batch, 2 * b + 1)}});
  std::vector<Runner> runners;
  std::istringstream meshes(o.meshes);
  for (std::string mesh; meshes >> mesh;) {
    MESHWORK_ASSIGN_OR_RETURN(Runner made, MakeRunner(o, mesh));
    runners.push_back(std::move(made));
    for (int64_t step = 0; step < kWarmUp; ++step)
      MESHWORK_RETURN_IF_ERROR(runners.back().Step(data).status());
    const double loss = runners.back().loss, expected = runners.front().loss;
    if (!(std::abs(loss - expected) <= kLossTolerance * std::abs(expected)))
      return absl::InternalError(fmt::format("{}: after {} steps the loss is {}, on {} it is {}.", mesh,
                                             kWarmUp, loss, runners.front().mesh, expected));
  }
  if (runners.empty())
    return InvalidArgument("--meshes: the list is empty; write for example \"batch=1 batch=8\".");
  for (int64_t repeat = 0; repeat < o.repeats; ++repeat) {
    for (size_t i = 0; i < runners.size(); ++i) {
      Runner& runner = runners[repeat % 2 == 0 ? i : runners.size() - 1 - i];
      MESHWORK_RETURN_IF_ERROR(runner.Round(data, o.steps));
    }
    for (Runner& runner : runners) runner.ratios.push_back(runner.rounds.back() / runners[0].rounds.back());
  }
  return runners;
}

std::string ToJson(const Options& o, const std::vector<Runner>& runners) {
  nlohmann::ordered_json json = {{"cpu", CpuName()}, {"workers", WorkerPool::DefaultWorkers()}};
  json["batch"] = o.batch;
  json["gflop"] = runners[0].gflop;
  for (const Runner& runner : runners)
    json["variants"].push_back({{"variant", runner.mesh},
                                {"ms", 1e3 * Median(runner.rounds)},
                                {"min_ms", 1e3 * runner.fastest},
                                {"ratio", Median(runner.ratios)},
                                {"loss", runner.loss}});
  return json.dump(2) + "\n";
}

std::string ToTable(const Options& o, const std::vector<Runner>& runners) {
  std::string text = fmt::format("{}, {} workers, medians of {} rounds in turn, {:.1f} GFLOP a step\n",
                                 CpuName(), WorkerPool::DefaultWorkers(), o.repeats, runners[0].gflop);
  text += fmt::format("{:<22} {:>9} {:>9} {:>7} {:>9}\n", "", "ms", "fastest", "ratio", "GFLOP/s");
  for (const Runner& runner : runners)
    text +=
        fmt::format("{:<22} {:>9.2f} {:>9.2f} {:>7.3f} {:>9.1f}\n", runner.mesh, 1e3 * Median(runner.rounds),
                    1e3 * runner.fastest, Median(runner.ratios), runner.gflop / runner.fastest);
  return text;
}

absl::Status Main(const Options& o) {
  const bool writes_file = !o.json.empty() && o.json != "-";
  if (writes_file) MESHWORK_RETURN_IF_ERROR(CheckWritable(o.json));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Runner> runners, Measure(o));
  if (writes_file) MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(o.json, ToJson(o, runners)));
  fmt::print("{}", o.json == "-" ? ToJson(o, runners) : ToTable(o, runners));
  for (const Runner& runner : runners)
    if (o.profile == "on")
      fmt::print("\n{}\n{}\n{}", runner.mesh, runner.session.Profile().ToString(),
                 runner.session.Profile().ByOp().ToString());
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("gpt_step", meshwork::ParseOptions(argc, argv), meshwork::Main,
                          meshwork::IsNotInternal);
}
