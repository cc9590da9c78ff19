// What programs that train have in common: flags of the mesh and of what is written, and the session.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshwork.h"
#include "meshwork/base/flags.h"
#include "meshwork/train/plot.h"

namespace meshwork {

struct RunOptions {
  std::string mesh = "batch=8";
  int64_t seed = 0;
  int64_t workers = 0;
  std::string json, plot, dump;
  std::string profile = "off";  // "off", "on", or the file for a trace
  bool explain = false;
  bool shard_weight_update = false;
};

// --mesh and --seed with what they are for, --workers, --json, --plot, --profile, --explain,
// --shard-weight-update and --dump.
void AddRunFlags(FlagTable& flags, const std::string& axes, const std::string& seed_of, RunOptions* options);

// A flag and the file that it names, if any.
using NamedFiles = std::vector<std::pair<std::string_view, std::string>>;
// Finds out before hours of training, not after, that a result could not be written, to the files of the
// options and to others. Errors: two flags name one file; a file cannot be written.
absl::Status CheckOutputs(const RunOptions& options, const NamedFiles& others = {});

// Compiles as the options say, and with --dump makes the folder and writes the program after every pass.
// Errors: Session::Create's; a file cannot be written.
absl::StatusOr<Session> CreateSession(const Graph& graph, const RunOptions& options);

// "  each step: 2 all_reduce over (batch), 120743 B on the wire per device", a line for each; and with
// --explain why.
void PrintStep(const Session& session, const RunOptions& options);

// The profile to standard output and the trace to its file, as --profile says.
absl::Status WriteProfile(const Session& session, const RunOptions& options);

// From the start of the process, to a hundredth; where Linux says it.
std::optional<double> SecondsSinceProcessStart();

// Mesh, parameters, times, memory and collectives of a run. `step_seconds` may be empty.
nlohmann::ordered_json DescribeRun(const Session& session, int64_t parameters,
                                   std::optional<double> startup_seconds, std::vector<double> step_seconds);

// What was measured at each step, and beside it its moving mean, where there are enough of them.
std::vector<Series> WithMovingMean(Series steps);
// Losses of the steps, from 1, and their moving mean.
absl::Status WriteLossPlot(const std::string& path, std::string title, std::string note,
                           const std::vector<double>& losses);

// The main function of such a program: run() and what it says of its error, to standard error; 2 where there
// is one.
int RunMain(std::string_view program, const std::function<absl::Status()>& run);

}  // namespace meshwork
