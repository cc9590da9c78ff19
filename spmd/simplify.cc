#include "meshwork/spmd/simplify.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "meshwork/base/status.h"
#include "meshwork/control/loops.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/gather_on_use.h"

namespace meshwork {
namespace {

std::string KeyOf(const ValueInfo& info) {
  std::string key = "|" + info.global.ToString();
  if (info.layout.has_value()) key += LayoutPin{*info.layout, info.modes}.ToString();
  return key + fmt::format(" {}", static_cast<int>(info.gather));
}

std::string KeyOf(const Graph& body);

// Equal for two nodes only if they compute the same.
std::string KeyOf(const Graph& graph, const Node& node, std::span<const ValueId> operands) {
  std::string key = fmt::format("{}", fmt::ptr(node.row));
  for (const auto& region : node.regions) key += IsManual(node) ? PrintGraph(*region) : KeyOf(*region);
  for (ValueId id : operands) key += fmt::format(" {}", id);
  struct {
    std::string operator()(bool v) const { return v ? "t" : "f"; }
    std::string operator()(int64_t v) const { return fmt::format("i{}", v); }
    std::string operator()(double v) const { return fmt::format("x{:x}", std::bit_cast<uint64_t>(v)); }
    std::string operator()(DType v) const { return fmt::format("d{}", static_cast<int>(v)); }
    std::string operator()(ReduceOp v) const { return fmt::format("r{}", static_cast<int>(v)); }
    std::string operator()(const std::vector<int64_t>& v) const {
      std::string out = "[";
      for (int64_t x : v) out += fmt::format("{},", x);
      return out;
    }
    std::string operator()(const AxisList& v) const {
      std::string out = "(";
      for (int x : v) out += fmt::format("{},", x);
      return out;
    }
    std::string operator()(const LayoutPin& v) const { return v.ToString(); }
  } text;
  for (const auto& [name, value] : node.attrs.entries()) key += "|" + std::visit(text, value);
  for (ValueId id : node.results) key += KeyOf(graph.value(id));
  return key;
}

// Names of values are no part of it.
std::string KeyOf(const Graph& body) {
  std::string key = "{";
  for (const Argument& argument : body.arguments())
    key += fmt::format("{}{}{};", argument.is_variable ? "var " : "", argument.value,
                       KeyOf(body.value(argument.value)));
  for (const Node& node : body.nodes()) {
    for (ValueId id : node.results) key += fmt::format("{} ", id);
    key += "= " + KeyOf(body, node, node.operands) + ";";
  }
  for (const VariableUpdate& update : body.updates())
    key += fmt::format("update {} {};", update.argument, update.value);
  for (const OutputInfo& output : body.outputs()) key += fmt::format("return {};", output.value);
  return key + "}";
}

// In place of `node`, its operand, or a relayout of it if the result is pinned.
void ReplaceByOperand(const Graph& graph, Node node, int operand, Rewriter& rewriter) {
  const ValueInfo& info = graph.value(node.results[0]);
  if (!info.layout.has_value()) {
    rewriter.Set(node.results[0], rewriter.Map(node.operands[operand]));
    return;
  }
  node.row = &GetOp("relayout");
  node.operands = {node.operands[operand]};
  node.attrs = {{"layout", LayoutPin{*info.layout, info.modes}}};
  rewriter.Copy(node);
}

}  // namespace

namespace {

Graph FoldSizesOf(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (node.row->name == "stop_gradient" || node.row->name == "when_training") {
      ReplaceByOperand(graph, node, 0, rewriter);
    } else if (node.row->name == "dimension_size") {
      int64_t size = 1;
      for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims"))
        size *= graph.value(node.operands[0]).type.shape[d];
      Graph& to = rewriter.to();
      const int folded = to.TryAdd(GetOp("constant"), {},
                                   {{"value", static_cast<double>(size)},
                                    {"dtype", node.attrs.Get<DType>("dtype")},
                                    {"shape", std::vector<int64_t>{}}},
                                   node.location)
                             .value();
      rewriter.Set(node.results[0], to.nodes()[folded].results[0]);
    } else {
      rewriter.Copy(node);
    }
  }
  return std::move(rewriter).Finish();
}

Graph ShareSubexpressionsOf(const Graph& graph) {
  Rewriter rewriter(graph);
  std::unordered_map<std::string, int> seen;  // key -> node of the copy
  const std::vector<bool> kept = KeptValues(graph);
  for (const Node& node : graph.nodes()) {
    if (MovesKept(node, kept)) {
      rewriter.Copy(node);
      continue;
    }
    const auto [it, is_new] = seen.try_emplace(KeyOf(graph, node, rewriter.Map(node.operands)), 0);
    if (is_new) {
      it->second = rewriter.Copy(node);
      continue;
    }
    const auto& results = rewriter.to().nodes()[it->second].results;
    for (size_t i = 0; i < results.size(); ++i) rewriter.Set(node.results[i], results[i]);
  }
  return std::move(rewriter).Finish();
}

}  // namespace

Graph FoldSizes(const Graph& graph) { return WithRegions(graph, FoldSizesOf); }

Graph WithoutTraining(const Graph& graph) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    if (node.row->name == "when_training") {
      ReplaceByOperand(graph, node, 1, rewriter);
      continue;
    }
    Node copy = node;
    for (std::shared_ptr<const Graph>& region : copy.regions)
      region = std::make_shared<const Graph>(WithoutTraining(*region));
    rewriter.Copy(copy);
  }
  return std::move(rewriter).Finish();
}

Graph ShareSubexpressions(const Graph& graph) { return WithRegions(graph, ShareSubexpressionsOf); }

std::vector<bool> LiveValues(const Graph& graph) {
  std::vector<bool> live(graph.values().size(), false);
  for (const VariableUpdate& update : graph.updates()) live[update.value] = true;
  for (const OutputInfo& output : graph.outputs()) live[output.value] = true;
  std::vector<bool> live_loops;  // of an opened program: what leaves a loop leaves it together
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const size_t loop = IsMark(node) ? static_cast<size_t>(LoopOf(node)) : 0;
    if (IsMark(node)) live_loops.resize(std::max(live_loops.size(), loop + 1), false);
    if (std::none_of(node.results.begin(), node.results.end(), [&](ValueId id) { return live[id]; }) &&
        !(IsMark(node) && live_loops[loop]))
      continue;
    if (IsMark(node)) live_loops[loop] = true;
    // A result that nothing reads comes with those that something does.
    for (ValueId id : node.results) live[id] = true;
    for (ValueId id : node.operands) live[id] = true;
  }
  return live;
}

Graph DropDeadCode(const Graph& graph) {
  return WithRegions(graph, [](const Graph& program) {
    const std::vector<bool> live = LiveValues(program);
    Rewriter rewriter(program);
    for (const Node& node : program.nodes())
      if (live[node.results[0]]) rewriter.Copy(node);
    return std::move(rewriter).Finish();
  });
}

}  // namespace meshwork
