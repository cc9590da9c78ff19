#include "meshwork/ops/control/append_blockwise.h"

#include <set>

#include "meshwork/ir/values.h"
#include "meshwork/ops/blockwise.h"

namespace meshwork {
namespace {

// The numbers of blocks that dims of a local program are cut into.
std::set<int64_t> BlockCounts(const Graph& local) {
  std::set<int64_t> counts;
  for (const ValueInfo& info : local.values())
    for (int d = 0; info.layout.has_value() && d < info.layout->rank(); ++d)
      if (!info.layout->IsStrided(d)) counts.insert(info.layout->NumShards(d));
  counts.erase(1);
  return counts;
}

}  // namespace

std::optional<WithBlockwise> AppendBlockwise(const Graph& global, const Graph& local) {
  if (!HasBlockwise(global)) return std::nullopt;
  WithBlockwise with{global, {}, {}};
  const std::set<int64_t> counts = BlockCounts(local);
  for (const Node& node : global.nodes()) {
    if (!BlockwiseAt(global, node).has_value()) continue;
    for (int64_t count : counts) {
      const std::vector<Value> results =
          AddBlockwise(node, ValuesOf(with.graph, node.operands), count, UNSHARDED);
      for (size_t r = 0; r < results.size(); ++r)
        with.same.emplace_back(results[r].id(), node.results[r % node.results.size()]);
      with.owners.resize(with.graph.values().size() - global.values().size(), node.results[0]);
    }
  }
  return with;
}

}  // namespace meshwork
