#include "meshwork/session/saved/function_graphs.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/session/session_graphs.h"

namespace meshwork {
namespace {

// The function's outputs, sorted, as a session sorts them.
std::vector<std::string> OutputsOf(const SavedFunction& function) {
  std::vector<std::string> outputs;
  for (const SavedTensor& output : function.outputs) outputs.push_back(output.name);
  std::sort(outputs.begin(), outputs.end());
  return outputs;
}

}  // namespace

std::set<std::string> VariablesOf(const Graph& graph) {
  std::set<std::string> names;
  for (const Argument& argument : graph.arguments())
    if (argument.is_variable) names.insert(graph.value(argument.value).name);
  return names;
}

void SignFunctions(const Graph& program, std::vector<SavedFunction>& functions) {
  const int64_t rows = BatchRowsOf(program);
  const auto is_batch = [&](const Type& type) { return type.rank() > 0 && type.shape[0] == rows; };
  for (SavedFunction& function : functions) {
    const Graph graph = EvaluationGraph(program, OutputsOf(function));
    function.inputs.clear();
    for (const Argument& argument : graph.arguments()) {
      const ValueInfo& info = graph.value(argument.value);
      if (!argument.is_variable) function.inputs.push_back({info.name, info.type, is_batch(info.type)});
    }
    for (SavedTensor& output : function.outputs) {
      const auto found = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                      [&](const OutputInfo& known) { return known.name == output.name; });
      output.type = graph.value(found->value).type;
      output.is_batch = is_batch(output.type);
    }
  }
}

absl::Status ForEachProgram(const Graph& program, const std::vector<SavedFunction>& functions,
                            const CompileGlobal& compile) {
  std::set<std::string> done = {Fingerprint(program)};
  MESHWORK_ASSIGN_OR_RETURN(const Program whole, compile(program, *done.begin()));
  Graph laid_out = program;
  LayOutVariables(whole.body, laid_out);
  for (const SavedFunction& function : functions) {
    const Graph graph = EvaluationGraph(laid_out, OutputsOf(function));
    const auto [fingerprint, is_new] = done.insert(Fingerprint(graph));
    if (is_new) MESHWORK_RETURN_IF_ERROR(compile(graph, *fingerprint).status());
  }
  return absl::OkStatus();
}

}  // namespace meshwork
