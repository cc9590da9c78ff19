// The common part of programs that train: flags for the mesh and for output files, and the session.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"
#include "meshwork/core.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/train/cluster/replica_check.h"
#include "meshwork/train/fit/checkpoints.h"
#include "meshwork/train/log/plot.h"

namespace meshwork {

struct RunOptions {
  std::string mesh = "batch=8";
  int64_t seed = 0;
  std::string devices = "cpu";     // SessionOptions::devices
  std::string precision = "full";  // or "tf32", "bf16"
  int64_t workers = 0;
  std::string json, plot, dump, log_dir;
  std::string profile = "off";  // "off", "on", or the file for a trace
  bool explain = false;
  bool shard_weight_update = false;
  bool deterministic = false;
  bool debug_nans = false;
  std::string checkpoint_dir, checkpoint_every = "600s";
  int64_t keep_checkpoints = 5;
  bool resume = false;
  int64_t stop_exit_code = 0;
  std::string check_replicas = "off";  // ParseReplicaCheck
  JoinOptions join;
  Processes* processes = nullptr;  // set by RunWithOthers

  bool is_chief() const { return processes->is_chief(); }
};

// Adds --mesh, --devices, --precision, --seed, --workers, --json, --plot, --profile, --explain, --shard-weight-update,
// --dump, --log-dir, --deterministic, --checkpoint-dir, --checkpoint-every, --keep-checkpoints, --resume,
// --stop-exit-code, --check-replicas, --debug-nans and the flags of AddJoinFlags.
// `axes` and `seed_of` tell --help what the mesh and the seed are used for.
void AddRunFlags(FlagTable& flags, const std::string& axes, const std::string& seed_of, RunOptions* options);

// Sets what a flag without a value leaves open. Errors: those of CheckDevices; --checkpoint-every is neither of its
// forms; a flag needs --checkpoint-dir.
absl::Status CheckRunFlags(RunOptions& options);
// When checkpoints are due: "600s" or "100steps". Error: the text is neither.
absl::StatusOr<CheckpointOptions> CheckpointEvery(const std::string& text);

// A flag and the file that it names, if any.
using NamedFiles = std::vector<std::pair<std::string_view, std::string>>;
// Checks, before hours of training, that results can be written to the files of the options and to `others`,
// which the chief writes. Errors: two flags name one file; a file cannot be written.
absl::Status CheckOutputs(const RunOptions& options, const NamedFiles& others = {});

// The mesh that --mesh names. After a loss, where the processes that are left cannot share it evenly, its first axis is
// made as much shorter as it takes, and the chief says so. Errors: it is none; the processes cannot share it evenly.
absl::StatusOr<Mesh> MeshOf(const RunOptions& options);

// Compiles as the options say, and with --dump makes the folder and writes the program after every pass.
// Errors: Session::Create's; a file cannot be written.
absl::StatusOr<Session> CreateSession(const Graph& graph, const RunOptions& options);

// The check that --check-replicas asks for. All processes must call it. Errors: those of ReplicaCheck::Create.
absl::StatusOr<ReplicaCheck> MakeReplicaCheck(const RunOptions& options);

// With --debug-nans, after a step with these feeds. Errors: the loss is infinite or no number, with the op that made
// it.
absl::Status CheckLoss(Session& session, const Feeds& feeds, int64_t step, double loss,
                       const RunOptions& options);

// Prints "  each step: 2 all_reduce over (batch), 120743 B on the wire per device", a line for each kind of
// collective; with --explain also the reasons.
void PrintStep(const Session& session, const RunOptions& options);

// As --profile says, prints the profile of the chief, and writes the trace of all processes to its file. All processes
// must call it. Errors: those of Processes::GatherTrace; the file cannot be written.
absl::Status WriteProfile(const Session& session, const RunOptions& options);

// Seconds since the start of the process, to a hundredth; nothing if Linux does not report it.
std::optional<double> SecondsSinceProcessStart();

// Mesh, parameters, times, memory and collectives of a run. `step_seconds` may be empty.
nlohmann::ordered_json DescribeRun(const Session& session, int64_t parameters,
                                   std::optional<double> startup_seconds, std::vector<double> step_seconds);

// The measured values of each step, and their moving mean if there are enough of them.
std::vector<Series> WithMovingMean(Series steps);
// Draws the losses of the steps, of which the first is number `first_step`, and their moving mean.
absl::Status WriteLossPlot(const std::string& path, std::string title, std::string note, int64_t first_step,
                           const std::vector<double>& losses);

// Joins the other processes, as the options say, and runs `body` in each of them. Processes other than the
// chief and an evaluator write no files but their logs, which --log-dir asks for: what they print goes there, or
// nowhere. Where body fails, the others end with its error. After a loss that --recover allows, `body` runs again.
// Errors: those of ParseReplicaCheck and of Processes::Join; --profile names a file in some processes and none in
// others; some have --checkpoint-dir, and others have not.
absl::Status RunWithOthers(RunOptions& options, const std::function<absl::Status()>& body);

// Where this thread prints: stdout; nowhere if it computes on a GPU that is not the first of several.
std::FILE* Out();

// As RunWithOthers, where --devices names several GPUs: `body` runs in a thread for each, with options of its own
// (train/cluster/on_gpus.h).
absl::Status RunOnGpus(const RunOptions& options, const std::function<absl::Status(const RunOptions&)>& body);

// By one of the two, as --devices says. `Options` has RunOptions, `run`.
template <typename Options>
absl::Status RunOnDevices(Options& options, const std::function<absl::Status(const Options&)>& body) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<int> gpus, GpusOf(options.run.devices));
  if (gpus.size() <= 1) return RunWithOthers(options.run, [&] { return body(options); });
  return RunOnGpus(options.run, [&](const RunOptions& run) {
    Options mine = options;
    mine.run = run;
    return body(mine);
  });
}

// The main function of such a program: calls run(). If run() fails, prints its error to standard error and
// returns 2, or 1 if another process was lost or what failed may succeed next time. Else 0, or what EndWith was called
// with.
int RunMain(std::string_view program, const std::function<absl::Status()>& run);
void EndWith(int exit_code);

}  // namespace meshwork
