// meshwork run.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/session/session.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/train/cluster/on_gpus.h"
#include "meshwork/train/cluster/processes.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"
#include "tools/cli/show_tensor.h"

namespace meshwork::tools {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

constexpr int64_t kMostSteps = 1'000'000'000;
constexpr int64_t kStepLines = 20;    // the most that a run of many steps prints
constexpr int64_t kTracedSteps = 10;  // the last ones

struct Options {
  ProgramChoice program;
  std::string inputs, outputs, checkpoint, trace, devices = "cpu";
  bool predicts = false;
  std::vector<std::string> returned;  // by a prediction; empty: all outputs
  int64_t steps = 1, workers = 0;
  bool profile = false;
  CompileOptions compile;
  JoinOptions join;
};

absl::Status CheckPrediction(const Options& options) {
  if (!options.predicts && !options.returned.empty())
    return InvalidArgument("--return chooses the outputs of a prediction; give --predict as well.");
  if (options.predicts && (options.steps != 1 || options.profile || !options.trace.empty()))
    return InvalidArgument("--predict runs no step of training; leave out --steps, --profile and --trace.");
  return absl::OkStatus();
}

// Checks that every input of a step is in the file; for a prediction, Session::Predict checks this. Drops tensors
// with other names, and may report them. Error: such a name is perhaps the misspelt name of an argument that has no
// tensor.
absl::Status CheckNames(const Options& options, NamedTensors& tensors, const Graph& global, bool reports) {
  const std::string& path = options.inputs;
  std::set<std::string> given;
  for (const auto& [name, tensor] : tensors) given.insert(name);
  std::vector<std::string> missing;
  for (size_t a = 0; a < global.arguments().size(); ++a)
    if (const std::string& name = global.argument_name(static_cast<int>(a)); !given.contains(name))
      missing.push_back(name);
  NamedTensors used;
  for (const auto& [name, tensor] : tensors) {
    if (global.FindArgument(name) >= 0) {
      used.emplace_back(name, tensor);
      continue;
    }
    if (const std::string hint = DidYouMean(name, missing); !hint.empty())
      return InvalidArgument("--inputs: {}: tensor {} is neither an input nor a variable of {}{}", path,
                             Quoted(name), global.name, hint);
    if (reports)
      fmt::print("{} of {} is not used: it is neither an input nor a variable\n", Printable(name), path);
  }
  tensors = std::move(used);
  for (const Argument& argument : global.arguments()) {
    const ValueInfo& info = global.value(argument.value);
    if (argument.is_variable || options.predicts || given.contains(info.name)) continue;
    if (path.empty())
      return InvalidArgument("--inputs is missing; the input %{}: {} needs a tensor.", info.name,
                             info.type.ToString());
    return InvalidArgument("--inputs: {} has no tensor \"{}\"; the input %{}: {} needs it.", path, info.name,
                           info.name, info.type.ToString());
  }
  return absl::OkStatus();
}

// Checks that no two different values would be written under one name.
absl::Status CheckOutputs(const Graph& global) {
  for (size_t o = 0; o < global.outputs().size(); ++o)
    for (const VariableUpdate& update : global.updates())
      if (const std::string name = OutputName(global, static_cast<int>(o));
          name == global.argument_name(update.argument) && global.outputs()[o].value != update.value)
        return InvalidArgument(
            "--outputs: an output and an updated variable are both called \"{}\"; the file "
            "has room for one. Rename the output.",
            name);
  return absl::OkStatus();
}

// Checks the types of tensors, but not of a prediction's inputs, which may have any number of rows.
absl::Status CheckTypes(const Options& options, const NamedTensors& tensors, const Graph& global) {
  for (const auto& [name, tensor] : tensors) {
    const Argument& argument = global.arguments()[static_cast<size_t>(global.FindArgument(name))];
    const Type& type = global.value(argument.value).type;
    if (options.predicts && !argument.is_variable) continue;
    if (tensor.type() != type)
      return InvalidArgument("--inputs: {}: tensor \"{}\" is {}; the program's is {}.", options.inputs, name,
                             tensor.type().ToString(), type.ToString());
  }
  return absl::OkStatus();
}

// The results of the steps, or of the prediction.
struct Computed {
  NamedTensors outputs, variables;  // of the last step; those that it updates
  std::vector<std::string> zeros;   // variables that began as zeros
  std::string profile;
  Trace trace;
};

void PrintHead(const Graph& global, const Computed& computed, const Processes& processes) {
  const int64_t num_processes = processes.cluster().num_processes();
  fmt::print("{} on mesh {}, {}{}\n", global.name, global.mesh().ToString(),
             Count(global.mesh().num_devices(), "device"),
             num_processes == 1 ? "" : fmt::format(" of {}", processes.HowMany()));
  for (const std::string& name : computed.zeros)
    fmt::print("var {} was zero, for no tensor is given\n", name);
}

// "step 40 of 100: loss 0.25", with all outputs of one number.
void PrintStep(int64_t step, int64_t steps, const StepResult& result) {
  std::string line = fmt::format("step {} of {}:", step, steps);
  for (const auto& [name, tensor] : result.outputs())
    if (tensor.num_elements() == 1)
      line += fmt::format(" {}{}", name, Show(tensor).substr(tensor.type().ToString().size()));
  fmt::print("{}\n", line);
}

// Runs all steps with the same inputs. Returns the last result.
absl::StatusOr<StepResult> RunSteps(Session& session, const Feeds& feeds, int64_t steps, bool reports) {
  const int64_t every = (steps + kStepLines - 1) / kStepLines;
  for (int64_t step = 1;; ++step) {
    MESHWORK_ASSIGN_OR_RETURN(StepResult result, session.Run(feeds));
    if (reports && steps > 1 && (step % every == 0 || step == steps)) PrintStep(step, steps, result);
    if (step == steps) return result;
  }
}

// In the order of the program.
void AddOutputs(const Graph& global, const StepResult& result, Computed& computed) {
  for (size_t o = 0; o < global.outputs().size(); ++o) {
    const auto output = result.outputs().find(OutputName(global, static_cast<int>(o)));
    if (output != result.outputs().end()) computed.outputs.emplace_back(*output);
  }
}

absl::StatusOr<Computed> RunAll(const Graph& global, const NamedTensors& tensors, const Options& options,
                                const Processes& processes) {
  SessionOptions session_options{.devices = options.devices,
                                 .workers = static_cast<int>(options.workers),
                                 .gather_outputs = true,
                                 .compile = options.compile};
  processes.Use(session_options);
  session_options.executor.profile = options.profile;
  if (!options.trace.empty())
    session_options.executor.trace_steps = static_cast<int>(std::min(options.steps, kTracedSteps));
  absl::StatusOr<Session> created = Session::Create(global, session_options);
  // A budget that cannot be met is bad input.
  if (created.status().code() == absl::StatusCode::kResourceExhausted && options.compile.memory_budget > 0)
    return BadInput(created.status());
  MESHWORK_RETURN_IF_ERROR(created.status());
  Session session = *std::move(created);
  Computed computed;
  if (options.checkpoint.empty()) {
    computed.zeros = session.variable_names();
  } else if (absl::Status status = session.Restore(options.checkpoint).status(); !status.ok()) {
    return BadInput(Annotate(status, "--checkpoint: "));
  }
  Feeds feeds;
  for (const auto& [name, tensor] : tensors) {
    if (!global.arguments()[static_cast<size_t>(global.FindArgument(name))].is_variable) {
      feeds.emplace(name, tensor);
      continue;
    }
    MESHWORK_RETURN_IF_ERROR(session.Set(name, tensor));
    std::erase(computed.zeros, name);
  }
  if (processes.is_chief()) PrintHead(global, computed, processes);
  if (options.predicts) {
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session.Predict(feeds, options.returned));
    AddOutputs(global, result, computed);
    return computed;
  }
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result,
                            RunSteps(session, feeds, options.steps, processes.is_chief()));
  if (options.profile)
    computed.profile =
        fmt::format("\n{}\n{}", session.Profile().ToString(), session.Profile().ByOp().ToString());
  if (!options.trace.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(computed.trace, processes.GatherTrace(session.Trace()));
  }
  AddOutputs(global, result, computed);
  for (const VariableUpdate& update : global.updates()) {
    const std::string& name = global.argument_name(update.argument);
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, session.Get(name));
    computed.variables.emplace_back(name, std::move(tensor));
  }
  return computed;
}

// Prints the outputs and the new values of variables, and writes them if that is asked for.
absl::Status Report(const Computed& computed, const Options& options) {
  for (const auto& [name, tensor] : computed.outputs) fmt::print("{}: {}\n", name, Show(tensor));
  for (const auto& [name, tensor] : computed.variables) fmt::print("var {}: {}\n", name, Show(tensor));
  fmt::print("{}", computed.profile);
  if (!options.trace.empty())
    MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(options.trace, computed.trace.ToJson()));
  if (options.outputs.empty()) return absl::OkStatus();
  NamedTensors all = computed.outputs;
  for (const auto& variable : computed.variables) {
    // An output of the same name is the new value, see CheckOutputs.
    const auto same_name = [&](const auto& output) { return output.first == variable.first; };
    if (std::none_of(all.begin(), all.end(), same_name)) all.push_back(variable);
  }
  return WriteSafetensors(options.outputs, all);
}

// Runs the steps; the chief reports.
absl::Status RunProgram(const Options& options, const Processes& processes) {
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(options.program));
  NamedTensors tensors;
  if (!options.inputs.empty()) {
    absl::StatusOr<NamedTensors> read = ReadSafetensors(options.inputs);
    if (!read.ok()) return BadInput(Annotate(read.status(), "--inputs: "));
    tensors = *std::move(read);
  }
  MESHWORK_RETURN_IF_ERROR(CheckNames(options, tensors, global, processes.is_chief()));
  MESHWORK_RETURN_IF_ERROR(CheckTypes(options, tensors, global));
  if (processes.is_chief() && !options.trace.empty())
    MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(options.trace), "--trace: ")));
  const bool writes = processes.is_chief() && !options.outputs.empty();
  if (writes) {
    if (!options.predicts) MESHWORK_RETURN_IF_ERROR(CheckOutputs(global));
    MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(options.outputs), "--outputs: ")));
  }
  MESHWORK_ASSIGN_OR_RETURN(const Computed computed, RunAll(global, tensors, options, processes));
  return processes.is_chief() ? Report(computed, options) : absl::OkStatus();
}

}  // namespace

absl::Status Run(Arguments args) {
  Options options;
  FlagTable flags(
      "meshwork run",
      "Compiles a program and runs it on virtual devices. Prints the outputs of the last step and the\n"
      "updated variables: name, type, first numbers. A variable starts as the tensor of its name in\n"
      "--inputs, or else as in --checkpoint; where there is none it starts at zero, and that is said.\n"
      "Tensors that the program does not have are left out. Every step trains; with --predict the outputs\n"
      "are computed as outside of training, and nothing is updated.");
  AddProgram(flags, options.program);
  flags.Text("inputs", "safetensors with a tensor for each input, and for variables", &options.inputs);
  flags.Text("outputs", "writes the outputs and the updated variables as safetensors", &options.outputs);
  flags.Text("checkpoint", "a checkpoint, or a folder of some, whose newest one is read: how variables start",
             &options.checkpoint);
  flags.Switch(
      "predict",
      "computes outputs for any number of rows: no dropout (when_training is its second operand), no update",
      &options.predicts);
  flags.Texts("return", "with --predict, only the output NAME; inputs that it does not need may be missing",
              &options.returned);
  flags.Int("steps", "how many steps, all on the same inputs", &options.steps, 1, kMostSteps);
  flags.Switch("profile", "prints where the time of the steps went", &options.profile);
  flags.Text("trace", "writes when each instruction of the last 10 steps ran, for ui.perfetto.dev",
             &options.trace);
  AddBudgets(flags, options.compile);
  AddDevices(flags, &options.devices, &options.workers);
  flags.Switch("shard-weight-update", kShardWeightUpdateHelp, &options.compile.shard_weight_update);
  flags.Switch("narrow-sums", kNarrowSumsHelp, &options.compile.narrow_sums);
  AddJoinFlags(flags, &options.join);
  flags.Switch("deterministic", "the same bits on however many processes, for more bytes between them",
               &options.compile.deterministic);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_RETURN_IF_ERROR(CheckPrediction(options));
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckDevices(options.devices), "--devices: "));
  return OnEachGpu(options.devices, options.join, [&](const Processes& domains, const std::string& device) {
    Options mine = options;
    mine.devices = device;
    return RunProgram(mine, domains);
  });
}

}  // namespace meshwork::tools
