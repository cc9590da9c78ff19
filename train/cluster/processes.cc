#include "meshwork/train/cluster/processes.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/cores.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/log.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/worker_pool.h"
#include "meshwork/runtime/transport/connect.h"
#include "meshwork/runtime/transport/meeting.h"
#include "meshwork/runtime/transport/membership.h"
#include "meshwork/runtime/transport/timed.h"
#include "meshwork/train/cluster/link_file.h"

namespace meshwork {
namespace {

constexpr Engine kEngines[] = {Engine::kAuto, Engine::kMpi, Engine::kGloo};
constexpr int64_t kMostSeconds = 24 * 60 * 60;
using std::chrono::milliseconds;
using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr milliseconds kPause(50), kLongPause(1000);  // of processes that met and could not connect
constexpr milliseconds kLook(50);                     // between two looks at who has finished
constexpr seconds kFarewell(2);                       // for those that look, when the rendezvous is to end

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (Engine engine : kEngines) names.emplace_back(NameOf(engine));
  return names;
}

absl::StatusOr<Engine> EngineOf(std::string_view name) {
  for (Engine engine : kEngines)
    if (NameOf(engine) == name) return engine;
  return InvalidArgument("Join: there is no transport \"{}\"; there are {}.", name,
                         fmt::join(EngineNames(), ", "));
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// Whether a process is lost, or cannot be reached.
bool IsLoss(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

// Why the transport is aborted; OK if it is not.
absl::Status LossOf(Transport& transport) { return transport.Prepare({.where = "nothing"}).status(); }

// The host and the cores that this process may use: "host-a 0,1,2,3".
std::string HostAndCores() { return fmt::format("{} {}", HostName(), fmt::join(UsableCores(), ",")); }

}  // namespace

absl::StatusOr<Cluster> FindCluster(const std::string& from, const Environment& environment) {
  if (from == "off") return Cluster();
  if (from == "auto") return Cluster::FromEnvironment(environment);
  if (from == "mpi") return Cluster::FromLauncher(environment);
  if (from == "tf_config") {
    if (const std::optional<std::string> text = environment("TF_CONFIG")) return Cluster::FromTfConfig(*text);
    return InvalidArgument("TF_CONFIG is not set.");
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(from));
  return Cluster::FromFile(text, from, environment);
}

void AddJoinFlags(FlagTable& flags, JoinOptions* options) {
  options->by_flags = true;
  flags.Text("cluster",
             "the processes that share the mesh: auto, as mpirun, srun or TF_CONFIG say; mpi; tf_config;\n"
             "                     off; or a JSON file (docs/distributed.md)",
             &options->cluster);
  flags.Switch("insecure", "processes on several hosts need no MESHWORK_TOKEN: everybody may take part",
               &options->insecure);
  flags.Choice("transport", "what carries data between processes", &options->transport, EngineNames());
  flags.Int("deadline", "seconds that a process waits for another one", &options->deadline_seconds, 1,
            kMostSeconds);
  flags.Choice(
      "recover",
      "when a process is lost, by Gloo: the others end; wait for one in its place; or go on without it\n"
      "                    ",
      &options->recover, {"off", "wait", "shrink"});
  flags.Int("recover-deadline", "seconds that they wait for each other then", &options->recover_seconds, 1,
            kMostSeconds);
  flags.Text(
      "link-file",
      "how fast the processes reach each other, as this file says; where it is missing, it is measured\n"
      "                     and written",
      &options->link_file);
}

struct Processes::Meeting {
  Meeting(std::unique_ptr<Rendezvous> at, const MembersOptions& options)
      : rendezvous(std::move(at)), members(*rendezvous, options) {}

  std::unique_ptr<Rendezvous> rendezvous;
  Members members;
};

absl::StatusOr<Processes> Processes::Join(const JoinOptions& options, const Environment& environment) {
  Processes joined;
  joined.options_ = options;
  absl::StatusOr<Cluster> cluster = FindCluster(options.cluster, environment);
  if (!cluster.ok()) return Annotate(cluster.status(), options.by_flags ? "--cluster: " : "Join: ");
  joined.whole_ = joined.cluster_ = *std::move(cluster);
  if (!joined.is_alone() || joined.is_evaluator()) SetLogTask(joined.cluster_.task().ToString());
  MESHWORK_ASSIGN_OR_RETURN(joined.connect_.engine, EngineOf(options.transport));
  joined.connect_.deadline = std::chrono::seconds(options.deadline_seconds);
  joined.connect_.meeting.rendezvous = environment("MESHWORK_RENDEZVOUS").value_or("");
  joined.connect_.meeting.token = environment("MESHWORK_TOKEN").value_or("");
  joined.connect_.meeting.insecure = options.insecure;
  joined.connect_.meeting.tls = options.tls.any() ? options.tls : TlsFilesOf(environment);
  if (joined.is_evaluator() && options.may_evaluate) return joined;
  MESHWORK_RETURN_IF_ERROR(joined.Meet());
  MESHWORK_RETURN_IF_ERROR(joined.JoinGeneration());
  return joined;
}

Processes Processes::Among(Cluster cluster, std::unique_ptr<Transport> transport, std::string name) {
  Processes domain;
  domain.whole_ = domain.cluster_ = std::move(cluster);
  domain.transport_ = MakeTimed(std::move(transport));
  domain.sharers_ = static_cast<int>(domain.transport_->num_domains());
  domain.name_ = std::move(name);
  return domain;
}

absl::Status Processes::Meet() {
  if (options_.recover == "off" || is_alone()) return absl::OkStatus();
  if (connect_.engine == Engine::kAuto) connect_.engine = AutoEngine(cluster_);
  if (connect_.engine == Engine::kMpi)
    return InvalidArgument(
        "{}: MPI ends all processes when one is lost; start the job again from its checkpoint, for example by "
        "meshwork supervise, or take {}gloo.",
        options_.by_flags ? "--recover" : "Join: recover", options_.by_flags ? "--transport " : "transport=");
  if (cluster_.process() < 0) return absl::OkStatus();  // Connect says that it holds no devices
  serves_ = connect_.meeting.rendezvous.empty() && cluster_.process() == 0;
  MESHWORK_ASSIGN_OR_RETURN(
      std::unique_ptr<Rendezvous> rendezvous,
      MeetAt(cluster_, connect_.meeting,
             std::max(connect_.deadline, milliseconds(seconds(options_.recover_seconds)))));
  MESHWORK_ASSIGN_OR_RETURN(connect_.meeting.rendezvous, RendezvousOf(cluster_, connect_.meeting.rendezvous));
  meeting_ = std::make_shared<Meeting>(
      std::move(rendezvous), MembersOptions{.process = cluster_.process(),
                                            .num_processes = cluster_.num_processes(),
                                            .may_shrink = options_.recover == "shrink",
                                            .patience = connect_.deadline,
                                            .deadline = std::chrono::seconds(options_.recover_seconds)});
  return absl::OkStatus();
}

absl::Status Processes::JoinGeneration() {
  const SteadyClock::time_point end = SteadyClock::now() + seconds(options_.recover_seconds);
  for (milliseconds pause = kPause;; pause = std::min(2 * pause, kLongPause)) {
    transport_.reset();
    if (meeting_ != nullptr) {
      MESHWORK_ASSIGN_OR_RETURN(const Membership membership, meeting_->members.Form());
      generation_ = connect_.generation = membership.generation;
      cluster_ = whole_.Among(membership.processes);
    }
    const absl::Status status = ConnectNow();
    if (status.ok() || meeting_ == nullptr || !IsLoss(status) || SteadyClock::now() > end) return status;
    std::this_thread::sleep_for(pause);
  }
}

absl::Status Processes::ConnectNow() {
  MESHWORK_ASSIGN_OR_RETURN(transport_, Connect(cluster_, connect_));
  MESHWORK_RETURN_IF_ERROR(CountSharers());
  if (transport_ == nullptr) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(
      FindSpeed(*transport_, options_.link_file, options_.by_flags ? "--link-file: " : "Join: link_file: "));
  MESHWORK_ASSIGN_OR_RETURN(clock_, AlignClocks(*transport_));
  transport_ = MakeTimed(std::move(transport_));
  return absl::OkStatus();
}

absl::Status Processes::CountSharers() {
  sharers_ = 1;
  if (transport_ == nullptr) return absl::OkStatus();
  const std::string mine = HostAndCores();
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all, transport_->AllGather("cores", mine));
  sharers_ = static_cast<int>(std::count(all.begin(), all.end(), mine));
  return absl::OkStatus();
}

void Processes::Use(SessionOptions& options) const {
  options.executor.transport = transport_.get();
  if (meeting_ != nullptr) options.executor.atomic = true;
  if (is_evaluator()) options.own_cores = false;  // others of its host may train on them
  if (sharers_ == 1) return;
  options.own_cores = false;
  if (options.workers == 0) options.workers = std::max(1, WorkerPool::DefaultWorkers() / sharers_);
}

absl::StatusOr<std::optional<CheckpointNote>> Processes::Recover(Session& session) {
  if (meeting_ == nullptr) return std::nullopt;
  MESHWORK_ASSIGN_OR_RETURN(Recovered recovered, live_.Recover(transport_.get(), session));
  if (!recovered.why_not.empty() && is_chief())
    Log(LogLevel::kWarning, "{}: the variables in memory cannot be taken: {}.", Name(), recovered.why_not);
  return recovered.note;
}

absl::Status Processes::Keep(const Session& session, CheckpointFacts facts) {
  if (meeting_ == nullptr) return absl::OkStatus();
  return live_.Keep(transport_.get(), session, std::move(facts));
}

void Processes::Note(CheckpointFacts facts) {
  if (meeting_ != nullptr) live_.Note(std::move(facts));
}

absl::Status Processes::Run(const std::function<absl::Status()>& body) {
  while (true) {
    absl::Status status = TryRun(body);
    const bool has_finished = status.ok();
    if (has_finished) status = AwaitOthers();
    if (status.ok() || meeting_ == nullptr || !IsLoss(status)) return status;
    Log(LogLevel::kWarning, "{}\n{}: joins the others again.", MessageOf(status), Name());
    status = JoinGeneration();
    // The others knew that all have finished, before one of them was lost.
    if (has_finished && status.code() == absl::StatusCode::kFailedPrecondition) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(status);
    Log(LogLevel::kInfo, "{}: goes on, one of {} processes.", Name(), cluster_.num_processes());
  }
}

absl::Status Processes::TryRun(const std::function<absl::Status()>& body) const {
  if (transport_ == nullptr) return body();
  try {
    absl::Status status = body();
    // An error of the program that looks like a loss. Taken for one, it would come again and again.
    if (meeting_ != nullptr && IsLoss(status) && LossOf(*transport_).ok())
      status = absl::InternalError(std::string(MessageOf(status)));
    return status.ok() ? status : Tell(status);
  } catch (const std::exception& error) {
    Tell(absl::InternalError(fmt::format("it ends by an exception: {}.", error.what()))).IgnoreError();
    throw;
  }
}

absl::Status Processes::AwaitOthers() const {
  if (meeting_ == nullptr || transport_ == nullptr) return absl::OkStatus();
  Members& members = meeting_->members;
  const SteadyClock::time_point end = SteadyClock::now() + seconds(options_.recover_seconds);
  SteadyClock::time_point answered = SteadyClock::now();
  absl::StatusOr<bool> all = false;
  while (SteadyClock::now() < end) {
    all = members.Finish();
    if (all.ok() && *all) break;
    MESHWORK_RETURN_IF_ERROR(LossOf(*transport_));
    // If the rendezvous has ended, this process leaves without knowing of the others.
    if (all.ok()) answered = SteadyClock::now();
    else if (SteadyClock::now() > answered + connect_.deadline) return absl::OkStatus();
    std::this_thread::sleep_for(kLook);
  }
  const SteadyClock::time_point last = SteadyClock::now() + kFarewell;
  do {
    all = members.AllKnow();
    if (!serves_ || !all.ok() || *all) break;
    std::this_thread::sleep_for(kLook);
  } while (SteadyClock::now() < last);
  return absl::OkStatus();
}

absl::Status Processes::Tell(const absl::Status& error) const {
  const absl::Status named = Annotate(error, fmt::format("{}: ", Name()));
  transport_->Abort(named);
  return named;
}

absl::StatusOr<Trace> Processes::GatherTrace(Trace mine) const {
  if (transport_ == nullptr) return mine;
  MESHWORK_ASSIGN_OR_RETURN(const ClockOffset clock, AlignClocks(*transport_));
  if (!mine.events.empty()) mine.origin_ns += OffsetAt(mine.origin_ns, clock_, clock);
  mine.processes = {Name()};
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                            transport_->AllGather("the traces", mine.Encode()));
  if (!is_chief()) return mine;
  std::vector<Trace> traces;
  for (const std::string& bytes : all) {
    MESHWORK_ASSIGN_OR_RETURN(Trace trace, Trace::Decode(bytes));
    traces.push_back(std::move(trace));
  }
  return MergeTraces(traces);
}

std::string Processes::Name() const {
  return name_.empty() ? fmt::format("{} on {}", cluster_.task().ToString(), HostName()) : name_;
}

std::string Processes::HowMany() const {
  return name_.empty() ? fmt::format("{} processes", cluster_.num_processes())
                       : Count(cluster_.num_processes(), "GPU");
}

}  // namespace meshwork
