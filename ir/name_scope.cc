#include "meshwork/ir/name_scope.h"

#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {

NameScope::NameScope(Graph* graph, SharedText scope) {
  if (graph == nullptr) return;
  anchor_ = graph->anchor();
  outer_ = std::exchange(graph->scope_, std::move(scope));
}

NameScope::NameScope(Graph& graph, std::string_view name, CallSite loc)
    : NameScope(&graph, graph.scope_.empty() ? std::string(name) : fmt::format("{}/{}", graph.scope_, name)) {
  if (IsArgumentName(name)) return;
  graph.RecordError(fmt::format(
      "NameScope \"{}\" ({}): a name is a letter followed by letters, digits and any of _ . / - (no //), as in block1.",
      name, SourceLocation(loc).ToString()));
  graph.scope_ = outer_;
}

NameScope NameScope::Of(const Variable& variable, const Value& x) {
  if (!variable.valid() || x.graph() == nullptr) return {nullptr, ""};
  const std::string& name = variable.graph()->value(variable.id()).name;
  const size_t end = name.rfind('/');
  return {x.graph(), end == std::string::npos ? "" : name.substr(0, end)};
}

NameScope NameScope::None(Graph& graph) { return {&graph, ""}; }

NameScope::~NameScope() {
  if (anchor_ != nullptr && anchor_->graph != nullptr) anchor_->graph->scope_ = std::move(outer_);
}

}  // namespace meshwork
