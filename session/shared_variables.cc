#include "meshwork/session/shared_variables.h"

#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"

namespace meshwork {

absl::Status CheckCanShare(const Graph& graph, const Graph& program,
                           const std::map<std::string, DTensor>& variables, bool atomic) {
  if (graph.mesh() != program.mesh())
    return InvalidArgument("Share: the program is for the mesh {}, and the session's variables lie on {}.",
                           graph.mesh().ToString(), program.mesh().ToString());
  std::vector<std::string> wrong;
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    const auto found = variables.find(info.name);
    if (!argument.is_variable || found == variables.end() || found->second.type() == info.type) continue;
    wrong.push_back(fmt::format("\"{}\" is {} and must be {}", info.name, info.type.ToString(),
                                found->second.type().ToString()));
  }
  if (!wrong.empty())
    return InvalidArgument("Share: the program has variables of the session in other types: {}.",
                           fmt::join(wrong, "; "));
  for (const VariableUpdate& update : graph.updates()) {
    const std::string& name = graph.value(graph.arguments()[update.argument].value).name;
    if (atomic && variables.contains(name))
      return InvalidArgument(
          "Share: the program updates \"{}\", whose session has options.executor.atomic, so that Undo would take it "
          "back, too; leave the update out, or atomic.",
          name);
  }
  return absl::OkStatus();
}

std::set<std::string> ShareVariables(const std::map<std::string, DTensor>& variables, Graph& graph) {
  std::set<std::string> others;
  for (const Argument& argument : graph.arguments()) {
    if (!argument.is_variable) continue;
    ValueInfo& info = graph.mutable_value(argument.value);
    const auto found = variables.find(info.name);
    if (found == variables.end()) {
      others.insert(info.name);
      continue;
    }
    info.layout = found->second.layout();
    info.modes.clear();
  }
  return others;
}

}  // namespace meshwork
