#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "fmt/ranges.h"
#include "ops/row.h"
#include "ops/text.h"

namespace meshwork {
namespace {

class Namer {
 public:
  explicit Namer(const Graph& graph) : names_(ValueNames(graph)) {}
  const std::string& operator()(ValueId id) const { return names_[id]; }
  std::string List(std::span<const ValueId> ids) const {
    std::string out;
    for (ValueId id : ids) out += (out.empty() ? "" : ", ") + names_[id];
    return out;
  }

 private:
  std::vector<std::string> names_;
};

std::string NodeText(const Graph& graph, const Node& node, const Namer& names) {
  std::string out = fmt::format("{} = {}", names.List(node.results), node.row->name);
  if (!node.operands.empty()) out += " " + names.List(node.operands);
  for (const auto& [name, value] : node.attrs.entries()) {
    const auto spec = std::find_if(node.row->attrs.begin(), node.row->attrs.end(),
                                   [&, &key = name](const AttrSpec& s) { return s.name == key; });
    if (spec != node.row->attrs.end() && spec->fallback.has_value() && SameAttr(*spec->fallback, value))
      continue;
    if (std::holds_alternative<LayoutPin>(value)) out += " " + PrintAttr(graph.mesh(), value);
    else out += fmt::format(" {}={}", name, PrintAttr(graph.mesh(), value));
  }
  std::string types;
  for (ValueId id : node.results) types += (types.empty() ? "" : ", ") + PrintType(graph.value(id));
  return out + " : " + types;
}

}  // namespace

// Given names as they are, the others numbered in order of definition.
std::vector<std::string> ValueNames(const Graph& graph) {
  std::vector<std::string> names;
  int next = 0;
  for (const ValueInfo& info : graph.values())
    names.push_back(info.name.empty() ? fmt::format("%{}", next++) : "%" + info.name);
  return names;
}

std::string PrintType(const ValueInfo& info) {
  std::string out = info.type.ToString();
  if (info.layout.has_value()) {
    if (info.type != info.global) out += " of " + info.global.ToString();
    out += " " + LayoutPin{*info.layout, info.modes}.ToString();
  }
  if (info.gather != Gathering::kWithinBudget) out += fmt::format(" gather={}", GatheringName(info.gather));
  return out;
}

std::string PrintAttr(const Mesh& mesh, const AttrValue& value) {
  struct {
    const Mesh& mesh;
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return std::isnan(v) ? "nan" : fmt::format("{}", v); }
    std::string operator()(DType v) const { return std::string(DTypeName(v)); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return fmt::format("[{}]", fmt::join(v, ","));
    }
    std::string operator()(const AxisList& v) const { return mesh.AxesToString(v); }
    std::string operator()(ReduceOp v) const { return std::string(ReduceOpName(v)); }
    std::string operator()(const LayoutPin& v) const { return v.ToString(); }
  } visitor{mesh};
  return std::visit(visitor, value);
}

std::string PrintNode(const Graph& graph, int node) {
  return NodeText(graph, graph.nodes()[node], Namer(graph));
}

std::string PrintGraph(const Graph& graph) {
  const Namer names(graph);
  std::string out = fmt::format("mesh {}\nfunc {}(", graph.mesh().ToString(), graph.name);
  for (size_t i = 0; i < graph.arguments().size(); ++i) {
    const Argument& argument = graph.arguments()[i];
    out += fmt::format("{}{}{}: {}", i == 0 ? "" : ",\n     ", argument.is_variable ? "var " : "",
                       names(argument.value), PrintType(graph.value(argument.value)));
  }
  out += ") {\n";
  for (const Node& node : graph.nodes()) out += "  " + NodeText(graph, node, names) + "\n";
  for (const VariableUpdate& update : graph.updates())
    out += fmt::format("  update {} = {}\n", names(graph.arguments()[update.argument].value),
                       names(update.value));
  if (!graph.outputs().empty()) {
    std::string list;
    for (const OutputInfo& output : graph.outputs())
      list += fmt::format("{}{}{}{}", list.empty() ? "" : ", ", output.name, output.name.empty() ? "" : "=",
                          names(output.value));
    out += "  return " + list + "\n";
  }
  return out + "}\n";
}

}  // namespace meshwork
