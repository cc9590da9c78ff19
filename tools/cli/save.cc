// meshwork save.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/session/load_weights.h"
#include "meshwork/session/saved/saved_program.h"
#include "meshwork/session/session.h"
#include "meshwork/session/session_graphs.h"
#include "tools/cli/commands.h"
#include "tools/cli/program_file.h"

namespace meshwork::tools {
namespace {

struct SaveFlags {
  ProgramChoice program;
  std::string folder, weights, checkpoint;
  std::vector<std::string> functions;
};

// "embed=hidden,norm". Errors: another form; a name that is given twice.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ParseFunctions(
    const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<std::string>> functions;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return InvalidArgument("--function: {}; give a name and its outputs, as predict=logits,classes.",
                             Quoted(text));
    const auto [function, is_new] = functions.try_emplace(text.substr(0, equals));
    if (!is_new) return InvalidArgument("--function: {} is given twice.", Quoted(function->first));
    for (size_t begin = equals + 1; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      function->second.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return functions;
}

// What predictions need of the program, as far as its functions name outputs that are there; SaveProgram says which are
// not.
Graph EvaluationOf(const Graph& graph, const SaveProgramOptions& save) {
  std::vector<std::string> outputs;
  for (const OutputInfo& output : graph.outputs())
    for (const auto& [name, of_function] : save.functions)
      if (std::count(of_function.begin(), of_function.end(), output.name) > 0) outputs.push_back(output.name);
  return WithoutUnreadVariables(EvaluationGraph(graph, outputs));
}

// Tensors that the program does not read are left out. Errors: those of LoadWeights.
absl::Status SetWeights(const std::string& path, Session& session) {
  if (session.variable_names().empty()) return absl::OkStatus();
  return BadInput(
      Annotate(LoadWeights(session, path, {.unused = {"*"}, .also = {"*"}}).status(), "--weights: "));
}

absl::Status SaveIt(const SaveFlags& options) {
  SaveProgramOptions save;
  MESHWORK_ASSIGN_OR_RETURN(save.functions, ParseFunctions(options.functions));
  MESHWORK_ASSIGN_OR_RETURN(const Graph global, ReadProgram(options.program));
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(EvaluationOf(global, save)));
  if (!options.weights.empty()) {
    MESHWORK_RETURN_IF_ERROR(SetWeights(options.weights, session));
  } else if (!options.checkpoint.empty()) {
    RestoreOptions restore{.partial = true};  // the optimizer's state is left out
    MESHWORK_RETURN_IF_ERROR(
        BadInput(Annotate(session.Restore(options.checkpoint, restore).status(), "--checkpoint: ")));
  } else if (!session.variable_names().empty()) {
    return InvalidArgument("{} reads variables; give their values by --weights or --checkpoint.",
                           global.name);
  }
  absl::StatusOr<std::string> path = SaveProgram(session, options.folder, save);
  if (!path.ok()) return BadInput(path.status());
  fmt::print("{}\n", *path);
  return absl::OkStatus();
}

}  // namespace

absl::Status Save(Arguments args) {
  SaveFlags options;
  FlagTable flags(
      "meshwork save",
      "Saves a program for predictions (docs/saving.md): what its functions need outside of training, and\n"
      "the variables that they read. Prints the folder of the new version.");
  AddProgram(flags, options.program);
  flags.Positional("DIR", "the folder of versions, made where it is missing", &options.folder);
  flags.Text("weights", "safetensors with all variables that are read: a file, an index, or a folder",
             &options.weights);
  flags.Text("checkpoint", "instead: a checkpoint, or a folder of some, whose newest one is read",
             &options.checkpoint);
  flags.Texts("function", "NAME=OUTPUT,…: a function and its outputs; without any, predict gives all outputs",
              &options.functions);
  if (const auto done = Parse(flags, args)) return *done;
  if (!options.weights.empty() && !options.checkpoint.empty())
    return InvalidArgument("--weights and --checkpoint both say how variables start; give one of them.");
  return SaveIt(options);
}

}  // namespace meshwork::tools
