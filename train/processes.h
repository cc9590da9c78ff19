// Processes: this process among those that run a program together, and the data between them.
//
//   JoinOptions join;                                    // or as flags say: AddJoinFlags(flags, &join)
//   MESHWORK_ASSIGN_OR_RETURN(const Processes processes, Processes::Join(join));
//   return processes.Run([&]() -> absl::Status {
//     SessionOptions options;
//     processes.Use(options);                            // its session is one of all processes
//     …
//     if (processes.is_chief()) …                        // writes reports, and what is saved
//   });
//
// Every process runs the same program and computes the rows and columns that its devices hold. It need not read other
// rows of the data (Session::RowsHere). A process that cannot go on tells the others why, so that none waits for it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/base/flags.h"
#include "meshwork/mesh/cluster.h"
#include "meshwork/runtime/trace.h"
#include "meshwork/runtime/transport.h"
#include "meshwork/runtime/transport/clocks.h"
#include "meshwork/train/session.h"

namespace meshwork {

struct JoinOptions {
  // "auto": what a launcher or TF_CONFIG says (Cluster::FromEnvironment); "tf_config"; "mpi": what mpirun or
  // srun says; else the name of a file in TF_CONFIG's form (Cluster::FromFile). "off": this process is alone.
  std::string cluster = "auto";
  std::string transport = "auto";  // NameOf(Engine)
  int64_t deadline_seconds = 60;   // how long a process waits for another one
  // The file of the link between the processes (LinkToJson). The first process reads it; if there is none, all measure
  // the link, and the first process writes it. Measuring takes up to half a second on a slow link. Empty: the link is
  // measured and not kept.
  std::string link_file;
};

// Adds --cluster, --transport, --deadline and --link-file.
void AddJoinFlags(FlagTable& flags, JoinOptions* options);

class Processes {
 public:
  // This process alone.
  Processes() = default;

  // Finds the others, connects with them, and measures how far apart their clocks are and how fast data crosses; all of
  // them must call it. For Gloo, MESHWORK_RENDEZVOUS and MESHWORK_TOKEN say GlooOptions::rendezvous and token. Errors:
  // TF_CONFIG is missing; the file cannot be read; those of the functions of Cluster; an unknown transport; those of
  // Connect; the link's file cannot be read or written, or says no link.
  static absl::StatusOr<Processes> Join(const JoinOptions& options,
                                        const Environment& environment = ProcessEnvironment());

  const Cluster& cluster() const { return cluster_; }
  bool is_chief() const { return cluster_.is_chief(); }
  bool is_alone() const { return cluster_.is_alone(); }
  Transport* transport() const { return transport_.get(); }  // null if this process is alone

  // The session's data goes to and from the others, and its workers, unless their number is given, take this
  // process's part of the cores.
  void Use(SessionOptions& options) const;

  // body(), which all processes run. Returns its status, with this process's name before an error. Of an error, or
  // an exception, the others are told: every call of theirs that waits fails with it.
  absl::Status Run(const std::function<absl::Status()>& body) const;

  // One trace of what all processes have recorded, on the time line of the chief's clock (runtime/trace.h), in the
  // chief; in the others, `mine` on that time line. All processes must call it. It measures the clocks again, as they
  // have gone apart since Join. In a process that is alone, returns `mine` as it is. Errors: those of the transport.
  absl::StatusOr<Trace> GatherTrace(Trace mine) const;

  // "worker 1 on host-b", for messages.
  std::string Name() const;

 private:
  absl::Status CountSharers();
  absl::Status Tell(const absl::Status& error) const;

  Cluster cluster_;
  std::unique_ptr<Transport> transport_;
  int sharers_ = 1;    // processes on this host that may use the same cores, with this one
  ClockOffset clock_;  // to the chief's, when this process joined
};

}  // namespace meshwork
