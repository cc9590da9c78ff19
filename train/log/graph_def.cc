#include "meshwork/train/log/graph_def.h"

#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/storage/wire_format.h"

namespace meshwork {
namespace {

constexpr int kProducer = 22;  // a version of the format that every TensorBoard reads

// ---- AttrValue.

WireWriter TextAttr(std::string_view text) {
  WireWriter attr;
  attr.Text(2, text);
  return attr;
}

WireWriter AttrOf(const Mesh& mesh, const AttrValue& value) {
  WireWriter attr;
  if (const auto* flag = std::get_if<bool>(&value)) return std::move(attr.Int(5, *flag ? 1 : 0));
  if (const auto* number = std::get_if<int64_t>(&value)) return std::move(attr.Int(3, *number));
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    WireWriter list;
    list.Ints(3, *ints);
    return std::move(attr.Message(1, list));
  }
  return TextAttr(PrintAttr(mesh, value));  // a real number, too: AttrValue's are floats
}

WireWriter ShapesAttr(const std::vector<Shape>& shapes) {
  WireWriter list;
  for (const Shape& shape : shapes) {
    WireWriter dims;
    for (int64_t size : shape) dims.Message(2, WireWriter().Int(1, size));
    list.Message(7, dims);
  }
  return std::move(WireWriter().Message(1, list));
}

// ---- GraphDef.

class GraphDrawer {
 public:
  // Adds the nodes of `graph`. `scope`: in front of their names, "" or "scan_3/body/". `fed`: if it is a body, the
  // names of the values that its arguments stand for. Returns the names of its outputs.
  std::vector<std::string> Draw(const Graph& graph, const std::string& scope,
                                std::span<const std::string> fed = {}) {
    const std::vector<std::string> texts = ValueNames(graph);
    std::vector<std::string> names(graph.values().size());  // of each value, as `input` has it
    for (size_t i = 0; i < graph.arguments().size(); ++i) {
      const Argument& argument = graph.arguments()[i];
      const std::string name = Unique(scope + texts[argument.value].substr(1));
      names[argument.value] = name;
      WireWriter node = Begin(name, argument.is_variable ? "variable" : "input");
      if (i < fed.size()) node.Text(3, fed[i]);
      AddResults(node, graph, {&argument.value, 1});
      End(node, graph.value(argument.value).location);
    }
    for (const Node& node : graph.nodes()) DrawNode(graph, node, scope, texts, names);
    for (const VariableUpdate& update : graph.updates()) {
      WireWriter node = Begin(Unique(names[graph.arguments()[update.argument].value] + "/update"), "update");
      node.Text(3, names[update.value]);
      End(node, update.location);
    }
    std::vector<std::string> outputs;
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const OutputInfo& output = graph.outputs()[i];
      outputs.push_back(names[output.value]);
      const std::string shown = output.name.empty() ? fmt::format("{}", i) : output.name;
      WireWriter node = Begin(Unique(fmt::format("{}outputs/{}", scope, shown)), "output");
      node.Text(3, names[output.value]);
      End(node, {});
    }
    return outputs;
  }

  std::string Finish() {
    graph_.Message(4, WireWriter().Int(1, kProducer));
    return graph_.bytes();
  }

 private:
  std::string Unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  static WireWriter Begin(std::string_view name, std::string_view op) {
    return std::move(WireWriter().Text(1, name).Text(2, op));
  }

  // attr is map<string, AttrValue>.
  static void AddAttr(WireWriter& node, std::string_view name, const WireWriter& attr) {
    node.Message(5, WireWriter().Text(1, name).Message(2, attr));
  }

  void End(WireWriter& node, const SourceLocation& location) {
    if (!location.file.empty()) AddAttr(node, "line", TextAttr(location.ToString()));
    graph_.Message(1, node);
  }

  static void AddResults(WireWriter& node, const Graph& graph, std::span<const ValueId> results) {
    std::string types, wholes, layouts;
    std::vector<Shape> shapes;
    bool is_local = false, has_layout = false;
    for (ValueId id : results) {
      const ValueInfo& info = graph.value(id);
      const std::string_view between = shapes.empty() ? "" : ", ";
      shapes.push_back(info.type.shape);
      types += fmt::format("{}{}", between, info.type.ToString());
      wholes += fmt::format("{}{}", between, info.global.ToString());
      layouts += fmt::format(
          "{}{}", between, info.layout.has_value() ? LayoutPin{*info.layout, info.modes}.ToString() : "open");
      is_local |= info.type != info.global;
      has_layout |= info.layout.has_value();
      if (info.gather != Gathering::kWithinBudget)
        AddAttr(node, "gather", TextAttr(GatheringName(info.gather)));
    }
    AddAttr(node, "type", TextAttr(types));
    if (is_local) AddAttr(node, "whole", TextAttr(wholes));
    if (has_layout) AddAttr(node, "layout", TextAttr(layouts));
    AddAttr(node, "_output_shapes", ShapesAttr(shapes));
  }

  // `texts`: what the text form calls each value. Sets the names of the results.
  void DrawNode(const Graph& graph, const Node& node, const std::string& scope,
                const std::vector<std::string>& texts, std::vector<std::string>& names) {
    const ValueInfo& first = graph.value(node.results[0]);
    const std::string group = !node.location.scope.empty()  ? node.location.scope.str() + "/"
                              : !node.location.file.empty() ? node.location.ToString() + "/"
                                                            : "";
    const std::string name =
        Unique(scope + (first.name.empty()
                            ? fmt::format("{}{}_{}", group, node.row->name, texts[node.results[0]].substr(1))
                            : first.name));
    for (size_t r = 0; r < node.results.size(); ++r)
      names[node.results[r]] = r == 0 ? name : fmt::format("{}:{}", name, r);

    WireWriter drawn = Begin(name, node.row->name);
    for (ValueId operand : node.operands) drawn.Text(3, names[operand]);
    for (size_t r = 0; r < node.regions.size(); ++r) {
      std::vector<std::string> fed;
      const auto skipped = static_cast<size_t>(ShapeOfControl(node).first_argument);
      for (size_t i = skipped; i < node.operands.size(); ++i) fed.push_back(names[node.operands[i]]);
      const std::string_view title = node.regions.size() == 1 ? "body" : r == 0 ? "then" : "else";
      for (const std::string& output : Draw(*node.regions[r], fmt::format("{}/{}/", name, title), fed))
        drawn.Text(3, output);
    }
    if (node.row->kind == OpKind::kCollective) drawn.Text(4, PrintAttr(graph.mesh(), GroupAxes(graph, node)));
    for (const auto& [key, value] : node.attrs.entries()) AddAttr(drawn, key, AttrOf(graph.mesh(), value));
    AddResults(drawn, graph, node.results);
    if (!node.cause.empty()) AddAttr(drawn, "cause", TextAttr(node.cause));
    End(drawn, node.location);
  }

  WireWriter graph_;
  std::set<std::string> taken_;
};

}  // namespace

std::string GraphDefOf(const Graph& graph) {
  GraphDrawer drawer;
  drawer.Draw(graph, "");
  return drawer.Finish();
}

}  // namespace meshwork
