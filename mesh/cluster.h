// A Cluster says which processes run a program together, which of them this one is, and who is chief.
//
//   // TF_CONFIG={"cluster": {"worker": ["host-a:4444", "host-b:4444"]}, "task": {"type": "worker", "index": 1}}
//   Cluster cluster = Cluster::FromEnvironment(ProcessEnvironment()).value();
//   cluster.process()       1                  // of cluster.num_processes(), 2
//   cluster.is_chief()      false              // worker 0 is, as there is no "chief"
//   Placement placement = Placement::Create(mesh, cluster).value();   // this process has domain 1
//
// The form is TensorFlow's (https://www.tensorflow.org/guide/distributed_training, "TF_CONFIG"). The chief and
// the workers share the devices of the mesh: the chief is process 0, the workers follow in their order.
// Parameter servers ("ps") and evaluators hold no devices of the mesh; their process() is -1.
//
// A launcher, `mpirun` or `srun`, sets variables of its own. The processes that it starts are workers.
//
// A Cluster is an immutable value; it may be shared between threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

// The value of an environment variable; nothing if it is not set. Launchers pass on empty variables: an empty
// one counts as not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();  // of this process

enum class Role { kChief, kWorker, kPs, kEvaluator };
inline constexpr int kNumRoles = 4;
std::string_view NameOf(Role role);  // "chief", "worker", "ps", "evaluator"

// One process among those of its role.
struct Task {
  Role role = Role::kWorker;
  int64_t index = 0;

  std::string ToString() const;  // "worker 1"
  bool operator==(const Task&) const = default;
};

class Cluster {
 public:
  // Who has started the processes.
  enum class Source {
    kAlone,     // the user, one process
    kTfConfig,  // whoever sets TF_CONFIG
    kFile,      // the user, on each host
    kMpi,       // mpirun or mpiexec; the processes find each other by MPI
    kSlurm,     // srun
  };

  // At most so many processes of each role.
  static constexpr int64_t kMaxProcesses = 65536;

  // This process alone.
  Cluster() = default;

  // Looks for, in this order: Open MPI's, PMI's and Slurm's variables; TF_CONFIG; else this process is alone. A
  // launcher that has started one process counts as none. Errors: variables that contradict each other or
  // are no numbers; those of FromTfConfig.
  static absl::StatusOr<Cluster> FromEnvironment(const Environment& environment);

  // Errors: Open MPI, PMI and Slurm have set no variables; variables that contradict each other or are no
  // numbers.
  static absl::StatusOr<Cluster> FromLauncher(const Environment& environment);

  // Reads the value of TF_CONFIG. "environment", "job", "rpc_layer" and the task's "trial", which others
  // write, are left unread. Errors: the text is no JSON, or JSON of another form, with the place; a role that
  // does not exist; an address that is not host:port, or that stands twice; no chief and no worker; more than
  // one chief; a task that the cluster does not have.
  static absl::StatusOr<Cluster> FromTfConfig(std::string_view text);

  // As FromTfConfig, for a file that all processes share: the variable MESHWORK_TASK, "worker:1", says which
  // process this is, and goes before a "task" in the file. `name`: the file's name, for errors.
  static absl::StatusOr<Cluster> FromFile(std::string_view text, std::string_view name,
                                          const Environment& environment);

  Source source() const { return source_; }
  const Task& task() const { return task_; }
  bool is_chief() const { return process() == 0; }
  bool is_alone() const { return num_processes() == 1 && process() == 0; }

  // The processes that hold the devices of the mesh: the chief and the workers.
  int64_t num_processes() const { return count(Role::kChief) + count(Role::kWorker); }
  // The cluster of only these of its processes. Its workers are numbered anew; if there is no chief among them, worker
  // 0 is the chief. REQUIRES: ascending numbers of processes, this one's among them.
  Cluster Among(const std::vector<int64_t>& processes) const;
  // This process among them; -1 if it holds no devices.
  int64_t process() const;
  // REQUIRES: 0 <= process < num_processes(). Law: TaskOf(process()) == task().
  Task TaskOf(int64_t process) const;

  int64_t count(Role role) const { return counts_[static_cast<int>(role)]; }
  // "host:port" of a task. "" where only the launcher knows, and for an evaluator that no one has to reach.
  // Slurm tells the address of worker 0 alone. REQUIRES: 0 <= task.index < count(task.role).
  const std::string& AddressOf(const Task& task) const;

  std::string ToString() const;  // "worker 1 of 2 processes, by TF_CONFIG"

  bool operator==(const Cluster&) const = default;

 private:
  static absl::StatusOr<Cluster> FromJsonText(std::string_view text, std::string_view document, Source source,
                                              const std::optional<std::string>& task);
  static absl::StatusOr<std::optional<Cluster>> FindLaunched(const Environment& environment);

  Source source_ = Source::kAlone;
  Task task_;
  std::array<int64_t, kNumRoles> counts_ = {0, 1, 0, 0};
  std::array<std::vector<std::string>, kNumRoles> addresses_;  // as many as there are, or the first ones
};

}  // namespace meshwork
