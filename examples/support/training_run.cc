#include "examples/support/training_run.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <system_error>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/train/cluster/on_gpus.h"
#include "meshwork/train/fit/find_nan.h"

namespace meshwork {
namespace {

constexpr int64_t kMostWorkers = 1024, kMostKept = 1 << 20;
constexpr int64_t kTracedSteps = 10, kTracedDeviceSteps = 5120;

// The file for --profile's trace; empty if it only prints.
std::string TraceFile(const RunOptions& options) {
  return options.profile == "on" || options.profile == "off" ? "" : options.profile;
}

// Writes each pass's program as DIR/03_propagate.mw.
class Dumper {
 public:
  explicit Dumper(std::string dir) : dir_(std::move(dir)) {}
  void operator()(std::string_view pass, const Graph& graph) {
    const std::string path = fmt::format("{}/{:02}_{}.mw", dir_, count_++, pass);
    if (status_.ok()) status_ = WriteFileAtomically(path, PrintGraph(graph));
  }
  const absl::Status& status() const { return status_; }

 private:
  std::string dir_;
  int count_ = 0;
  absl::Status status_;
};

// A trace has an event per device and instruction: with many devices, few steps already make a large file.
int TraceSteps(const Mesh& mesh) {
  return static_cast<int>(std::clamp<int64_t>(kTracedDeviceSteps / mesh.num_devices(), 1, kTracedSteps));
}

// Creates the folder that a flag names, if any, and tries whether `file` can be written there.
absl::Status MakeFolder(std::string_view flag, const std::string& folder, std::string_view file) {
  if (folder.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return InvalidArgument("{}: cannot make the folder {}: {}.", flag, folder, error.message());
  return CheckWritable(fmt::format("{}/{}", folder, file));
}

// Traces are gathered from all processes, and all write checkpoints: a process without the flag would block the others.
absl::Status AgreeOnFlags(const RunOptions& options) {
  Transport* const transport = options.processes->transport();
  if (transport == nullptr) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(Agree(*transport, "--profile",
                                 std::string(TraceFile(options).empty() ? "names no file" : "names a file")));
  return Agree(*transport, "--checkpoint-dir",
               std::string(options.checkpoint_dir.empty() ? "is not given" : "is given"));
}

// The standard output of a process that is not the chief goes to its log, "worker-1.log", or is dropped.
absl::Status MoveOutput(const RunOptions& options) {
  const Processes& processes = *options.processes;
  std::string path = "/dev/null";
  if (!options.log_dir.empty()) {
    const Task& task = processes.cluster().task();
    const std::string name = fmt::format("{}-{}.log", NameOf(task.role), task.index);
    MESHWORK_RETURN_IF_ERROR(MakeFolder("--log-dir", options.log_dir, name));
    path = fmt::format("{}/{}", options.log_dir, name);
  }
  const int start = processes.generation() == 0 ? O_TRUNC : O_APPEND;  // keeps the output from before a loss
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | start, 0666);
  std::fflush(stdout);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0)
    return InvalidArgument("--log-dir: cannot write to {}: {}.", path,
                           std::generic_category().message(errno));
  close(file);
  fmt::print("{}, of {} processes\n", processes.Name(), processes.cluster().num_processes());
  return absl::OkStatus();
}

// For processes that are not the chief.
void WriteNoFiles(RunOptions& options) {
  options.json = options.plot = options.dump = "";
  if (TraceFile(options).empty()) options.profile = "off";
  options.explain = false;
}

thread_local std::FILE* out_of_thread = stdout;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using UniqueFile = std::unique_ptr<std::FILE, CloseFile>;

// The original standard output: a process may become the chief when others are lost.
class Output {
 public:
  Output() : first_(dup(STDOUT_FILENO)) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (first_ >= 0) close(first_);
  }
  void Restore() const {
    std::fflush(stdout);
    if (first_ >= 0) dup2(first_, STDOUT_FILENO);
  }

 private:
  const int first_;
};

// The mesh with its first axis shortened until the processes can share it; nothing if no length works.
std::optional<Mesh> ShortenedFor(const Cluster& cluster, const Mesh& mesh) {
  for (int64_t size = mesh.num_axes() > 0 ? mesh.axis(0).size - 1 : 0; size >= 1; --size) {
    std::vector<std::string> axes = {fmt::format("{}={}", mesh.axis(0).name, size)};
    for (int a = 1; a < mesh.num_axes(); ++a)
      axes.push_back(fmt::format("{}={}", mesh.axis(a).name, mesh.axis(a).size));
    absl::StatusOr<Mesh> shorter = Mesh::VirtualCpus(fmt::format("{}", fmt::join(axes, ",")));
    if (shorter.ok() && Placement::Create(*shorter, cluster).ok()) return *std::move(shorter);
  }
  return std::nullopt;
}

double Median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::FILE* Out() { return out_of_thread; }

void AddRunFlags(FlagTable& flags, const std::string& axes, const std::string& seed_of, RunOptions* options) {
  flags.Text("mesh", axes, &options->mesh);
  flags.Text("devices", std::string(kDevicesHelp), &options->devices);
  flags.Choice("precision",
               "of activations and products: full, as the weights; tf32, for products of f32 on a\n"
               "GPU; bf16, while weights, the optimizer's state and the loss stay",
               &options->precision, {"full", "tf32", "bf16"});
  flags.Int("seed", seed_of, &options->seed, 0);
  flags.Int("workers", "threads; 0: one per core", &options->workers, 0, kMostWorkers);
  flags.Text("json", "writes what was measured as one JSON object", &options->json);
  flags.Text("plot", "draws what was measured over the steps into this SVG file", &options->plot);
  flags.Text(
      "profile",
      "on: prints at the end where the time of the full steps went; a file name: prints it, and\n"
      "                     writes when what ran in the last steps, in all processes, for ui.perfetto.dev",
      &options->profile);
  flags.Switch(
      "explain",
      "prints each collective with its cause, where layouts disagree, and the memory of a step, before\n"
      "                     training",
      &options->explain);
  flags.Switch(
      "shard-weight-update",
      "keeps the optimizer's state in blocks over \"batch\" (ZeRO stage 1); the weights are the same",
      &options->shard_weight_update);
  flags.Text("dump", "writes the program after every pass into this folder", &options->dump);
  flags.Text("checkpoint-dir",
             "writes checkpoints into this folder, which all processes see, and a last one on SIGTERM",
             &options->checkpoint_dir);
  flags.Text("checkpoint-every", "how often: seconds, as 600s, or steps, as 100steps",
             &options->checkpoint_every);
  flags.Int("keep-checkpoints", "so many stay, the newest ones", &options->keep_checkpoints, 1, kMostKept);
  flags.Switch("resume", "goes on from the newest checkpoint in --checkpoint-dir, if there is one",
               &options->resume);
  flags.Int(
      "stop-exit-code",
      "the exit code after SIGTERM or Ctrl-C and the last checkpoint; 75 lets Kubernetes start the job again",
      &options->stop_exit_code, 0, 255);
  AddJoinFlags(flags, &options->join);
  flags.Switch("deterministic", "the same bits on however many processes, for more bytes between them",
               &options->deterministic);
  flags.Text(
      "check-replicas",
      "every=N: each N-th step compares, bit by bit, what all processes hold of the same weights, and ends\n"
      "                     training where they differ",
      &options->check_replicas);
  flags.Switch("debug-nans",
               "ends training when the loss is no number, and names the line of the first op that made one",
               &options->debug_nans);
  flags.Text("log-dir", "processes other than the chief write what they print into this folder",
             &options->log_dir);
}

absl::Status CheckRunFlags(RunOptions& options) {
  if (options.profile.empty()) options.profile = "off";
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckDevices(options.devices), "--devices: "));
  MESHWORK_RETURN_IF_ERROR(CheckpointEvery(options.checkpoint_every).status());
  if (options.resume && options.checkpoint_dir.empty())
    return InvalidArgument("--resume: there is no --checkpoint-dir; it names the folder to go on from.");
  return absl::OkStatus();
}

absl::StatusOr<CheckpointOptions> CheckpointEvery(const std::string& text) {
  CheckpointOptions every;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error == std::errc() && number >= 1 && unit == "s") every.seconds = static_cast<double>(number);
  else if (error == std::errc() && number >= 1 && unit == "steps") every.steps = number;
  else
    return InvalidArgument(
        "--checkpoint-every: \"{}\" is no length of time; give seconds, as 600s, or steps, as 100steps.",
        text);
  return every;
}

absl::Status CheckOutputs(const RunOptions& options, const NamedFiles& others) {
  if (!options.is_chief()) return absl::OkStatus();
  NamedFiles files = others;
  files.insert(files.end(),
               {{"--json", options.json}, {"--plot", options.plot}, {"--profile", TraceFile(options)}});
  std::map<std::filesystem::path, std::string_view> flags;
  for (const auto& [flag, path] : files) {
    if (path.empty()) continue;
    std::error_code ignored;
    const auto [other, is_new] = flags.emplace(std::filesystem::weakly_canonical(path, ignored), flag);
    if (!is_new)
      return InvalidArgument("{} and {} are the same file, {}; one would overwrite the other.", other->second,
                             flag, path);
  }
  for (const auto& [flag, path] : files)
    if (!path.empty()) MESHWORK_RETURN_IF_ERROR(CheckWritable(path));
  return absl::OkStatus();
}

absl::StatusOr<Mesh> MeshOf(const RunOptions& options) {
  absl::StatusOr<Mesh> mesh = Mesh::VirtualCpus(options.mesh);
  if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
  const Processes& processes = *options.processes;
  const absl::Status shared = Placement::Create(*mesh, processes.cluster()).status();
  if (shared.ok()) return mesh;
  if (processes.cluster().num_processes() < processes.num_wanted()) {
    if (std::optional<Mesh> shorter = ShortenedFor(processes.cluster(), *mesh)) {
      if (options.is_chief())
        fmt::print(stderr, "{} processes cannot share the mesh {} evenly; the training goes on on {}.\n",
                   processes.cluster().num_processes(), mesh->ToString(), shorter->ToString());
      return *std::move(shorter);
    }
  }
  return Annotate(shared, "--mesh: ");
}

absl::StatusOr<Session> CreateSession(const Graph& graph, const RunOptions& options) {
  MESHWORK_RETURN_IF_ERROR(MakeFolder("--dump", options.dump, "00.mw"));
  Dumper dumper(options.dump);
  SessionOptions session_options{
      .devices = options.devices, .workers = static_cast<int>(options.workers), .seed = options.seed};
  options.processes->Use(session_options);
  session_options.compile.deterministic = options.deterministic;
  session_options.compile.shard_weight_update = options.shard_weight_update;
  if (!options.dump.empty()) session_options.compile.dump = std::ref(dumper);
  session_options.executor.atomic |= options.debug_nans;  // to go back a step
  if (options.precision == "tf32") session_options.executor.matmul_precision = MatmulPrecision::kTf32;
  session_options.executor.profile = options.profile != "off";
  session_options.executor.trace_steps = TraceFile(options).empty() ? 0 : TraceSteps(graph.mesh());
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(graph, std::move(session_options)));
  MESHWORK_RETURN_IF_ERROR(dumper.status());
  return session;
}

absl::StatusOr<ReplicaCheck> MakeReplicaCheck(const RunOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t every, ParseReplicaCheck(options.check_replicas));
  return ReplicaCheck::Create(*options.processes, every);
}

absl::Status CheckLoss(Session& session, const Feeds& feeds, int64_t step, double loss,
                       const RunOptions& options) {
  if (!options.debug_nans || std::isfinite(loss)) return absl::OkStatus();
  return absl::OutOfRangeError(fmt::format("the loss of step {} is {}. {}", step,
                                           std::isnan(loss) ? "NaN" : "infinite",
                                           UndoAndExplainNan(session, feeds)));
}

void PrintStep(const Session& session, const RunOptions& options) {
  const Graph& local = session.program().body;
  if (const int64_t processes = options.processes->cluster().num_processes(); processes > 1)
    fmt::print(Out(), "  {} of {}\n", options.processes->HowMany(),
               Count(local.mesh().num_devices() / processes, "device"));
  for (const CollectiveSummary& c : SummarizeCollectives(local))
    fmt::print(Out(), "  each step: {} {} over {}, {} B on the wire per device\n", c.count, c.type, c.axes,
               c.bytes);
  if (options.explain)
    fmt::print(Out(), "\n{}\nmemory: {}\n", session.Explain({.search = true}),
               PrintMemoryReport(local, ReportMemory(local)));
}

absl::Status WriteProfile(const Session& session, const RunOptions& options) {
  if (options.profile != "off" && options.is_chief())
    fmt::print("\n{}\n{}", session.Profile().ToString(), session.Profile().ByOp().ToString());
  const std::string file = TraceFile(options);
  if (file.empty()) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(const Trace trace, options.processes->GatherTrace(session.Trace()));
  return options.is_chief() ? WriteFileAtomically(file, trace.ToJson()) : absl::OkStatus();
}

// Field 22 of proc(5)'s stat. The name in field 2 may contain anything, even blanks and brackets.
std::optional<double> SecondsSinceProcessStart() {
  constexpr int kStartTime = 22, kAfterName = 3;
  std::ifstream file("/proc/self/stat");
  std::string stat;
  std::getline(file, stat);
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = kAfterName; i <= kStartTime; ++i) fields >> field;
  timespec now{};
  if (!fields || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const double started = std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
}

nlohmann::ordered_json DescribeRun(const Session& session, int64_t parameters,
                                   std::optional<double> startup_seconds, std::vector<double> step_seconds) {
  const Mesh& mesh = session.program().body.mesh();
  nlohmann::ordered_json json;
  json["mesh"] = mesh.ToString();
  json["devices"] = mesh.num_devices();
  json["parameters"] = parameters;
  json["startup_seconds"] = nullptr;  // where there was no step
  if (startup_seconds.has_value()) json["startup_seconds"] = *startup_seconds;
  json["step_ms"] = nullptr;
  if (!step_seconds.empty()) json["step_ms"] = Median(std::move(step_seconds)) * 1e3;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  json["peak_rss_mb"] = static_cast<double>(usage.ru_maxrss) / 1024;
  json["collectives"] = nlohmann::ordered_json::array();
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    json["collectives"].push_back(
        {{"type", c.type}, {"axes", c.axes}, {"count", c.count}, {"bytes", c.bytes}});
  return json;
}

std::vector<Series> WithMovingMean(Series steps) {
  const int64_t window = std::ssize(steps.points) / 20;
  if (window <= 1) return {std::move(steps)};
  Series mean{.name = fmt::format("mean of {} steps", window),
              .points = MovingMean(steps.points, window),
              .paint = steps.paint};
  steps.style = LineStyle::kFaint;
  return {std::move(steps), std::move(mean)};
}

absl::Status WriteLossPlot(const std::string& path, std::string title, std::string note, int64_t first_step,
                           const std::vector<double>& losses) {
  Series train{.name = "train", .paint = 0};
  for (double loss : losses)
    train.points.push_back({static_cast<double>(first_step + std::ssize(train.points)), loss});
  Panel panel{.title = "Loss", .series = WithMovingMean(std::move(train))};
  LineChart chart{.title = std::move(title), .note = std::move(note), .x_label = "step"};
  chart.panels.push_back(std::move(panel));
  return WriteFileAtomically(path, chart.ToSvg());
}

absl::Status RunWithOthers(RunOptions& options, const std::function<absl::Status()>& body) {
  MESHWORK_RETURN_IF_ERROR(ParseReplicaCheck(options.check_replicas).status());
  MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(options.join));
  options.processes = &processes;
  const RunOptions asked = options;
  const Output output;
  return processes.Run([&]() -> absl::Status {
    options = asked;
    output.Restore();
    MESHWORK_RETURN_IF_ERROR(AgreeOnFlags(options));
    if (!processes.is_chief() && !processes.is_evaluator()) {
      MESHWORK_RETURN_IF_ERROR(MoveOutput(options));
      WriteNoFiles(options);
    }
    return body();
  });
}

absl::Status RunOnGpus(const RunOptions& options,
                       const std::function<absl::Status(const RunOptions&)>& body) {
  MESHWORK_RETURN_IF_ERROR(ParseReplicaCheck(options.check_replicas).status());
  const UniqueFile nowhere(std::fopen("/dev/null", "w"));
  return OnEachGpu(options.devices, options.join, [&](Processes& domains, const std::string& device) {
    RunOptions mine = options;
    mine.processes = &domains;
    mine.devices = device;
    if (!domains.is_chief()) {
      if (nowhere != nullptr) out_of_thread = nowhere.get();
      WriteNoFiles(mine);
    }
    return body(mine);
  });
}

namespace {

std::atomic<int> exit_code_of_success = 0;

// As in meshwork's commands: 2 if the same error would happen again, so that meshwork supervise does not restart it.
int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return exit_code_of_success;
    case absl::StatusCode::kResourceExhausted:  // memory, or the disk
    case absl::StatusCode::kUnavailable:        // another process is lost
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal: return 1;
    default: return 2;
  }
}

}  // namespace

void EndWith(int exit_code) { exit_code_of_success = exit_code; }

int RunMain(std::string_view program, const std::function<absl::Status()>& run) {
  std::signal(SIGPIPE, SIG_IGN);  // training goes on when its report is no longer read
  absl::Status status;
  try {
    status = run();
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(
        "there is not enough memory; take less data, a smaller model or smaller batches.");
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(fmt::format("the system refused a resource: {}.", error.what()));
  }
  if (!status.ok()) fmt::print(stderr, "{}: {}\n", program, PrintableLines(MessageOf(status)));
  return ExitCode(status);
}

}  // namespace meshwork
