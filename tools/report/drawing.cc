#include "meshwork/tools/report/drawing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/saturate.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

// The origin of a value: a result of a vertex.
struct Origin {
  int vertex = -1;
  int result = 0;
  bool operator==(const Origin&) const = default;
};
using Origins = std::vector<Origin>;

constexpr size_t kMostOrigins = 8;  // of one value; more would be edges that no one can follow

// "%y = matmul %h, %w": as PrintGraph writes it, without attributes and types.
std::string TextOf(const Node& node, const std::vector<std::string>& names) {
  std::vector<std::string_view> results, operands;
  for (ValueId id : node.results) results.push_back(names[id]);
  for (ValueId id : node.operands) operands.push_back(names[id]);
  return fmt::format("{} = {} {}", fmt::join(results, ", "), node.row->name, fmt::join(operands, ", "));
}

std::string RuleTextOf(const Graph& graph, const Node& node) {
  return node.row->rule == nullptr ? "" : RuleOf(graph, node).ToString();
}

DrawnLayout LayoutOf(const ValueInfo& info) {
  return info.layout.has_value() ? Describe(*info.layout) : DrawnLayout();
}

class Drawer {
 public:
  Drawer(const Graph* global, const Graph& local, const Proof* proof, Drawings& drawings,
         int& num_collectives)
      : global_(global),
        local_(local),
        proof_(proof),
        drawings_(drawings),
        num_collectives_(num_collectives),
        local_names_(ValueNames(local)),
        origins_(local.values().size()) {
    if (global_ != nullptr) {
      global_names_ = ValueNames(*global_);
      vertex_of_node_.assign(global_->nodes().size(), -1);
    }
  }

  // Draws into drawings_.all[at]. Bodies that are drawn meanwhile may move it in memory.
  void Draw(size_t at) {
    for (const Argument& argument : local_.arguments()) {
      const ValueInfo& info = local_.value(argument.value);
      const auto kind = argument.is_variable ? DrawnVertex::Kind::kVariable : DrawnVertex::Kind::kInput;
      origins_[argument.value] = {{Add({.kind = kind,
                                        .label = local_names_[argument.value],
                                        .text = local_names_[argument.value],
                                        .type = info.global.ToString(),
                                        .layout = LayoutOf(info),
                                        .where = info.location}),
                                   0}};
    }
    for (int n = 0; n < static_cast<int>(local_.nodes().size()); ++n) DrawNode(n);
    for (const VariableUpdate& update : local_.updates()) {
      const std::string name = "%" + local_.argument_name(update.argument);
      DrawResult(DrawnVertex::Kind::kUpdate, name, "update " + name, update.value, update.location);
    }
    for (const OutputInfo& output : local_.outputs()) {
      const std::string name = output.name.empty() ? local_names_[output.value] : output.name;
      DrawResult(DrawnVertex::Kind::kOutput, name, "return " + name, output.value, {});
    }
    drawings_.all[at].vertices = std::move(drawing_.vertices);
    drawings_.all[at].edges = std::move(drawing_.edges);
  }

  int64_t NumUnseen() const { return std::count(vertex_of_node_.begin(), vertex_of_node_.end(), -1); }

 private:
  int Add(DrawnVertex vertex) {
    drawing_.vertices.push_back(std::move(vertex));
    return static_cast<int>(drawing_.vertices.size()) - 1;
  }

  void DrawResult(DrawnVertex::Kind kind, const std::string& label, std::string text, ValueId value,
                  const SourceLocation& where) {
    const int vertex = Add({.kind = kind,
                            .label = label,
                            .text = std::move(text),
                            .type = local_.value(value).global.ToString(),
                            .layout = LayoutOf(local_.value(value)),
                            .where = where});
    Connect(value, vertex, 0);
  }

  // The value of the global program that this one is a block of; kNoValue if there is none.
  ValueId GlobalOf(ValueId value) const {
    if (proof_ == nullptr) return kNoValue;
    const SignedValueList& of = proof_->claims[value].of;
    return of.size() == 1 && !of[0].is_negative ? of[0].value : kNoValue;
  }
  std::string NameOf(ValueId value) const {
    const ValueId global = GlobalOf(value);
    return global == kNoValue ? local_names_[value] : global_names_[global];
  }

  // Whether a node only makes a block of the value that it reads, or masks the value's padding.
  bool PassesThrough(const Node& node) const {
    if (node.row->kind == OpKind::kLocal) return true;
    if (proof_ == nullptr || node.results.empty()) return false;
    const ValueId made = GlobalOf(node.results[0]);
    return made != kNoValue && std::any_of(node.operands.begin(), node.operands.end(),
                                           [&](ValueId read) { return GlobalOf(read) == made; });
  }

  void Connect(ValueId value, int to, int operand) {
    const ValueInfo& info = local_.value(value);
    for (const Origin& origin : origins_[value]) {
      if (origin.vertex == to) continue;
      const bool from_collective = drawing_.vertices[origin.vertex].collective >= 0;
      const bool to_collective = drawing_.vertices[to].collective >= 0;
      DrawnLayout layout = LayoutOf(info);
      // Equal-looking edges become one, unless ValueUsers has to distinguish them.
      if (!seen_
               .emplace(origin.vertex, to, from_collective ? origin.result : 0, to_collective ? operand : 0,
                        layout.text)
               .second)
        continue;
      drawing_.edges.push_back({.from = origin.vertex,
                                .to = to,
                                .result = origin.result,
                                .operand = operand,
                                .value = NameOf(value),
                                .layout = std::move(layout)});
    }
  }

  void DrawNode(int n) {
    const Node& node = local_.nodes()[n];
    const std::vector<int> bodies = DrawBodies(node);
    const bool is_collective = Communicates(local_, node);
    if (!is_collective && PassesThrough(node)) {
      Origins all;
      for (ValueId operand : node.operands)
        for (const Origin& origin : origins_[operand])
          if (all.size() < kMostOrigins && std::find(all.begin(), all.end(), origin) == all.end())
            all.push_back(origin);
      for (ValueId result : node.results) origins_[result] = all;
      return;
    }
    const int vertex = is_collective ? AddCollective(node) : VertexOf(node);
    DrawnVertex& drawn = drawing_.vertices[vertex];
    if (drawn.node < 0) drawn.node = n;
    drawn.bodies.insert(drawn.bodies.end(), bodies.begin(), bodies.end());
    for (size_t i = 0; i < node.operands.size(); ++i) Connect(node.operands[i], vertex, static_cast<int>(i));
    for (size_t i = 0; i < node.results.size(); ++i)
      origins_[node.results[i]] = {{vertex, static_cast<int>(i)}};
  }

  int AddCollective(const Node& node) {
    return Add({.kind = DrawnVertex::Kind::kCollective,
                .label = std::string(node.row->name),
                .text = TextOf(node, local_names_),
                .type = local_.value(node.results[0]).global.ToString(),
                .layout = LayoutOf(local_.value(node.results[0])),
                .where = node.location,
                .collective = num_collectives_++});
  }

  // The vertex of the global program's op that the node is, or is a part of; a new one if there is no such op.
  int VertexOf(const Node& node) {
    int op = -1;
    for (size_t i = 0; i < node.results.size() && op < 0; ++i) {
      const ValueId made = GlobalOf(node.results[i]);
      if (made != kNoValue) op = global_->value(made).node;
    }
    if (op < 0) {
      return Add({.kind = proof_ == nullptr ? DrawnVertex::Kind::kOp : DrawnVertex::Kind::kLocalOp,
                  .label = std::string(node.row->name),
                  .text = TextOf(node, local_names_),
                  .type = local_.value(node.results[0]).global.ToString(),
                  .layout = LayoutOf(local_.value(node.results[0])),
                  .rule = RuleTextOf(local_, node),
                  .where = node.location});
    }
    if (vertex_of_node_[op] < 0) {
      const Node& of = global_->nodes()[op];
      vertex_of_node_[op] = Add({.label = std::string(of.row->name),
                                 .text = TextOf(of, global_names_),
                                 .type = global_->value(of.results[0]).type.ToString(),
                                 .layout = LayoutOf(local_.value(node.results[0])),
                                 .rule = RuleTextOf(*global_, of),
                                 .where = of.location});
    }
    return vertex_of_node_[op];
  }

  // Draws the bodies of the node. They come before the node, as collectives are numbered in the order of Explain.
  std::vector<int> DrawBodies(const Node& node) {
    std::vector<int> bodies;
    for (const auto& region : node.regions) {
      const size_t at = drawings_.all.size();
      const std::string where = node.location.ToString();
      drawings_.all.push_back({.title = fmt::format("body {} of {}{}", bodies.size() + 1, node.row->name,
                                                    where.empty() ? "" : " (" + where + ")"),
                               .times = SaturatedProduct(times_, TimesOf(node))});
      Drawer drawer(nullptr, *region, nullptr, drawings_, num_collectives_);
      drawer.times_ = drawings_.all[at].times;
      drawer.Draw(at);
      bodies.push_back(static_cast<int>(at));
    }
    return bodies;
  }

  const Graph* global_;  // null: the local program is drawn
  const Graph& local_;
  const Proof* proof_;  // null like global_
  Drawings& drawings_;
  int& num_collectives_;
  int64_t times_ = 1;
  Drawing drawing_;
  std::vector<std::string> local_names_, global_names_;
  std::vector<Origins> origins_;     // per local value
  std::vector<int> vertex_of_node_;  // per global node; -1: none yet
  std::set<std::tuple<int, int, int, int, std::string>> seen_;
};

}  // namespace

DrawnLayout Describe(const Layout& layout) {
  const AxisList axes = layout.ShardedAxes().ToList();
  return {.text = layout.ToString(),
          .cut = axes.empty() ? "" : layout.mesh().AxesToString(axes),
          .is_partial = layout.is_partial()};
}

Drawings DrawProgram(const Graph& global, const Graph& local, const std::optional<Proof>& proof) {
  Drawings drawings;
  drawings.all.push_back({.title = local.name});
  int num_collectives = 0;
  Drawer drawer(proof.has_value() ? &global : nullptr, local, proof.has_value() ? &*proof : nullptr, drawings,
                num_collectives);
  drawer.Draw(0);
  drawings.unseen = drawer.NumUnseen();
  return drawings;
}

ValueUsers::ValueUsers(const Drawing& drawing)
    : drawing_(drawing), into_(drawing.vertices.size()), out_of_(drawing.vertices.size()) {
  for (size_t e = 0; e < drawing.edges.size(); ++e) {
    into_[drawing.edges[e].to].push_back(static_cast<int>(e));
    out_of_[drawing.edges[e].from].push_back(static_cast<int>(e));
  }
}

std::vector<int> ValueUsers::Reach(const std::vector<std::vector<int>>& edges_of, int vertex, int value,
                                   bool backwards) const {
  std::vector<int> users;
  std::set<std::pair<int, int>> seen;  // of a collective, its values have the same places before and after
  std::vector<std::pair<int, int>> open = {{vertex, value}};
  while (!open.empty()) {
    const auto [at, place] = open.back();
    open.pop_back();
    if (!seen.emplace(at, place).second) continue;
    for (int e : edges_of[at]) {
      const DrawnEdge& edge = drawing_.edges[e];
      if ((backwards ? edge.operand : edge.result) != place) continue;
      const int other = backwards ? edge.from : edge.to;
      if (drawing_.vertices[other].collective >= 0)
        open.emplace_back(other, backwards ? edge.result : edge.operand);
      else if (std::find(users.begin(), users.end(), other) == users.end()) users.push_back(other);
    }
  }
  return users;
}

}  // namespace meshwork
