// meshwork predict.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/session/saved/saved_program.h"
#include "meshwork/session/session_backend.h"
#include "meshwork/storage/npy.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/train/cluster/on_gpus.h"
#include "meshwork/train/cluster/processes.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"
#include "tools/cli/show_tensor.h"

namespace meshwork::tools {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

constexpr int64_t kMostVersions = 1'000'000'000;

struct PredictFlags {
  std::string folder, inputs, outputs, function = "predict", mesh, devices = "cpu";
  int64_t version = 0, workers = 0;
  JoinOptions join;
};

// "predict(x: f32[32,784]) -> logits: f32[32,10]"
std::string SignatureOf(const SavedFunction& function) {
  const auto list = [](const std::vector<SavedTensor>& tensors) {
    std::vector<std::string> texts;
    for (const SavedTensor& tensor : tensors)
      texts.push_back(fmt::format("{}: {}", Printable(tensor.name), tensor.type.ToString()));
    return texts;
  };
  return fmt::format("{}({}) -> {}", Printable(function.name), fmt::join(list(function.inputs), ", "),
                     fmt::join(list(function.outputs), ", "));
}

// The only tensor of a .npy file has no name. Errors: the file cannot be read; the function has several inputs.
absl::StatusOr<Feeds> ReadFeeds(const std::string& path, const SavedFunction& function) {
  NamedTensors tensors;
  if (path.ends_with(".npy")) {
    if (function.inputs.size() != 1)
      return InvalidArgument(
          "--inputs: {} holds one array, and {} takes {}; give a .npz or safetensors file.", path,
          Quoted(function.name), Count(std::ssize(function.inputs), "input"));
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(path));
    tensors.emplace_back(function.inputs[0].name, std::move(tensor));
  } else if (path.ends_with(".npz")) {
    MESHWORK_ASSIGN_OR_RETURN(tensors, ReadNpz(path));
  } else {
    MESHWORK_ASSIGN_OR_RETURN(tensors, ReadSafetensors(path));
  }
  Feeds feeds;
  for (auto& [name, tensor] : tensors) feeds.emplace(std::move(name), std::move(tensor));
  return feeds;
}

absl::Status WriteOutputs(const std::string& path, const NamedTensors& outputs) {
  if (path.ends_with(".npy")) return WriteNpy(path, outputs[0].second);
  if (path.ends_with(".npz")) return WriteNpz(path, outputs);
  return WriteSafetensors(path, outputs);
}

absl::Status PredictOnce(const PredictFlags& options, const Processes& processes) {
  LoadOptions load{.session = {.devices = options.devices,
                               .workers = static_cast<int>(options.workers),
                               .gather_outputs = true}};
  processes.Use(load.session);
  if (options.version > 0) load.version = options.version;
  if (!options.mesh.empty()) {
    absl::StatusOr<Mesh> mesh = Mesh::Parse(options.mesh);
    if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
    load.mesh = *std::move(mesh);
  }
  absl::StatusOr<SavedProgram> loaded = SavedProgram::Load(options.folder, load);
  if (!loaded.ok()) return BadInput(loaded.status());
  SavedProgram program = *std::move(loaded);
  const bool reports = processes.is_chief();
  if (reports)
    fmt::print("{} on mesh {}{}\n", program.path(), program.session().graph().mesh().ToString(),
               program.runs_as_saved() ? "" : ", compiled anew");
  if (options.inputs.empty()) {
    for (const SavedFunction& function : program.functions())
      if (reports) fmt::print("{}\n", SignatureOf(function));
    return absl::OkStatus();
  }
  const absl::StatusOr<SavedFunction> found = program.Find(options.function);
  if (!found.ok()) return BadInput(Annotate(found.status(), "--function: "));
  const SavedFunction& function = *found;
  if (options.outputs.ends_with(".npy") && function.outputs.size() != 1)
    return InvalidArgument("--outputs: {} holds one array, and {} gives {}; name a .npz or safetensors file.",
                           options.outputs, Quoted(function.name),
                           Count(std::ssize(function.outputs), "output"));
  absl::StatusOr<Feeds> feeds = ReadFeeds(options.inputs, function);
  if (!feeds.ok()) return BadInput(feeds.status());
  if (reports && !options.outputs.empty())
    MESHWORK_RETURN_IF_ERROR(BadInput(Annotate(CheckWritable(options.outputs), "--outputs: ")));
  MESHWORK_ASSIGN_OR_RETURN(const StepResult result, program.Predict(*feeds, options.function));
  if (!reports) return absl::OkStatus();
  NamedTensors outputs;
  for (const SavedTensor& output : function.outputs)
    outputs.emplace_back(output.name, result.outputs().at(output.name));
  for (const auto& [name, tensor] : outputs) fmt::print("{}: {}\n", Printable(name), Show(tensor));
  return options.outputs.empty() ? absl::OkStatus() : WriteOutputs(options.outputs, outputs);
}

}  // namespace

absl::Status Predict(Arguments args) {
  PredictFlags options;
  FlagTable flags(
      "meshwork predict",
      "Predicts by a saved program (docs/saving.md): prints the outputs of one of its functions for any\n"
      "number of rows, and writes them if --outputs asks for it. Without --inputs, prints what the\n"
      "functions take and give. Files that end with .npy hold one array, with .npz several by name; all\n"
      "others are safetensors.");
  flags.Positional("DIR", "a folder of versions, of which the newest is taken, or a version",
                   &options.folder);
  flags.Text("inputs", "the file of the inputs", &options.inputs);
  flags.Text("outputs", "writes the outputs into this file", &options.outputs);
  flags.Text("function", "which function is called", &options.function);
  flags.Int("version", "which version is taken; 0: the newest", &options.version, 0, kMostVersions);
  flags.Text("mesh", "another mesh than the saved one, as batch=4,model=2; axes that it lacks shard nothing",
             &options.mesh);
  AddDevices(flags, &options.devices, &options.workers);
  AddJoinFlags(flags, &options.join);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckDevices(options.devices), "--devices: "));
  return OnEachGpu(options.devices, options.join, [&](const Processes& domains, const std::string& device) {
    PredictFlags mine = options;
    mine.devices = device;
    return PredictOnce(mine, domains);
  });
}

}  // namespace meshwork::tools
