#include "ops/rebatch.h"

#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "ops/control_flow.h"
#include "ops/loops.h"
#include "ops/manual.h"
#include "ops/row.h"

namespace meshwork {
namespace {

// Union-find over all dims of all values; classes are dims that are one dim of the program.
class DimClasses {
 public:
  explicit DimClasses(const Graph& graph) : first_(graph.values().size()) {
    int next = 0;
    for (size_t i = 0; i < graph.values().size(); ++i) {
      first_[i] = next;
      next += graph.values()[i].type.rank();
    }
    parent_.resize(next);
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int Find(ValueId value, int dim) { return Root(first_[value] + dim); }
  void Join(ValueId a, int i, ValueId b, int j) { parent_[Find(a, i)] = Find(b, j); }

 private:
  int Root(int x) {
    while (parent_[x] != x) x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  std::vector<int> first_, parent_;
};

void JoinLetters(const Graph& graph, const Node& node, DimClasses& classes) {
  const Rule rule = RuleOf(graph, node);
  struct Use {
    ValueId value;
    int dim;
  };
  std::vector<std::optional<Use>> seen(rule.letters.size());
  auto visit = [&](const LetterList& list, ValueId value) {
    for (size_t d = 0; d < list.size(); ++d) {
      if (list[d] == kNoLetter) continue;
      // Dims of different size under one letter (a reshape's) grow together, but are not one size.
      if (auto& use = seen[list[d]]) classes.Join(value, static_cast<int>(d), use->value, use->dim);
      else use = Use{value, static_cast<int>(d)};
    }
  };
  for (size_t i = 0; i < node.operands.size(); ++i) visit(rule.operands[i], node.operands[i]);
  for (size_t i = 0; i < node.results.size(); ++i) visit(rule.results[i], node.results[i]);
}

// Texts may hold what no global program has: collectives, and ops of manual regions outside of one.
absl::Status CheckRules(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.row->rule == nullptr && !IsControl(node))
      return InvalidArgument("{}: it is no op of a global program, which alone can run with another batch.",
                             graph.Describe(node.row->name, node.location));
    if (IsManual(node)) continue;
    for (const auto& region : node.regions) RETURN_IF_ERROR(CheckRules(*region));
  }
  return absl::OkStatus();
}

// Whether loops and branches are still what they must be: a length is no size that follows the batch.
absl::Status CheckBodies(const Graph& graph, int64_t to) {
  for (const Node& node : graph.nodes()) {
    if (!IsControl(node)) continue;
    const absl::StatusOr<std::vector<Type>> types = InferControl(node, TypesOf(graph, node.operands));
    if (!types.ok() || *types != TypesOf(graph, node.results))
      return InvalidArgument("{}: it cannot run with a batch of {}: {}",
                             graph.Describe(node.row->name, node.location), to,
                             types.ok() ? "its results are tied to the batch." : MessageOf(types.status()));
    for (const auto& region : node.regions) {
      for (const VariableUpdate& update : region->updates()) {
        const ValueInfo& carry = region->value(region->arguments()[update.argument].value);
        if (carry.type != region->value(update.value).type)
          return InvalidArgument("{}: it cannot run with a batch of {}: %{} is {}, its next value {}.",
                                 graph.Describe(node.row->name, node.location), to, carry.name,
                                 carry.type.ToString(), region->value(update.value).type.ToString());
      }
      RETURN_IF_ERROR(CheckBodies(*region, to));
    }
  }
  return absl::OkStatus();
}

// Without loops.
absl::StatusOr<Graph> RebatchOpened(const Graph& graph, int64_t from, int64_t to) {
  if (from < 1 || to < 0)
    return InvalidArgument(
        "Rebatch: a batch of {} cannot become one of {}; the first is at least 1, the second at "
        "least 0.",
        from, to);
  DimClasses classes(graph);
  for (const Node& node : graph.nodes()) JoinLetters(graph, node, classes);
  for (const VariableUpdate& update : graph.updates()) {
    const ValueId variable = graph.arguments()[update.argument].value;
    for (int d = 0; d < graph.value(variable).type.rank(); ++d) classes.Join(variable, d, update.value, d);
  }
  std::vector<int> batch;
  auto is_batch = [&](ValueId value, int d) {
    return std::find(batch.begin(), batch.end(), classes.Find(value, d)) != batch.end();
  };
  for (const Argument& argument : graph.arguments()) {
    const Shape& shape = graph.value(argument.value).type.shape;
    if (!argument.is_variable && !shape.empty() && shape[0] == from && !is_batch(argument.value, 0))
      batch.push_back(classes.Find(argument.value, 0));
  }

  std::vector<int> fed;  // classes that an argument has a part in
  for (const Argument& argument : graph.arguments())
    for (int d = 0; d < graph.value(argument.value).type.rank(); ++d)
      fed.push_back(classes.Find(argument.value, d));
  std::sort(fed.begin(), fed.end());
  auto is_fed = [&](ValueId value, int d) {
    return std::binary_search(fed.begin(), fed.end(), classes.Find(value, d));
  };

  Graph copy(graph.mesh());
  copy.name = graph.name;
  std::vector<ValueId> map(graph.values().size(), kNoValue);
  for (const Argument& argument : graph.arguments()) {
    ValueInfo info = graph.value(argument.value);
    for (int d = 0; d < info.type.rank(); ++d) {
      if (!is_batch(argument.value, d)) continue;
      if (argument.is_variable)
        return InvalidArgument(
            "variable \"{}\" is {}; its dim {} is tied to the batch of {}, so the program "
            "cannot run with {}.",
            info.name, info.type.ToString(), d, from, to);
      info.type.shape[d] = info.type.shape[d] / from * to;
    }
    info.global = info.type;
    if (info.layout.has_value())
      RETURN_IF_ERROR(
          Annotate(info.layout->Fits(info.type.shape), fmt::format("argument \"{}\": ", info.name)));
    map[argument.value] = copy.AddArgument(std::move(info), argument.is_variable, argument.initializer);
  }
  for (const Node& node : graph.nodes()) {
    Attrs attrs = node.attrs;
    for (const AttrSpec& spec : node.row->attrs) {
      if (!spec.is_result_shape) continue;
      Shape shape = graph.value(node.results[0]).type.shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (!is_batch(node.results[0], static_cast<int>(d))) {
          if (shape[d] != from || from == 1 || is_fed(node.results[0], static_cast<int>(d))) continue;
          return InvalidArgument(
              "{}: dim {} of {} has the size of the batch and meets no input, so whether it is the batch "
              "cannot "
              "be told and the program cannot run with {}; derive it from an input, or take sizes by "
              "dimension_size.",
              graph.Describe(node.row->name, node.location), d, graph.value(node.results[0]).type.ToString(),
              to);
        }
        if (shape[d] % from != 0)
          return InvalidArgument(
              "{}: dim {} of {} is tied to the batch of {}, which does not divide it, so the "
              "program cannot run with {}.",
              graph.Describe(node.row->name, node.location), d, graph.value(node.results[0]).type.ToString(),
              from, to);
        shape[d] = shape[d] / from * to;
      }
      attrs = WithResultShape(*node.row, std::move(attrs), shape);
    }
    absl::InlinedVector<ValueId, 4> operands;
    for (ValueId id : node.operands) operands.push_back(map[id]);
    if (node.row->resize != nullptr) {
      const std::vector<Type> old = TypesOf(graph, node.operands), results = TypesOf(graph, node.results);
      absl::StatusOr<Attrs> resized = node.row->resize({old, results, attrs}, TypesOf(copy, operands));
      if (!resized.ok())
        return Annotate(resized.status(), graph.Describe(node.row->name, node.location) + ": ");
      attrs = *std::move(resized);
    }
    ASSIGN_OR_RETURN(int added, copy.TryAdd(*node.row, operands, attrs, node.location));
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = copy.nodes()[added].results[i];
      if (const std::optional<Layout>& pin = graph.value(node.results[i]).layout; pin.has_value())
        RETURN_IF_ERROR(Annotate(pin->Fits(copy.value(result).type.shape),
                                 graph.Describe(node.row->name, node.location) + ": "));
      copy.mutable_value(result).name = graph.value(node.results[i]).name;
      copy.mutable_value(result).layout = graph.value(node.results[i]).layout;
      copy.mutable_value(result).modes = graph.value(node.results[i]).modes;
      copy.mutable_value(result).gather = graph.value(node.results[i]).gather;
      map[node.results[i]] = result;
    }
  }
  for (const VariableUpdate& update : graph.updates()) copy.AddUpdate({update.argument, map[update.value]});
  for (const OutputInfo& output : graph.outputs()) copy.AddOutput({output.name, map[output.value]});
  return copy;
}

}  // namespace

absl::StatusOr<Graph> Rebatch(const Graph& graph, int64_t from, int64_t to) {
  RETURN_IF_ERROR(CheckRules(graph));
  if (!HasLoops(graph)) return RebatchOpened(graph, from, to);
  const OpenedGraph opened = OpenLoops(graph);
  for (const OpenedLoop& loop : opened.loops)
    if (IsManual(loop.node))
      return InvalidArgument(
          "{}: its blocks have the size that they were written for, so the program cannot run with {}.",
          graph.Describe(loop.node.row->name, loop.node.location), to);
  ASSIGN_OR_RETURN(const Graph resized, RebatchOpened(opened.graph, from, to));
  Graph closed = CloseLoops(resized, opened.loops);
  RETURN_IF_ERROR(CheckBodies(closed, to));
  return closed;
}

}  // namespace meshwork
