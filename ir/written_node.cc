#include "meshwork/ir/written_node.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/regions.h"

namespace meshwork {
namespace {

// Adds a node with regions, of either kind of program.
absl::StatusOr<int> AddControl(Graph& graph, const WrittenNode& written) {
  const OpRow& row = *written.row;
  const std::vector<Annotation>& annotations = written.annotations;
  Node node{.row = &row, .attrs = written.attrs, .location = written.location, .regions = written.regions};
  node.operands.assign(written.operands.begin(), written.operands.end());
  // A region may have been read before a later layout cut the mesh.
  for (std::shared_ptr<const Graph>& region : node.regions) {
    Graph cut = *region;
    cut.CutMesh(graph.mesh());
    region = std::make_shared<const Graph>(std::move(cut));
  }
  absl::StatusOr<int> index = TryAddControl(graph, std::move(node));
  if (!index.ok()) return index.status();
  const auto& results = graph.nodes()[*index].results;
  if (results.size() != written.num_results ||
      (!annotations.empty() && annotations.size() != written.num_results))
    return InvalidArgument("{} has {}; {} and {} are given.", row.name, Count(results.size(), "result"),
                           Count(written.num_results, "name"), Count(annotations.size(), "type"));
  for (size_t i = 0; i < annotations.size(); ++i) {
    ValueInfo& info = graph.mutable_value(results[i]);
    const Annotation& a = annotations[i];
    if (a.type != info.type)
      return InvalidArgument("{}: the result is {}, not {}.", row.name, info.type.ToString(),
                             a.type.ToString());
    info.global = a.global.value_or(a.type);
    info.layout = a.layout();
    info.modes = a.modes();
    info.gather = a.gather;
  }
  return index;
}

// Adds a node without regions: by inference where there are no blocks, as written where there are.
absl::StatusOr<int> AddNode(Graph& graph, const WrittenNode& written) {
  const OpRow& row = *written.row;
  const std::vector<ValueId>& operands = written.operands;
  const std::vector<Annotation>& annotations = written.annotations;
  const size_t expected = row.num_results < 0 ? operands.size() : static_cast<size_t>(row.num_results);
  if (expected != written.num_results || (!annotations.empty() && annotations.size() != expected))
    return InvalidArgument("{} has {}; {} and {} are given.", row.name, Count(expected, "result"),
                           Count(written.num_results, "name"), Count(annotations.size(), "type"));
  const bool reads_blocks = std::any_of(operands.begin(), operands.end(), [&](ValueId id) {
    return graph.value(id).type != graph.value(id).global;
  });
  if (!written.IsLocal() && !(reads_blocks && annotations.empty())) {
    MESHWORK_ASSIGN_OR_RETURN(int node, graph.TryAdd(row, operands, written.attrs, written.location));
    for (size_t i = 0; i < annotations.size(); ++i) {
      ValueInfo& info = graph.mutable_value(graph.nodes()[node].results[i]);
      if (annotations[i].type != info.type)
        return InvalidArgument("{}: the result is {}, not {}.", row.name, info.type.ToString(),
                               annotations[i].type.ToString());
      info.layout = annotations[i].layout();
      info.modes = annotations[i].modes();
      info.gather = annotations[i].gather;
    }
    return node;
  }
  if (annotations.empty())
    return InvalidArgument("{}: in a local program every result says its type and layout.", row.name);
  if (absl::Status status = CheckOperandCount(row, operands.size()); !status.ok())
    return Annotate(status, fmt::format("{}: ", row.name));
  absl::StatusOr<Attrs> complete = Graph::CompleteAttrs(row, written.attrs);
  if (!complete.ok()) return Annotate(complete.status(), fmt::format("{}: ", row.name));
  Node node{.row = &row, .attrs = *std::move(complete), .location = written.location};
  node.operands.assign(operands.begin(), operands.end());
  std::vector<ValueInfo> infos;
  for (const Annotation& a : annotations)
    infos.push_back({.type = a.type,
                     .global = a.global.value_or(a.type),
                     .layout = a.layout(),
                     .modes = a.modes(),
                     .gather = a.gather,
                     .location = written.location});
  return graph.AddNode(std::move(node), std::move(infos));
}

}  // namespace

bool WrittenNode::IsLocal() const {
  return row->kind == OpKind::kCollective || row->kind == OpKind::kLocal ||
         std::any_of(annotations.begin(), annotations.end(),
                     [](const Annotation& a) { return a.global.has_value(); });
}

absl::StatusOr<int> AddWritten(Graph& graph, const WrittenNode& written) {
  return written.regions.empty() ? AddNode(graph, written) : AddControl(graph, written);
}

}  // namespace meshwork
