#include "meshwork/stablehlo/module.h"

#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

std::string Spaced(const std::string& attributes) { return attributes.empty() ? "" : " " + attributes; }

// What main's arguments and results are, by name, as a comment.
std::string SignatureComments(const Graph& graph) {
  std::string text;
  const auto add = [&](std::string_view what, size_t i, std::string_view name, ValueId id) {
    const ValueInfo& value = graph.value(id);
    text += fmt::format("// {} {}: {} {}{}\n", what, i, name.empty() ? "-" : name, value.global.ToString(),
                        value.layout.has_value() ? " " + value.layout->ToString() : "");
  };
  for (size_t a = 0; a < graph.arguments().size(); ++a)
    add("argument", a, graph.value(graph.arguments()[a].value).name, graph.arguments()[a].value);
  for (size_t o = 0; o < graph.outputs().size(); ++o)
    add("result", o, graph.outputs()[o].name, graph.outputs()[o].value);
  for (size_t u = 0; u < graph.updates().size(); ++u)
    add("result", graph.outputs().size() + u,
        graph.value(graph.arguments()[graph.updates()[u].argument].value).name, graph.updates()[u].value);
  return text;
}

}  // namespace

std::vector<ValueId> ReturnedBy(const Graph& graph) {
  std::vector<ValueId> returned;
  for (const OutputInfo& output : graph.outputs()) returned.push_back(output.value);
  for (const VariableUpdate& update : graph.updates()) returned.push_back(update.value);
  return returned;
}

absl::StatusOr<std::string> WriteModule(const Graph& graph, const ModuleParts& parts) {
  HloText text;
  HloValues arguments;
  std::vector<std::string> argument_texts;
  for (size_t a = 0; a < graph.arguments().size(); ++a) {
    const Type& type = graph.value(graph.arguments()[a].value).type;
    arguments.push_back(text.NewValue(type));
    argument_texts.push_back(fmt::format("%{}: {}{}", a, TypeText(type),
                                         parts.of_argument == nullptr ? "" : Spaced(parts.of_argument(a))));
  }
  text.Indent();
  PlaceResult placed = nullptr;
  if (parts.placed != nullptr)
    placed = [&](ValueId id, const HloValue& value) { return parts.placed(text, id, value); };
  MESHWORK_ASSIGN_OR_RETURN(const HloValues values, WriteNodes(text, graph, arguments, placed));
  std::vector<std::string> returned, types, result_types;
  for (const ValueId id : ReturnedBy(graph)) {
    result_types.push_back(TypeText(values[id].type) +
                           (parts.of_result == nullptr ? "" : Spaced(parts.of_result(types.size()))));
    returned.push_back(fmt::format("%{}", values[id].id));
    types.push_back(TypeText(values[id].type));
  }
  return fmt::format(
      "{}module @{} attributes {{{}}} {{\n{}"
      "  func.func public @main({}) -> ({}) {{\n{}    func.return{}\n  }}\n}}\n",
      SignatureComments(graph), graph.name, parts.attributes, parts.symbols, fmt::join(argument_texts, ", "),
      fmt::join(result_types, ", "), text.text(),
      returned.empty() ? "" : fmt::format(" {} : {}", fmt::join(returned, ", "), fmt::join(types, ", ")));
}

}  // namespace meshwork::stablehlo
