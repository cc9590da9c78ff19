// Processes: this process among those that run a program together, and the data between them.
//
//   JoinOptions join;                                    // or as flags say: AddJoinFlags(flags, &join)
//   MESHWORK_ASSIGN_OR_RETURN(Processes processes, Processes::Join(join));
//   return processes.Run([&]() -> absl::Status {
//     SessionOptions options;
//     processes.Use(options);                            // its session is one of all processes
//     …
//     if (processes.is_chief()) …                        // writes reports, and what is saved
//   });
//
// Every process runs the same program and computes the rows and columns that its devices hold. It need not read other
// rows of the data (Session::RowsHere). A process that cannot go on tells the others why, so that none waits for it.
//
// When a process is lost, the others end, or, if JoinOptions::recover says so, join again: with a process that was
// started in its place, or without it. Run then calls its body once more, which makes the session anew, on the mesh
// that the processes can share. The session continues from the memory of the remaining processes
// (train/cluster/live_state.h), or, if a block is lost, from a checkpoint (train/fit/checkpoints.h):
//
//     MESHWORK_ASSIGN_OR_RETURN(std::optional<CheckpointNote> from, processes.Recover(session));
//     if (!from.has_value()) from = …;                   // of the checkpoint that was restored, or none
//     session.set_steps_done(from.has_value() ? from->step : 0);
//     MESHWORK_RETURN_IF_ERROR(processes.Keep(session, from.has_value() ? from->facts : CheckpointFacts()));
//     …steps, from there on, each followed by processes.Note({{"epoch", …}})…
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/base/flags.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/exec/trace.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/transport/clocks.h"
#include "meshwork/runtime/transport/connect.h"
#include "meshwork/runtime/transport/tls.h"
#include "meshwork/session/session.h"
#include "meshwork/train/cluster/live_state.h"

namespace meshwork {

struct JoinOptions {
  // "auto": what a launcher or TF_CONFIG says (Cluster::FromEnvironment); "tf_config"; "mpi": what mpirun or
  // srun says; else the name of a file in TF_CONFIG's form (Cluster::FromFile). "off": this process is alone.
  std::string cluster = "auto";
  std::string transport = "auto";  // NameOf(Engine)
  int64_t deadline_seconds = 60;   // how long a process waits for another one
  // What the other processes do when one is lost; Gloo only. "off": they end. "wait": they wait until all processes of
  // the cluster are there again. "shrink": after `deadline_seconds` they go on without the missing ones, if more than
  // half of the processes that were there before are left. To "shrink" after process 0 is lost, the cluster needs a
  // rendezvous that none of its processes serves. All processes need the same value.
  std::string recover = "off";
  int64_t recover_seconds = 600;  // how long the other processes are waited for then
  // The file of the link between the processes (LinkToJson). The first process reads it; if there is none, all measure
  // the link, and the first process writes it. Measuring takes up to half a second on a slow link. Empty: the link is
  // measured and not kept.
  std::string link_file = {};
  // MeetingOptions::insecure: processes on several hosts need no MESHWORK_TOKEN.
  bool insecure = false;
  // MeetingOptions::tls. Nothing: as MESHWORK_TLS_CERTIFICATE, … say (TlsFilesOf).
  TlsFiles tls = {};
  // Whether the cluster's evaluator may join. It has a mesh of its own, and reads the trained variables from
  // checkpoints (train/fit/train_and_evaluate.h). If it may not, it is refused.
  bool may_evaluate = false;
  // Whether flags of the program have set these options (AddJoinFlags): errors then name the flags.
  bool by_flags = false;
};

// The cluster that JoinOptions::cluster names. Errors: TF_CONFIG is missing; the file cannot be read; those of Cluster.
absl::StatusOr<Cluster> FindCluster(const std::string& from, const Environment& environment);

// Adds --cluster, --insecure, --transport, --deadline, --recover, --recover-deadline and --link-file. Sets by_flags.
void AddJoinFlags(FlagTable& flags, JoinOptions* options);

class Processes {
 public:
  // This process alone.
  Processes() = default;

  // Finds the others, connects with them, and measures how far apart their clocks are and how fast data crosses; all of
  // them must call it. For Gloo, MESHWORK_RENDEZVOUS, MESHWORK_TOKEN and MESHWORK_TLS_CERTIFICATE, … say
  // MeetingOptions::rendezvous, token and tls. Errors: TF_CONFIG is missing; the file cannot be read; those of the
  // functions of Cluster; an unknown transport; those of Connect; the link's file cannot be read or written, or says no
  // link. With JoinOptions::recover also those of Members::Form: the others do not come, or have finished.
  static absl::StatusOr<Processes> Join(const JoinOptions& options,
                                        const Environment& environment = ProcessEnvironment());

  // One of several domains that are threads of this process (train/cluster/on_gpus.h). `cluster`: all of them, and
  // which one this is. `transport`: its end. `name`: in messages.
  static Processes Among(Cluster cluster, std::unique_ptr<Transport> transport, std::string name);

  const Cluster& cluster() const { return cluster_; }
  bool is_chief() const { return cluster_.is_chief(); }
  bool is_alone() const { return cluster_.is_alone(); }
  bool is_evaluator() const { return cluster_.task().role == Role::kEvaluator; }
  Transport* transport() const {
    return transport_.get();
  }  // null if this process is alone, or the evaluator

  // The session then exchanges data with the others. Unless the number of its workers is given, they take this
  // process's part of the cores. If a lost process does not end the job, a step that fails changes nothing
  // (ExecutorOptions::atomic).
  void Use(SessionOptions& options) const;

  // Gives a new session the variables that were kept of the last one, and returns the step after which it continues,
  // with the facts noted then. If nothing is kept, or blocks are lost, it returns nothing and leaves the session as it
  // was; the chief reports lost blocks on standard error. All processes call it. Errors: those of LiveState::Recover.
  absl::StatusOr<std::optional<CheckpointNote>> Recover(Session& session);
  // When a process is lost later, Recover gives the next session the variables of this one. Does nothing if a loss ends
  // the job. All processes call it, when the session has the values that the training continues from. Errors: those of
  // LiveState::Keep.
  absl::Status Keep(const Session& session, CheckpointFacts facts = {});
  // Whether the job goes on after a loss, so that Keep and Note do something.
  bool recovers() const { return meeting_ != nullptr; }
  // LiveState::Note.
  void Note(CheckpointFacts facts);

  // Calls body(), in all processes. Returns its status; an error has this process's name in front. The others are told
  // of an error or an exception, and each of their waiting calls fails with it. If another process was lost and
  // JoinOptions::recover says so, joins again and calls body() again, as often as it takes: objects that use
  // transport() must end with body(). With `recover`, a process whose body() has succeeded also waits, for at most
  // JoinOptions::recover_seconds, until body() has succeeded in all others, which may need this process if one of them
  // is lost near the end. Errors, besides: others did not come back; this process was taken for lost, and another one
  // was started in its place, or the others have finished without it; those of Join.
  absl::Status Run(const std::function<absl::Status()>& body);
  // How many processes the cluster had before any was lost.
  int64_t num_wanted() const { return whole_.num_processes(); }
  // The number of this generation of processes, from 0 (runtime/transport/membership.h).
  int64_t generation() const { return generation_; }

  // One trace of what all processes have recorded, on the time line of the chief's clock (runtime/exec/trace.h), in the
  // chief; in the others, `mine` on that time line. All processes must call it. It measures the clocks again, as they
  // have gone apart since Join. In a process that is alone, returns `mine` as it is. Errors: those of the transport.
  absl::StatusOr<Trace> GatherTrace(Trace mine) const;

  // "worker 1 on host-b", for messages.
  std::string Name() const;
  // "2 processes", "4 GPUs".
  std::string HowMany() const;

 private:
  // The place where processes of several generations meet.
  struct Meeting;

  absl::Status Meet();
  // Connects with the others of this generation, or of a later one.
  absl::Status JoinGeneration();
  absl::Status ConnectNow();
  absl::Status CountSharers();
  absl::Status Tell(const absl::Status& error) const;
  // body(), once.
  absl::Status TryRun(const std::function<absl::Status()>& body) const;
  // Waits until all have finished. Error: one of them was lost before that.
  absl::Status AwaitOthers() const;

  JoinOptions options_;
  ConnectOptions connect_;
  Cluster whole_, cluster_;  // all processes that were configured; those of this generation
  int64_t generation_ = 0;
  std::shared_ptr<Meeting> meeting_;  // null if lost processes end the job
  bool serves_ = false;               // the rendezvous
  std::unique_ptr<Transport> transport_;
  LiveState live_;
  int sharers_ = 1;    // processes on this host that may use the same cores, with this one
  ClockOffset clock_;  // to the chief's, when this process joined
  std::string name_;   // "": the task and the host
};

}  // namespace meshwork
