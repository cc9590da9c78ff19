#include "support/hostile_builder.h"

#include "fmt/ranges.h"
#include "meshwork/ir/text.h"

namespace meshwork {

std::string HostileBody::ArgumentsText() const { return fmt::format("({})", fmt::join(arguments, ", ")); }

std::string HostileBody::StatementsText() const {
  std::string text = "{\n";
  for (const std::string& statement : statements) text += statement + "\n";
  for (const std::string& update : updates) text += update + "\n";
  if (!outputs.empty()) text += fmt::format("return {}\n", fmt::join(outputs, ", "));
  return text + "}";
}

std::string HostileBuilder::Text(const HostileBody& body) const {
  return fmt::format("mesh {}\nfunc f{} {}\n", mesh_, body.ArgumentsText(), body.StatementsText());
}

std::string HostileBuilder::NewArgument() { return fmt::format("%a{}", count_++); }

std::string HostileBuilder::NewValue() { return fmt::format("%v{}", count_++); }

std::string HostileBuilder::AddArgument(HostileBody& body, const Type& type, bool is_variable, bool may_lie) {
  const std::string name = NewArgument();
  std::string text = fmt::format("{}{}: {}", is_variable ? "var " : "", name, type.ToString());
  if (may_lie && chance_.Percent(50)) text += " " + pieces_.RandomLayout(type.rank());
  if (may_lie && chance_.Percent(4)) text += is_variable ? " gather=on_use" : " gather=allowed";
  body.arguments.push_back(text);
  body.values.push_back({name, type});
  if (!Parse(body).has_value())
    body.arguments.back() = fmt::format("{}{}: {}", is_variable ? "var " : "", name, type.ToString());
  if (!Parse(body).has_value()) {
    body.arguments.pop_back();
    body.values.pop_back();
    return "";
  }
  return name;
}

bool HostileBuilder::Append(HostileBody& body, const HostileBody& before, const std::string& text,
                            size_t results, bool may_be_pinned) {
  std::vector<std::string> made;
  for (size_t r = 0; r < results; ++r) made.push_back(NewValue());
  const std::string line = made.empty() ? text : fmt::format("{} = {}", fmt::join(made, ", "), text);
  body.statements.push_back(line);
  const std::optional<Graph> graph = Parse(body);
  if (!graph.has_value()) {
    body = before;
    return false;
  }
  const Node& node = graph->nodes().back();
  std::vector<std::string> types;
  for (size_t r = 0; r < node.results.size() && r < made.size(); ++r) {
    const Type& type = graph->value(node.results[r]).type;
    body.values.push_back({made[r], type});
    types.push_back(fmt::format("{} {}", type.ToString(), pieces_.RandomLayout(type.rank())));
  }
  if (!may_be_pinned || types.empty() || !chance_.Percent(25)) return true;
  body.statements.back() = fmt::format("{} : {}", line, fmt::join(types, ", "));
  if (!Parse(body).has_value()) body.statements.back() = line;
  return true;
}

std::optional<Graph> HostileBuilder::Parse(const HostileBody& body) const {
  const std::string text = Text(body);
  if (trying_ != nullptr) trying_(text);
  absl::StatusOr<Graph> graph = ParseGraph(text);
  return graph.ok() ? std::optional(*std::move(graph)) : std::nullopt;
}

}  // namespace meshwork
