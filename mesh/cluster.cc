#include "meshwork/mesh/cluster.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr std::array<Role, kNumRoles> kRoles = {Role::kChief, Role::kWorker, Role::kPs, Role::kEvaluator};

std::vector<std::string> NamesOfRoles() {
  std::vector<std::string> names;
  for (Role role : kRoles) names.emplace_back(NameOf(role));
  return names;
}

std::optional<Role> RoleOf(std::string_view name) {
  for (Role role : kRoles)
    if (NameOf(role) == name) return role;
  return std::nullopt;
}

absl::Status UnknownRole(std::string_view where, const std::string& name) {
  return InvalidArgument("{}: there is no role \"{}\"{}", where, name,
                         DidYouMeanOneOf(name, NamesOfRoles(), "roles"));
}

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// ---- TF_CONFIG and files of its form.

// host:port; a host with colons of its own, as IPv6 has them, stands in brackets.
bool IsAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, colon);
  const std::optional<int64_t> port = WholeNumber(text.substr(colon + 1));
  if (!port.has_value() || *port < 1 || *port > 65535) return false;
  if (host.empty() || host.find_first_of(" \t\r\n/") != std::string_view::npos) return false;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string_view name = in_brackets ? host.substr(1, host.size() - 2) : host;
  return name.find_first_of(in_brackets ? "[]" : ":[]") == std::string_view::npos;
}

using Addresses = std::array<std::vector<std::string>, kNumRoles>;

absl::StatusOr<Addresses> ReadAddresses(const JsonReader& roles, std::string_view document) {
  Addresses addresses;
  std::set<std::string> seen;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, roles.Keys());
  for (const std::string& name : names) {
    const std::optional<Role> role = RoleOf(name);
    if (!role.has_value()) return UnknownRole(document, name);
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader list, roles.Get(name));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, list.Items());
    if (std::ssize(items) > Cluster::kMaxProcesses)
      return InvalidArgument("{}: there are {} processes of role \"{}\"; there may be at most {}.", document,
                             items.size(), name, Cluster::kMaxProcesses);
    for (const JsonReader& item : items) {
      MESHWORK_ASSIGN_OR_RETURN(std::string address, item.String());
      if (!IsAddress(address)) return item.Expected("host:port, as \"host-a:4444\" or \"[::1]:4444\"");
      if (!seen.insert(address).second)
        return InvalidArgument("{}: the address {} stands twice; each process has its own.", document,
                               address);
      addresses[static_cast<int>(*role)].push_back(std::move(address));
    }
  }
  return addresses;
}

absl::StatusOr<Task> ReadTask(const JsonReader& json, std::string_view document) {
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys({"type", "index", "trial"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader type, json.Get("type"));
  MESHWORK_ASSIGN_OR_RETURN(const std::string name, type.String());
  const std::optional<Role> role = RoleOf(name);
  if (!role.has_value()) return UnknownRole(document, name);
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader index, json.Get("index"));
  Task task{*role};
  MESHWORK_ASSIGN_OR_RETURN(task.index, index.Integer());
  return task;
}

// "worker:1".
absl::StatusOr<Task> ParseTask(const std::string& text) {
  const size_t colon = text.find(':');
  const std::optional<Role> role = RoleOf(text.substr(0, colon));
  const std::optional<int64_t> index =
      colon == std::string::npos ? std::nullopt : WholeNumber(std::string_view(text).substr(colon + 1));
  if (!role.has_value() || !index.has_value())
    return InvalidArgument(
        "MESHWORK_TASK is \"{}\"; it must be a role and an index, as \"worker:1\"; the roles are {}.", text,
        fmt::join(NamesOfRoles(), ", "));
  return Task{*role, *index};
}

// ---- Launchers.

struct Launched {
  int64_t rank, size;
};

// Reads the two variables of a launcher; nothing if neither is set. Error: a variable that is set and is no
// number.
absl::StatusOr<std::optional<Launched>> ReadLaunched(const Environment& environment,
                                                     const std::string& rank_name,
                                                     const std::string& size_name) {
  const std::optional<std::string> rank = environment(rank_name), size = environment(size_name);
  if (!rank.has_value() && !size.has_value()) return std::nullopt;
  if (!rank.has_value() || !size.has_value())
    return InvalidArgument("{} is set and {} is not; a launcher sets both.",
                           rank.has_value() ? rank_name : size_name,
                           rank.has_value() ? size_name : rank_name);
  const std::optional<int64_t> n = WholeNumber(*size), r = WholeNumber(*rank);
  if (!n.has_value() || *n < 1 || *n > Cluster::kMaxProcesses)
    return InvalidArgument("{} is \"{}\"; it must be a number of processes, 1 to {}.", size_name, *size,
                           Cluster::kMaxProcesses);
  if (!r.has_value() || *r < 0 || *r >= *n)
    return InvalidArgument("{} is \"{}\"; it must be a process of the {} that {} tells, 0 to {}.", rank_name,
                           *rank, *n, size_name, *n - 1);
  return Launched{*r, *n};
}

// The first host of a list as Slurm writes it: "node[07-12,20],gpu3" -> "node07". "" if it is none.
std::string FirstHost(std::string_view list) {
  const size_t end = list.find_first_of("[,");
  std::string host(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return host;
  const std::string_view numbers = list.substr(end + 1);
  const size_t close = numbers.find_first_of("-,]");
  const size_t bracket = numbers.find(']');
  if (close == std::string_view::npos || close == 0 || bracket == std::string_view::npos) return "";
  host += numbers.substr(0, close);
  // What follows the numbers, as in "rack[1-4]-a".
  const std::string_view rest = numbers.substr(bracket + 1);
  host += rest.substr(0, rest.find(','));
  return host.find_first_of("[]") == std::string::npos ? host : "";
}

// The address at which the processes of a job find each other. Jobs on the same hosts have different ports.
std::string SlurmAddress(const Environment& environment) {
  const std::string host = FirstHost(environment("SLURM_STEP_NODELIST").value_or(""));
  const std::optional<int64_t> job = WholeNumber(environment("SLURM_JOB_ID").value_or(""));
  if (host.empty() || !job.has_value() || *job < 0) return "";
  constexpr int64_t kFirstPort = 20000, kPorts = 10000;  // below those that Linux gives to clients
  return fmt::format("{}:{}", host, kFirstPort + *job % kPorts);
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

std::string_view NameOf(Role role) {
  switch (role) {
    case Role::kChief: return "chief";
    case Role::kWorker: return "worker";
    case Role::kPs: return "ps";
    case Role::kEvaluator: return "evaluator";
  }
  return "";
}

std::string Task::ToString() const { return fmt::format("{} {}", NameOf(role), index); }

absl::StatusOr<Cluster> Cluster::FromJsonText(std::string_view text, std::string_view document, Source source,
                                              const std::optional<std::string>& task) {
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, document));
  const JsonReader reader(json, std::string(document));
  MESHWORK_RETURN_IF_ERROR(reader.ExpectKeys({"cluster", "task", "environment", "job", "rpc_layer"}));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader roles, reader.Get("cluster"));
  Cluster cluster;
  cluster.source_ = source;
  MESHWORK_ASSIGN_OR_RETURN(cluster.addresses_, ReadAddresses(roles, document));
  for (int r = 0; r < kNumRoles; ++r) cluster.counts_[r] = std::ssize(cluster.addresses_[r]);
  if (cluster.count(Role::kChief) > 1)
    return InvalidArgument("{}: there are {} chiefs; there is at most one.", document,
                           cluster.count(Role::kChief));
  if (cluster.num_processes() == 0)
    return InvalidArgument("{}: there is no chief and no worker; these hold the devices of the mesh.",
                           document);
  if (task.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(cluster.task_, ParseTask(*task));
  } else {
    if (source == Source::kFile && !reader.Has("task"))
      return InvalidArgument(
          "{}: it has no \"task\", and MESHWORK_TASK is not set; one of them says which process this is, as "
          "MESHWORK_TASK=worker:1.",
          document);
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader item, reader.Get("task"));
    MESHWORK_ASSIGN_OR_RETURN(cluster.task_, ReadTask(item, document));
  }
  // Nobody has to reach an evaluator, so that clusters often leave it out.
  const Task& own = cluster.task_;
  if (own == Task{Role::kEvaluator, 0} && cluster.count(Role::kEvaluator) == 0)
    cluster.counts_[static_cast<int>(Role::kEvaluator)] = 1;
  if (own.index < 0 || own.index >= cluster.count(own.role))
    return InvalidArgument("{}: this process is {}, and the cluster has {} of that role, counted from 0.",
                           document, own.ToString(), cluster.count(own.role));
  return cluster;
}

absl::StatusOr<Cluster> Cluster::FromTfConfig(std::string_view text) {
  return FromJsonText(text, "TF_CONFIG", Source::kTfConfig, std::nullopt);
}

absl::StatusOr<Cluster> Cluster::FromFile(std::string_view text, std::string_view name,
                                          const Environment& environment) {
  return FromJsonText(text, name, Source::kFile, environment("MESHWORK_TASK"));
}

absl::StatusOr<std::optional<Cluster>> Cluster::FindLaunched(const Environment& environment) {
  struct Launcher {
    Source source;
    std::string rank, size;
  };
  static const auto* const launchers = new std::vector<Launcher>{
      {Source::kMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {Source::kMpi, "PMI_RANK", "PMI_SIZE"},  // MPICH, Intel MPI, and srun --mpi=pmi2
      {Source::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
  };
  for (const Launcher& launcher : *launchers) {
    // A batch script, too, has SLURM_PROCID; only a step has the number of its tasks.
    if (launcher.source == Source::kSlurm && !environment(launcher.size).has_value()) continue;
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<Launched> launched,
                              ReadLaunched(environment, launcher.rank, launcher.size));
    if (!launched.has_value()) continue;
    Cluster cluster;
    cluster.source_ = launcher.source;
    cluster.task_ = {Role::kWorker, launched->rank};
    cluster.counts_[static_cast<int>(Role::kWorker)] = launched->size;
    if (std::string address = SlurmAddress(environment);
        launcher.source == Source::kSlurm && !address.empty())
      cluster.addresses_[static_cast<int>(Role::kWorker)].push_back(std::move(address));
    return cluster;
  }
  return std::nullopt;
}

absl::StatusOr<Cluster> Cluster::FromLauncher(const Environment& environment) {
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<Cluster> launched, FindLaunched(environment));
  if (launched.has_value()) return *launched;
  return InvalidArgument(
      "no launcher has started this process: neither OMPI_COMM_WORLD_RANK, PMI_RANK nor SLURM_STEP_NUM_TASKS is set; "
      "start it by mpirun or srun.");
}

absl::StatusOr<Cluster> Cluster::FromEnvironment(const Environment& environment) {
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<Cluster> launched, FindLaunched(environment));
  if (launched.has_value() && launched->num_processes() > 1) return *launched;
  const std::optional<std::string> config = environment("TF_CONFIG");
  if (config.has_value()) return FromTfConfig(*config);
  return Cluster();
}

Cluster Cluster::Among(const std::vector<int64_t>& processes) const {
  Cluster left = *this;
  for (Role role : {Role::kChief, Role::kWorker}) {
    left.counts_[static_cast<int>(role)] = 0;
    left.addresses_[static_cast<int>(role)].clear();
  }
  bool is_there = false;
  for (int64_t process : processes) {
    const Task task = TaskOf(process);
    const auto role = static_cast<size_t>(task.role);
    if (task == task_) {
      is_there = true;
      left.task_.index = left.counts_[role];
    }
    ++left.counts_[role];
    if (const std::string& address = AddressOf(task); !address.empty())
      left.addresses_[role].push_back(address);
  }
  MESHWORK_CHECK(is_there, "process {} is not among those that are left", process());
  return left;
}

int64_t Cluster::process() const {
  if (task_.role == Role::kChief) return 0;
  if (task_.role == Role::kWorker) return count(Role::kChief) + task_.index;
  return -1;
}

Task Cluster::TaskOf(int64_t process) const {
  MESHWORK_CHECK(process >= 0 && process < num_processes(), "process {} of {}", process, num_processes());
  if (process < count(Role::kChief)) return {Role::kChief, process};
  return {Role::kWorker, process - count(Role::kChief)};
}

const std::string& Cluster::AddressOf(const Task& task) const {
  MESHWORK_CHECK(task.index >= 0 && task.index < count(task.role), "{}", task.ToString());
  static const auto* const unknown = new std::string;
  const std::vector<std::string>& known = addresses_[static_cast<int>(task.role)];
  return task.index < std::ssize(known) ? known[static_cast<size_t>(task.index)] : *unknown;
}

std::string Cluster::ToString() const {
  static constexpr std::array<std::string_view, 5> kNames = {"", "TF_CONFIG", "a file", "MPI", "Slurm"};
  if (source_ == Source::kAlone) return "one process";
  return fmt::format("{} of {} {}, by {}", task_.ToString(), num_processes(),
                     num_processes() == 1 ? "process" : "processes", kNames[static_cast<size_t>(source_)]);
}

}  // namespace meshwork
