#include <algorithm>
#include <cmath>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

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

std::string BodyText(const Graph& graph, const std::string& indent);

// "(var %h: f32[4,6], %w: f32[6,6])", one per line where they are many.
std::string ArgumentsText(const Graph& graph, const Namer& names, std::string_view between) {
  std::string out = "(";
  for (size_t i = 0; i < graph.arguments().size(); ++i) {
    const Argument& argument = graph.arguments()[i];
    out += fmt::format("{}{}{}: {}", i == 0 ? "" : between, argument.is_variable ? "var " : "",
                       names(argument.value), PrintType(graph.value(argument.value)));
  }
  return out + ")";
}

std::string NodeText(const Graph& graph, const Node& node, const Namer& names,
                     const std::string& indent = "") {
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
  for (size_t r = 0; r < node.regions.size(); ++r) {
    const Graph& region = *node.regions[r];
    out += fmt::format("{} {} {{\n{}{}}}", r == 0 ? "" : " else", ArgumentsText(region, Namer(region), ", "),
                       BodyText(region, indent + "  "), indent);
  }
  std::string types;
  for (ValueId id : node.results) types += (types.empty() ? "" : ", ") + PrintType(graph.value(id));
  return out + (types.empty() ? "" : " : " + types);
}

// The nodes, updates and outputs, a line each.
std::string BodyText(const Graph& graph, const std::string& indent) {
  const Namer names(graph);
  std::string out;
  for (const Node& node : graph.nodes()) out += indent + NodeText(graph, node, names, indent) + "\n";
  for (const VariableUpdate& update : graph.updates())
    out += fmt::format("{}update {} = {}\n", indent, names(graph.arguments()[update.argument].value),
                       names(update.value));
  if (graph.outputs().empty()) return out;
  std::string list;
  for (const OutputInfo& output : graph.outputs())
    list += fmt::format("{}{}{}{}", list.empty() ? "" : ", ", output.name, output.name.empty() ? "" : "=",
                        names(output.value));
  return out + fmt::format("{}return {}\n", indent, list);
}

}  // namespace

// Given names as they are, the others numbered in order of definition. A node that got results later, as a loop does
// for its gradients, has them beside its first ones.
std::vector<std::string> ValueNames(const Graph& graph) {
  std::vector<std::string> names(graph.values().size());
  int next = 0;
  const auto set = [&](ValueId id) {
    const std::string& given = graph.value(id).name;
    names[static_cast<size_t>(id)] = given.empty() ? fmt::format("%{}", next++) : "%" + given;
  };
  for (const Argument& argument : graph.arguments()) set(argument.value);
  for (const Node& node : graph.nodes())
    for (ValueId id : node.results) set(id);
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
  return fmt::format("mesh {}\nfunc {}{} {{\n{}}}\n", graph.mesh().ToString(), graph.name,
                     ArgumentsText(graph, Namer(graph), ",\n     "), BodyText(graph, "  "));
}

}  // namespace meshwork
