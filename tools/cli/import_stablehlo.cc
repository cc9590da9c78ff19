// meshwork import stablehlo.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"
#include "meshwork/storage/npy.h"
#include "meshwork/storage/safetensors.h"
#include "tools/cli/commands.h"
#include "tools/cli/import_commands.h"
#include "tools/cli/import_folder.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

constexpr std::string_view kProgramName = "program.mw";
constexpr std::string_view kFilesOfImport[] = {kProgramName, kWeightsName};

struct StableHloImport {
  std::string from, mesh, weights;
  std::vector<std::string> updates, variables;
  ImportTarget to;
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// "params=result/0". Error: another form.
absl::StatusOr<std::pair<std::string, std::string>> ParseUpdate(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return InvalidArgument("--update: {}; give an argument and a result, as params=result/0.", Quoted(text));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

absl::StatusOr<ReadStableHloOptions> OptionsOf(const StableHloImport& import) {
  ReadStableHloOptions options{.variables = import.variables, .file_name = NameOf(import.from)};
  if (!import.mesh.empty()) {
    absl::StatusOr<Mesh> mesh = Mesh::Parse(import.mesh);
    if (!mesh.ok()) return Annotate(mesh.status(), "--mesh: ");
    options.mesh = *std::move(mesh);
  }
  for (const std::string& text : import.updates) {
    MESHWORK_ASSIGN_OR_RETURN(auto update, ParseUpdate(text));
    options.updates.push_back(std::move(update));
  }
  return options;
}

// Whether a tensor of the file is for the argument: it has its name, or its name without the first part, which is that of the Python
// argument: params/Dense_0/kernel is the Dense_0/kernel of params.
bool IsFor(const std::string& argument, const std::string& tensor) {
  const size_t slash = argument.find('/');
  return argument == tensor || (slash != std::string::npos && argument.substr(slash + 1) == tensor);
}

struct Weights {
  NamedTensors tensors;  // by the names of arguments
  std::vector<std::string> left_out;
};

// Errors: two tensors for one argument; another shape; numbers of another kind.
absl::StatusOr<Weights> MatchWeights(const Graph& graph, const NamedTensors& given) {
  Weights weights;
  std::vector<bool> is_used(given.size(), false);
  for (size_t a = 0; a < graph.arguments().size(); ++a) {
    const std::string& name = graph.argument_name(static_cast<int>(a));
    const Type& type = graph.value(graph.arguments()[a].value).type;
    const Tensor* found = nullptr;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!IsFor(name, NameOfPath(given[i].first))) continue;
      if (found != nullptr) return InvalidArgument("--weights: several tensors are for {}.", name);
      found = &given[i].second;
      is_used[i] = true;
    }
    if (found == nullptr) continue;
    const bool is_same_kind = IsReal(found->dtype()) == IsReal(type.dtype);
    if (found->shape() != type.shape || !is_same_kind)
      return InvalidArgument("--weights: {} is {} in the program, and {} in the file.", name, type.ToString(),
                             found->type().ToString());
    weights.tensors.emplace_back(name, found->dtype() == type.dtype ? *found : found->Cast(type.dtype));
  }
  for (size_t i = 0; i < given.size(); ++i)
    if (!is_used[i]) weights.left_out.push_back(Printable(given[i].first));
  return weights;
}

// "a, b and 3 more".
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  const size_t shown = std::min(names.size(), kMost);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<int64_t>(shown));
  const std::string text = fmt::format("{}", fmt::join(first, ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

absl::StatusOr<NamedTensors> ReadWeights(const std::string& path) {
  absl::StatusOr<NamedTensors> tensors = path.ends_with(".npz") ? ReadNpz(path) : ReadSafetensors(path);
  if (!tensors.ok()) return BadInput(Annotate(tensors.status(), "--weights: "));
  return tensors;
}

void PrintSummary(const StableHloImport& import, const Graph& graph, const Weights& weights) {
  int64_t inputs = 0;
  std::vector<std::string> zeros;
  for (size_t a = 0; a < graph.arguments().size(); ++a) {
    const std::string& name = graph.argument_name(static_cast<int>(a));
    const bool is_variable = graph.arguments()[a].is_variable;
    if (!is_variable) ++inputs;
    const auto has_name = [&](const auto& tensor) { return tensor.first == name; };
    if (is_variable && std::none_of(weights.tensors.begin(), weights.tensors.end(), has_name))
      zeros.push_back(name);
  }
  fmt::print("{}/{}: mesh {}, {}, {}, {}, {}\n", import.to.path, kProgramName, graph.mesh().ToString(),
             Count(std::ssize(graph.nodes()), "op"), Count(inputs, "input"),
             Count(std::ssize(graph.arguments()) - inputs, "variable"),
             Count(std::ssize(graph.outputs()), "output"));
  if (!weights.tensors.empty())
    fmt::print("{}/{}: {}\n", import.to.path, kWeightsName, Count(std::ssize(weights.tensors), "tensor"));
  if (!zeros.empty()) fmt::print("without a tensor, so zero at the start: {}\n", Some(zeros));
  if (!weights.left_out.empty()) fmt::print("left out, of no argument: {}\n", Some(weights.left_out));
}

absl::Status ImportIt(const StableHloImport& import) {
  MESHWORK_RETURN_IF_ERROR(CheckTarget(import.to, kFilesOfImport));
  MESHWORK_ASSIGN_OR_RETURN(ReadStableHloOptions options, OptionsOf(import));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadText(import.from));
  Weights weights;
  if (!import.weights.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(const NamedTensors given, ReadWeights(import.weights));
    MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ReadStableHlo(text, options));
    MESHWORK_ASSIGN_OR_RETURN(weights, MatchWeights(graph, given));
    if (weights.tensors.empty())
      return InvalidArgument("--weights: {}: no tensor has the name of an argument; it has {}.",
                             import.weights, Some(weights.left_out));
    for (const auto& [name, tensor] : weights.tensors) options.variables.push_back(name);
  }
  MESHWORK_ASSIGN_OR_RETURN(const Graph graph, ReadStableHlo(text, options));
  const PartialFolder partial(fmt::format("{}.tmp-{}", import.to.path, RandomName()));
  MESHWORK_RETURN_IF_ERROR(MakeFolders(partial.path()));
  MESHWORK_RETURN_IF_ERROR(
      WriteFileAtomically(fmt::format("{}/{}", partial.path(), kProgramName), PrintGraph(graph)));
  if (!weights.tensors.empty()) {
    MESHWORK_RETURN_IF_ERROR(
        WriteSafetensors(fmt::format("{}/{}", partial.path(), kWeightsName), weights.tensors));
  }
  MESHWORK_RETURN_IF_ERROR(PublishFolder(partial.path(), import.to));
  PrintSummary(import, graph, weights);
  return absl::OkStatus();
}

}  // namespace

absl::Status ImportStableHlo(Arguments args) {
  StableHloImport import;
  FlagTable flags(
      "meshwork import stablehlo",
      "Makes a folder with a program, program.mw, of a function that JAX has lowered to StableHLO, and of\n"
      "its weights, model.safetensors (docs/from-jax.md). Arguments become inputs; those that have a weight,\n"
      "that are donated, or that a flag names, become variables. The folder is there whole or not at all.");
  flags.Positional("FILE", "a module of StableHLO in MLIR's generic form; - reads standard input",
                   &import.from);
  flags.Positional("DIR", "the folder that is made", &import.to.path);
  flags.Text("mesh", "as batch=4,model=2; without it that of the module, or one device", &import.mesh);
  flags.Text("weights", "safetensors, or NumPy's .npz, with tensors that have the names of arguments",
             &import.weights);
  flags.Texts("update",
              "ARGUMENT=RESULT: variables that hold the result after a step, also all of PATH/… by PATH",
              &import.updates);
  flags.Texts("variable", "the name, or a pattern of names, of arguments that are variables",
              &import.variables);
  flags.Switch("force", "replaces a folder that such an import has made", &import.to.force);
  if (const auto done = Parse(flags, args)) return *done;
  MESHWORK_RETURN_IF_ERROR(CheckName(import.to));
  return ImportIt(import);
}

}  // namespace meshwork::tools
