// processes: the cost of several processes, compared with the engine that carries their data and with one process. See
// --help.
//
// Exit code 2: the input is wrong; 1: a step failed or computed another loss.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "benchmarks/processes/direct.h"
#include "examples/support/mlp.h"
#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/executor.h"
#include "meshwork/runtime/transport/connect.h"

namespace meshwork {
namespace {

constexpr int64_t kMost = 1 << 20;
constexpr double kLossTolerance = 1e-3;
constexpr std::chrono::milliseconds kPause{2};  // time in which waiting threads fall asleep

struct Options {
  std::string sizes = "8 4096 4194304 67108864", batches = "128 1024", mesh = "batch=8", json;
  int64_t rounds = 7, calls = 10;
  JoinOptions join;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "processes",
      "Times all-reduces over the processes beside the same call of MPI or Gloo, and the training step of\n"
      "mlp_mnist beside that of one process with all devices, and as a step that changes nothing where it\n"
      "fails (ExecutorOptions::atomic) beside one that does. Both of a pair take turns, a round of calls each.\n"
      " Start it by mpirun, or by examples/multi_worker/launch, with all processes on one host.");
  flags.Text("sizes", "bytes of the all-reduces, f32: a list with spaces", &o.sizes);
  flags.Text("batches", "examples of the steps: a list with spaces", &o.batches);
  flags.Text("mesh", "of the steps", &o.mesh);
  flags.Int("rounds", "of each", &o.rounds, 1, kMost);
  flags.Int("calls", "of a round, after two that are not timed", &o.calls, 1, kMost);
  flags.Text("json", "writes what was measured as JSON into this file; -: to standard output, and no table",
             &o.json);
  AddJoinFlags(flags, &o.join);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

absl::StatusOr<std::vector<int64_t>> Numbers(const std::string& text, const std::string& flag) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (int64_t number = 0; in >> number;) {
    if (number < 1) return InvalidArgument("--{}: {} is less than 1.", flag, number);
    numbers.push_back(number);
  }
  if (!in.eof()) return InvalidArgument("--{}: \"{}\" is no list of whole numbers.", flag, text);
  return numbers;
}

// Seconds per call in each round: ours, and the other's directly after it.
struct Pairs {
  std::vector<double> ours, others, ratios;

  void Add(double our_seconds, double other_seconds) {
    ours.push_back(our_seconds);
    others.push_back(other_seconds);
    ratios.push_back(our_seconds / other_seconds);
  }
};

// The chief's output: a table, or JSON.
class Report {
 public:
  explicit Report(const Options& o) : json_(o.json) {}

  void Head(const std::string& what, const std::string& other) {
    if (json_ != "-") fmt::print("{:<28} {:>12} {:>12} {:>8}\n", what, "meshwork ms", other + " ms", "ratio");
  }
  // Medians. `list`: "steps", of the JSON; `unit`: of `amount`.
  void Add(const std::string& list, const std::string& unit, int64_t amount, const Pairs& pairs) {
    const double ours = 1e3 * Median(pairs.ours), other = 1e3 * Median(pairs.others),
                 ratio = Median(pairs.ratios);
    entries_[list].push_back({{unit, amount}, {"ms", ours}, {"beside_ms", other}, {"ratio", ratio}});
    if (json_ == "-") return;
    fmt::print("{:<28} {:>12.4f} {:>12.4f} {:>8.2f}\n", fmt::format("{} {}", amount, unit), ours, other,
               ratio);
    std::fflush(stdout);
  }
  absl::Status Write() const {
    if (json_.empty() || entries_.empty()) return absl::OkStatus();
    if (json_ != "-") return WriteFileAtomically(json_, entries_.dump(2) + "\n");
    fmt::print("{}\n", entries_.dump(2));
    return absl::OkStatus();
  }

 private:
  const std::string json_;
  nlohmann::ordered_json entries_;
};

// The median time of a call, after two that are not timed.
absl::StatusOr<double> Time(int64_t calls, const Call& call) {
  std::vector<double> seconds;
  absl::Status status;
  for (int64_t i = 0; i < calls + 2; ++i) {
    const double took = Seconds([&] { status = call(); });
    MESHWORK_RETURN_IF_ERROR(status);
    if (i >= 2) seconds.push_back(took);
  }
  return Median(std::move(seconds));
}

// ---- All-reduces.

// One term of n elements in each process; everyone gets their sum.
constexpr std::string_view kAllReduce = R"(mesh [x={processes}]
func step(var %a: f32[{processes},{n}] {{x,_}}, var %b: f32[1,{n}] {{_,_}}) {{
  %y = manual %a (%block: f32[1,{n}] {{x,_}}) {{
    %0 = device_all_reduce %block axes=(x) op=sum
    %1 = device_block %0 {{_,_}}
    return %1
  }}
  update %b = %y
}})";

absl::StatusOr<double> TimeOurs(const Processes& processes, int64_t bytes, int64_t calls) {
  const int64_t domains = processes.cluster().num_processes();
  const int64_t n = std::max<int64_t>(1, bytes / DTypeSize(F32));
  MESHWORK_ASSIGN_OR_RETURN(
      const Graph graph,
      ParseGraph(fmt::format(fmt::runtime(kAllReduce), fmt::arg("processes", domains), fmt::arg("n", n))));
  MESHWORK_ASSIGN_OR_RETURN(const Program program, Compile(graph, {.num_domains = domains}));
  CpuBackend backend(1);
  std::map<std::string, DTensor> variables;
  MESHWORK_ASSIGN_OR_RETURN(
      const std::unique_ptr<Executor> executor,
      Executor::Create(program, backend,
                       {.poison_padding = false, .check_replicas = false, .transport = processes.transport()},
                       &variables));
  MESHWORK_RETURN_IF_ERROR(
      Pack(Tensor::From<float>({domains, n}, std::vector<float>(domains * n, 1.0F)), variables.at("a")));
  MESHWORK_ASSIGN_OR_RETURN(BoundStep step, executor->Bind({}, {}));
  MESHWORK_ASSIGN_OR_RETURN(const double seconds, Time(calls, [&] { return step.Run(); }));
  MESHWORK_ASSIGN_OR_RETURN(const Tensor sum, Unpack(variables.at("b")));
  for (const float x : sum.values<float>())
    if (x != static_cast<float>(domains))
      return absl::InternalError(fmt::format("the sum of {} ones is {}.", domains, x));
  return seconds;
}

absl::StatusOr<std::unique_ptr<DirectEngine>> EngineBeside(const Options& o) {
  // MPI is initialised by the first transport.
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(o.join));
  if (processes.is_alone()) return InvalidArgument("There is one process; start several (--help).");
  const Cluster& cluster = processes.cluster();
  const bool is_auto = o.join.transport == NameOf(Engine::kAuto);
  if (NameOf(Engine::kMpi) == (is_auto ? NameOf(AutoEngine(cluster)) : o.join.transport))
    return MakeDirectMpi();
  std::string meeting = std::filesystem::temp_directory_path() / "meshwork-processes-XXXXXX";
  if (processes.is_chief() && mkdtemp(meeting.data()) == nullptr) {
    const absl::Status status = absl::InternalError(fmt::format("{} cannot be made.", meeting));
    processes.transport()->Abort(status);
    return status;
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> meetings,
                            processes.transport()->AllGather("the meeting", meeting));
  absl::StatusOr<std::unique_ptr<DirectEngine>> engine = MakeDirectGloo(cluster, meetings[0]);
  MESHWORK_RETURN_IF_ERROR(
      Agree(*processes.transport(), "Gloo",
            engine.status().ok() ? absl::StatusOr<std::string>("connected") : engine.status()));
  if (processes.is_chief()) std::filesystem::remove_all(meeting);
  return engine;
}

// The engine's calls must not run beside ours. A transport's own thread may make calls as long as the transport lives:
// so each round has a transport of its own.
absl::Status CompareAllReduces(const Options& o, const std::vector<int64_t>& sizes, Report& report) {
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<DirectEngine> engine, EngineBeside(o));
  bool is_chief = false;
  for (const int64_t bytes : sizes) {
    Pairs pairs;
    for (int64_t round = 0; round < o.rounds; ++round) {
      double ours = 0, direct = 0;
      {
        MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(o.join));
        is_chief = processes.is_chief();
        MESHWORK_RETURN_IF_ERROR(processes.Run([&]() -> absl::Status {
          MESHWORK_ASSIGN_OR_RETURN(ours, TimeOurs(processes, bytes, o.calls));
          return absl::OkStatus();
        }));
      }
      MESHWORK_RETURN_IF_ERROR(engine->AllReduce(bytes, [&](const Call& call) -> absl::Status {
        MESHWORK_ASSIGN_OR_RETURN(direct, Time(o.calls, call));
        return absl::OkStatus();
      }));
      pairs.Add(ours, direct);
    }
    if (!is_chief) continue;
    if (bytes == sizes[0]) report.Head("all-reduce of f32", engine->name());
    report.Add("all_reduces", "bytes", bytes, pairs);
  }
  return absl::OkStatus();
}

// ---- Steps.

// The other processes, which must be on this host. The chief stops them while it measures alone, because MPI's waiting
// threads spin.
class Others {
 public:
  static absl::StatusOr<Others> Find(const Processes& processes) {
    MESHWORK_ASSIGN_OR_RETURN(
        const std::vector<std::string> all,
        processes.transport()->AllGather("processes", fmt::format("{} {}", getpid(), processes.Name())));
    const auto host_of = [](const std::string& name) { return name.substr(name.rfind(" on ")); };
    Others others;
    for (size_t p = 1; p < all.size(); ++p) {
      if (host_of(all[p]) != host_of(all[0]))
        return InvalidArgument("The processes are on several hosts; start all of them on one.");
      if (processes.is_chief()) others.ids_.push_back(std::stoi(all[p]));
    }
    return others;
  }
  ~Others() { Signal(SIGCONT); }
  Others(Others&&) = default;

  void Signal(int signal) const {
    for (const pid_t id : ids_) kill(id, signal);
  }

 private:
  Others() = default;
  std::vector<pid_t> ids_;  // of the chief: the others
};

absl::StatusOr<Session> MlpSession(const Mesh& mesh, int64_t batch, SessionOptions options) {
  Graph graph(mesh);
  BuildMlp(graph, batch, {}, Adam({.learning_rate = 1e-3}));
  return Session::Create(graph, options);
}

absl::Status CompareSteps(const Options& o, const Processes& processes, const Others& others, int64_t batch,
                          Report& report) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(o.mesh));
  SessionOptions options;
  processes.Use(options);
  MESHWORK_ASSIGN_OR_RETURN(Session shared, MlpSession(mesh, batch, options));
  const Dataset digits = SyntheticDigits(/*train=*/batch, /*test=*/0, /*seed=*/1, F32).value().train;
  const Batch data = *digits.Batches({.batch_size = batch}).begin();
  const Feeds feeds = {{"images", data["image"]}, {"labels", data["label"]}};
  double loss = 0;
  const auto step = [&](Session& session) -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Run(feeds));
    MESHWORK_ASSIGN_OR_RETURN(loss, result.scalar("loss"));
    return absl::OkStatus();
  };
  std::optional<Session> alone;
  if (processes.is_chief()) {
    MESHWORK_ASSIGN_OR_RETURN(Session made, MlpSession(mesh, batch, {}));
    alone.emplace(std::move(made));
  }
  Pairs pairs;
  for (int64_t round = 0; round < o.rounds; ++round) {
    MESHWORK_ASSIGN_OR_RETURN(const double ours, Time(o.calls, [&] { return step(shared); }));
    const double shared_loss = loss;
    MESHWORK_RETURN_IF_ERROR(Agree(*processes.transport(), "the turn", std::string("yours")));
    if (!alone) continue;
    others.Signal(SIGSTOP);
    std::this_thread::sleep_for(kPause);
    const absl::StatusOr<double> whole = Time(o.calls, [&] { return step(*alone); });
    others.Signal(SIGCONT);
    MESHWORK_RETURN_IF_ERROR(whole.status());
    if (!(std::abs(loss - shared_loss) <= kLossTolerance))
      return absl::InternalError(
          fmt::format("the loss is {} in one process and {} in all.", loss, shared_loss));
    pairs.Add(ours, *whole);
  }
  if (processes.is_chief()) report.Add("steps", "examples", batch, pairs);
  return absl::OkStatus();
}

// Compares atomic steps with steps in place.
absl::Status CompareAtomic(const Options& o, const Processes& processes, int64_t batch, Report& report) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::VirtualCpus(o.mesh));
  SessionOptions options;
  processes.Use(options);
  const Dataset digits = SyntheticDigits(/*train=*/batch, /*test=*/0, /*seed=*/1, F32).value().train;
  const Batch data = *digits.Batches({.batch_size = batch}).begin();
  std::vector<Session> sessions;
  std::vector<BoundStep> steps;
  for (const bool atomic : {true, false}) {
    options.executor.atomic = atomic;
    MESHWORK_ASSIGN_OR_RETURN(Session session, MlpSession(mesh, batch, options));
    MESHWORK_ASSIGN_OR_RETURN(BoundStep step,
                              session.Bind({{"images", data["image"]}, {"labels", data["label"]}}));
    sessions.push_back(std::move(session));
    steps.push_back(std::move(step));
  }
  Pairs pairs;
  for (int64_t round = 0; round < o.rounds; ++round) {
    MESHWORK_ASSIGN_OR_RETURN(const double atomic, Time(o.calls, [&] { return steps[0].Run(); }));
    MESHWORK_ASSIGN_OR_RETURN(const double plain, Time(o.calls, [&] { return steps[1].Run(); }));
    pairs.Add(atomic, plain);
  }
  if (processes.is_chief()) report.Add("atomic", "examples", batch, pairs);
  return absl::OkStatus();
}

absl::Status Run(const Options& o) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Numbers(o.sizes, "sizes"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> batches, Numbers(o.batches, "batches"));
  Report report(o);
  if (!sizes.empty()) MESHWORK_RETURN_IF_ERROR(CompareAllReduces(o, sizes, report));
  if (batches.empty()) return report.Write();
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(o.join));
  if (processes.is_alone()) return InvalidArgument("There is one process; start several (--help).");
  return processes.Run([&]() -> absl::Status {
    MESHWORK_ASSIGN_OR_RETURN(const Others others, Others::Find(processes));
    if (processes.is_chief()) report.Head(fmt::format("step of mlp_mnist, {}", o.mesh), "one process");
    for (const int64_t batch : batches)
      MESHWORK_RETURN_IF_ERROR(CompareSteps(o, processes, others, batch, report));
    if (processes.is_chief()) report.Head("step that takes effect as a whole", "plain");
    for (const int64_t batch : batches) MESHWORK_RETURN_IF_ERROR(CompareAtomic(o, processes, batch, report));
    return report.Write();
  });
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("processes", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
