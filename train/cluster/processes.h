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
// started in its place, or without it. Run then calls its body once more, which makes the session anew, on the mesh that
// the processes can share. The session goes on from what the processes that are left have in memory (train/cluster/live_state.h),
// or, where a block is lost, from a checkpoint (train/fit/checkpoints.h):
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
#include "meshwork/runtime/trace.h"
#include "meshwork/runtime/transport.h"
#include "meshwork/runtime/transport/clocks.h"
#include "meshwork/runtime/transport/connect.h"
#include "meshwork/runtime/transport/tls.h"
#include "meshwork/train/cluster/live_state.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

struct JoinOptions {
  // "auto": what a launcher or TF_CONFIG says (Cluster::FromEnvironment); "tf_config"; "mpi": what mpirun or
  // srun says; else the name of a file in TF_CONFIG's form (Cluster::FromFile). "off": this process is alone.
  std::string cluster = "auto";
  std::string transport = "auto";  // NameOf(Engine)
  int64_t deadline_seconds = 60;   // how long a process waits for another one
  // What is done when a process is lost, by Gloo. "off": the others end. "wait": they wait until all processes of the
  // cluster are there again. "shrink": after `deadline_seconds` they go on without those that are missing, if they are
  // more than half of those that were there before. "shrink" and a lost process 0 need a rendezvous that no process of
  // the cluster serves. All processes need the same.
  std::string recover = "off";
  int64_t recover_seconds = 600;  // how long the others are waited for then
  // The file of the link between the processes (LinkToJson). The first process reads it; if there is none, all measure
  // the link, and the first process writes it. Measuring takes up to half a second on a slow link. Empty: the link is
  // measured and not kept.
  std::string link_file = {};
  // GlooOptions::insecure: processes on several hosts need no MESHWORK_TOKEN.
  bool insecure = false;
  // GlooOptions::tls. Nothing: as MESHWORK_TLS_CERTIFICATE, … say (TlsFilesOf).
  TlsFiles tls = {};
  // Whether the cluster's evaluator may join. It is alone, with a mesh of its own, and learns from checkpoints what the
  // others have trained (train/fit/train_and_evaluate.h). Without, it is refused.
  bool may_evaluate = false;
  // Whether flags of the program have set this (AddJoinFlags): errors then name the flags.
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
  // GlooOptions::rendezvous, token and tls. Errors: TF_CONFIG is missing; the file cannot be read; those of the functions
  // of Cluster; an unknown transport; those of Connect; the link's file cannot be read or written, or says no link. With
  // JoinOptions::recover also those of Members::Form: the others do not come, or have finished.
  static absl::StatusOr<Processes> Join(const JoinOptions& options,
                                        const Environment& environment = ProcessEnvironment());

  // One of several domains that threads of this process play (train/cluster/on_gpus.h): `cluster` says which, and `transport` is its
  // end. `name`: in messages.
  static Processes Among(Cluster cluster, std::unique_ptr<Transport> transport, std::string name);

  const Cluster& cluster() const { return cluster_; }
  bool is_chief() const { return cluster_.is_chief(); }
  bool is_alone() const { return cluster_.is_alone(); }
  bool is_evaluator() const { return cluster_.task().role == Role::kEvaluator; }
  Transport* transport() const {
    return transport_.get();
  }  // null if this process is alone, or the evaluator

  // The session's data goes to and from the others, and its workers, unless their number is given, take this
  // process's part of the cores. If lost processes do not end the job, its steps change nothing where they fail
  // (ExecutorOptions::atomic).
  void Use(SessionOptions& options) const;

  // Gives a new session what the last one held that was kept, and returns after which step it goes on, with what was noted
  // then; or nothing, and the session is as it was, if nothing is kept, or blocks are lost, which the chief says to
  // standard error. All processes call it. Errors: those of LiveState::Recover.
  absl::StatusOr<std::optional<CheckpointNote>> Recover(Session& session);
  // Lets Recover give the next session what this one holds, when a process is lost. Does nothing if that ends the job.
  // All processes call it, when the session has the values that the training goes on from. Errors: those of
  // LiveState::Keep.
  absl::Status Keep(const Session& session, CheckpointFacts facts = {});
  // Whether a loss does not end the job: Keep and Note do something.
  bool recovers() const { return meeting_ != nullptr; }
  // LiveState::Note.
  void Note(CheckpointFacts facts);

  // body(), which all processes run. Returns its status, with this process's name before an error. Of an error, or
  // an exception, the others are told: every call of theirs that waits fails with it. If another process was lost and
  // JoinOptions::recover says so, joins again and calls body() again, as often as it takes: what uses transport() must
  // end with body(). A process whose body() has succeeded then also waits until those of all others have, for at most
  // JoinOptions::recover_seconds: a process that is lost at the end does not leave the others alone. Errors, besides:
  // others did not come back; this process was taken for lost, and another one was started in its place, or the others
  // have finished without it; those of Join.
  absl::Status Run(const std::function<absl::Status()>& body);
  // How many processes the cluster had before any was lost.
  int64_t num_wanted() const { return whole_.num_processes(); }
  // Which of the generations of processes these are, from 0 (runtime/transport/membership.h).
  int64_t generation() const { return generation_; }

  // One trace of what all processes have recorded, on the time line of the chief's clock (runtime/trace.h), in the
  // chief; in the others, `mine` on that time line. All processes must call it. It measures the clocks again, as they
  // have gone apart since Join. In a process that is alone, returns `mine` as it is. Errors: those of the transport.
  absl::StatusOr<Trace> GatherTrace(Trace mine) const;

  // "worker 1 on host-b", for messages.
  std::string Name() const;
  // "2 processes", "4 GPUs".
  std::string HowMany() const;

 private:
  // Where processes of several generations meet.
  struct Meeting;

  absl::Status Meet();
  // Connects with the others of this generation, or of the next ones.
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
  Cluster whole_, cluster_;  // as it was told, and those of this generation
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
