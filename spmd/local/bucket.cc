#include "meshwork/spmd/local/bucket.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/collective_spec.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/kept_values.h"

namespace meshwork {
namespace {

// Per node: how many collectives lie on the longest way from its results to the end of the step.
std::vector<int> DepthFromEnd(const Graph& graph) {
  std::vector<int> below(graph.values().size(), 0), depth(graph.nodes().size(), 0);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (ValueId id : node.results) depth[i] = std::max(depth[i], below[id]);
    const int above = depth[i] + (node.row->kind == OpKind::kCollective ? 1 : 0);
    for (ValueId id : node.operands) below[id] = std::max(below[id], above);
  }
  return depth;
}

// Nodes that are written as one, in the order of the program; most are alone.
using Unit = absl::InlinedVector<int, 2>;

// What collectives must have in common to be written as one.
struct Kind {
  CollectiveKind op;
  DType dtype;
  std::vector<int> axes;
  int64_t dim;         // -1 if the op has none
  ReduceOp reduction;  // kSum if the op has none

  auto operator<=>(const Kind&) const = default;  // NOLINT(modernize-use-nullptr): it misreads <=>
};

struct Bucket {
  int level;
  Unit nodes;
};

// Every collective has a level. It is below the levels of all collectives that need its result, so that joining
// collectives of one level makes no cycle. At first it is the last possible level, counted from the end: there
// the gradients of all layers meet. Then a bucket is dissolved if all its collectives could run in earlier buckets.
class Buckets {
 public:
  explicit Buckets(const Graph& graph)
      : graph_(graph), level_(DepthFromEnd(graph)), earliest_(level_.size(), 0) {
    // Gathers that other collectives follow are not joined: they would hold the gathered values for longer. In a
    // program that gathers on use, no gathers and no reduce-scatters are joined, so that no two weights, or their
    // gradients, are whole at a time.
    const bool on_use = GathersOnUse(graph);
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      const CollectiveKind kind = graph.nodes()[n].row->collective;
      joins_.push_back(kind == CollectiveKind::kAllReduce ||
                       (kind == CollectiveKind::kReduceScatter && !on_use) ||
                       (kind == CollectiveKind::kAllGather && !on_use && level_[n] == 0));
    }
    for (int& level : level_) level = -level;
    std::map<std::pair<Kind, int>, size_t> open;
    for (int n = 0; n < static_cast<int>(graph.nodes().size()); ++n) {
      if (!joins_[n]) continue;
      std::vector<Bucket>& buckets = buckets_[KindOf(n)];
      const auto [it, is_new] = open.try_emplace({KindOf(n), level_[n]}, buckets.size());
      if (is_new) buckets.push_back({level_[n], {}});
      Put(n, buckets[it->second]);
    }
    for (auto& [kind, buckets] : buckets_)
      std::stable_sort(buckets.begin(), buckets.end(),
                       [](const Bucket& a, const Bucket& b) { return a.level < b.level; });
    do FindEarliest();
    while (Dissolve());
  }

  // All nodes in units. Buckets of more than `most_bytes` are split.
  std::vector<Unit> Units(int64_t most_bytes) && {
    std::vector<Unit> units;
    for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n)
      if (!joins_[n]) units.push_back({n});
    for (auto& [kind, buckets] : buckets_) {
      for (Bucket& bucket : buckets) {
        std::sort(bucket.nodes.begin(), bucket.nodes.end());
        int64_t bytes = 0;
        for (int n : bucket.nodes) {
          const int64_t more = BytesOf(n);
          if (n == bucket.nodes[0] || more > most_bytes - bytes) {
            units.emplace_back();
            bytes = 0;
          }
          units.back().push_back(n);
          bytes += more;
        }
      }
    }
    return units;
  }

 private:
  Kind KindOf(int n) const {
    const Node& node = graph_.nodes()[n];
    const CollectiveSpec collective = CollectiveOf(node);
    return {.op = collective.kind,
            .dtype = graph_.value(node.operands[0]).type.dtype,
            .axes = {collective.axes.begin(), collective.axes.end()},
            .dim = collective.dim,
            .reduction = collective.op};
  }

  // The bytes of operands or of results, whichever are more.
  int64_t BytesOf(int n) const {
    int64_t in = 0, out = 0;
    for (ValueId id : graph_.nodes()[n].operands) in += graph_.value(id).type.bytes();
    for (ValueId id : graph_.nodes()[n].results) out += graph_.value(id).type.bytes();
    return std::max(in, out);
  }

  void Put(int n, Bucket& bucket) {
    level_[n] = bucket.level;
    bucket.nodes.push_back(n);
  }

  // Finds, per node, the first level above those of the collectives that it needs.
  void FindEarliest() {
    const int lowest = level_.empty() ? 0 : *std::min_element(level_.begin(), level_.end());
    std::vector<int> value(graph_.values().size(), lowest);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      earliest_[n] = lowest;
      for (ValueId id : node.operands) earliest_[n] = std::max(earliest_[n], value[id]);
      for (ValueId id : node.results)
        value[id] = node.row->kind == OpKind::kCollective ? level_[n] + 1 : earliest_[n];
    }
  }

  // Dissolves buckets. Returns whether there was one to dissolve.
  bool Dissolve() {
    bool any = false;
    for (auto& [kind, buckets] : buckets_) {
      for (size_t b = 0; b < buckets.size(); ++b) {
        Unit hosts;  // per node of the bucket
        for (int n : buckets[b].nodes) {
          const int host = HostOf(n, b, buckets);
          if (host < 0) break;
          hosts.push_back(host);
        }
        if (hosts.empty() || hosts.size() < buckets[b].nodes.size()) continue;
        for (size_t i = 0; i < hosts.size(); ++i) Put(buckets[b].nodes[i], buckets[hosts[i]]);
        buckets[b].nodes.clear();
        any = true;
      }
    }
    return any;
  }

  // The last other bucket that node n of bucket `own` could run in, or -1.
  int HostOf(int n, size_t own, const std::vector<Bucket>& buckets) const {
    const auto later =
        std::upper_bound(buckets.begin() + static_cast<int64_t>(own), buckets.end(), buckets[own].level,
                         [](int level, const Bucket& bucket) { return level < bucket.level; });
    for (auto b = static_cast<size_t>(later - buckets.begin()); b-- > 0;) {
      const Bucket& bucket = buckets[b];
      if (b == own || bucket.nodes.empty()) continue;
      return bucket.level < earliest_[n] ? -1 : static_cast<int>(b);
    }
    return -1;
  }

  const Graph& graph_;
  std::vector<bool> joins_;  // per node: it may share a bucket
  std::vector<int> level_;   // per node; it matters for collectives
  std::vector<int> earliest_;
  std::map<Kind, std::vector<Bucket>> buckets_;  // by level
};

// Orders units so that every operand comes first; among the ready ones the one whose last node
// came first in the program is next.
std::vector<Unit> Schedule(const Graph& graph, std::vector<Unit> units) {
  std::vector<int> unit_of(graph.nodes().size());
  for (size_t u = 0; u < units.size(); ++u)
    for (int node : units[u]) unit_of[node] = static_cast<int>(u);
  const Readers readers = ReadersOf(graph);
  std::vector<int> waits(units.size(), 0);
  for (size_t u = 0; u < units.size(); ++u)
    for (int node : units[u])
      for (ValueId id : graph.nodes()[node].operands) waits[u] += graph.value(id).node >= 0;
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  for (size_t u = 0; u < units.size(); ++u)
    if (waits[u] == 0) ready.push({units[u].back(), static_cast<int>(u)});
  std::vector<Unit> order;
  while (!ready.empty()) {
    const int u = ready.top().second;
    ready.pop();
    order.push_back(std::move(units[u]));
    for (int node : order.back())
      for (ValueId id : graph.nodes()[node].results)
        for (const auto [reader, i] : readers[id])
          if (const int next = unit_of[reader]; --waits[next] == 0) ready.push({units[next].back(), next});
  }
  MESHWORK_CHECK(order.size() == units.size(), "a bucket waits for itself");
  return order;
}

// Appends the unit's nodes to `to` as one.
void Append(const Graph& from, const Unit& unit, Graph& to, std::vector<ValueId>& map) {
  if (unit.size() == 1) return CopyNode(from, from.nodes()[unit[0]], to, map);
  Node joined = from.nodes()[unit[0]];
  joined.operands.clear();
  std::vector<ValueInfo> infos;
  std::vector<ValueId> results;
  std::string causes = joined.cause;
  for (size_t i = 0; i < unit.size(); ++i) {
    const Node& node = from.nodes()[unit[i]];
    for (ValueId id : node.operands) joined.operands.push_back(map[id]);
    for (ValueId id : node.results) {
      infos.push_back(from.value(id));
      results.push_back(id);
    }
    if (i > 0 && !node.cause.empty()) causes += "; " + node.cause.str();
  }
  joined.cause = std::move(causes);
  const int index = to.AddNode(std::move(joined), std::move(infos));
  for (size_t i = 0; i < results.size(); ++i) map[results[i]] = to.nodes()[index].results[i];
}

// Joins those of the body itself, not those of regions in it.
Graph BucketBody(const Graph& local, int64_t most_bytes) {
  Graph to(local.mesh());
  to.name = local.name;
  to.Reserve(local.nodes().size());
  std::vector<ValueId> map(local.values().size(), kNoValue);
  for (const Argument& argument : local.arguments())
    map[argument.value] =
        to.AddArgument(local.value(argument.value), argument.is_variable, argument.initializer);
  for (const Unit& unit : Schedule(local, Buckets(local).Units(most_bytes))) Append(local, unit, to, map);
  for (const VariableUpdate& update : local.updates()) to.AddUpdate({update.argument, map[update.value]});
  for (const OutputInfo& output : local.outputs()) to.AddOutput({output.name, map[output.value]});
  return to;
}

}  // namespace

Graph BucketReductions(const Graph& local, int64_t most_bytes) {
  return WithRegions(local, [&](const Graph& body) { return BucketBody(body, most_bytes); });
}

}  // namespace meshwork
