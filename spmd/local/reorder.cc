#include "meshwork/spmd/local/reorder.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// The state of a value's memory while nodes are put in order.
struct Liveness {
  int64_t bytes = 0;           // that its last reader frees; 0 of what stays to the end
  int readers = 0;             // nodes that have still to read it
  int64_t reader_sum = 0;      // of their indices: with one left, which one it is
  int updated_by = -1;         // of a variable: the node that makes its new value
  ValueId updates = kNoValue;  // of a new value: the variable
};

class Scheduler {
 public:
  explicit Scheduler(const Graph& graph)
      : graph_(graph),
        values_(graph.values().size()),
        readers_(ReadersOf(graph)),
        waits_(graph.nodes().size(), 0),
        next_collective_(graph.nodes().size(), -1),
        rank_(graph.nodes().size()),
        is_ready_(graph.nodes().size(), false) {
    FindLiveness();
    FindWaits();
  }

  std::vector<int> Run() {
    for (int n = 0; n < size(); ++n)
      if (waits_[n] == 0) MakeReady(n);
    std::vector<int> order;
    while (!ready_.empty()) {
      const int node = std::get<2>(*ready_.begin());
      ready_.erase(ready_.begin());
      is_ready_[node] = false;
      order.push_back(node);
      Place(node);
    }
    MESHWORK_CHECK(order.size() == graph_.nodes().size(), "a node waits for itself");
    return order;
  }

 private:
  // The bytes by which live memory grows with the node, the bytes that it makes, its place in the program.
  using Rank = std::tuple<int64_t, int64_t, int>;

  int size() const { return static_cast<int>(graph_.nodes().size()); }

  static absl::InlinedVector<ValueId, 4> Distinct(const Node& node) {
    absl::InlinedVector<ValueId, 4> operands = node.operands;
    std::sort(operands.begin(), operands.end());
    operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
    return operands;
  }

  void FindLiveness() {
    for (size_t v = 0; v < values_.size(); ++v) values_[v].bytes = graph_.values()[v].type.bytes();
    for (int n = 0; n < size(); ++n) {
      for (ValueId id : Distinct(graph_.nodes()[n])) {
        ++values_[id].readers;
        values_[id].reader_sum += n;
      }
    }
    for (const Argument& argument : graph_.arguments())
      if (argument.is_variable) values_[argument.value].bytes = 0;
    for (const OutputInfo& output : graph_.outputs()) values_[output.value].bytes = 0;
    for (const VariableUpdate& update : graph_.updates()) {
      const ValueId variable = graph_.arguments()[update.argument].value;
      values_[update.value].bytes = 0;
      values_[update.value].updates = variable;
      values_[variable].updated_by = graph_.value(update.value).node;
    }
  }

  void FindWaits() {
    int last_collective = -1;
    for (int n = 0; n < size(); ++n) {
      const Node& node = graph_.nodes()[n];
      for (ValueId id : node.operands) waits_[n] += graph_.value(id).node >= 0;
      if (node.row->kind != OpKind::kCollective) continue;
      if (last_collective >= 0) {
        next_collective_[last_collective] = n;
        ++waits_[n];
      }
      last_collective = n;
    }
  }

  // Whether the node is the only one that has still to read the value.
  bool ReadsLast(int n, ValueId id) const { return values_[id].readers == 1 && values_[id].reader_sum == n; }

  // Whether result r of node n would take no memory of its own if n came next. The rules are those of ir/plan/storage.h
  // for a whole program, except for views of values that are read later.
  bool IsInPlace(int n, size_t r) const {
    const Node& node = graph_.nodes()[n];
    const bool is_view = node.row->is_view;
    const int o = is_view ? 0 : r < node.row->in_place.size() ? node.row->in_place[r] : -1;
    const ValueId variable = values_[node.results[r]].updates;
    if (variable != kNoValue)
      return values_[variable].readers == 0 ||
             (ReadsLast(n, variable) && o >= 0 && node.operands[o] == variable);
    if (o < 0) return false;
    const ValueId operand = node.operands[o];
    return ReadsLast(n, operand) && values_[operand].bytes > 0 && graph_.value(operand).node >= 0 &&
           (is_view || graph_.value(operand).type == graph_.value(node.results[r]).type) &&
           std::count(node.operands.begin(), node.operands.end(), operand) == 1;
  }

  Rank RankOf(int n) const {
    const Node& node = graph_.nodes()[n];
    int64_t made = 0, freed = 0;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId result = node.results[r];
      const int64_t bytes = graph_.value(result).type.bytes();
      if (IsInPlace(n, r)) {
        // A result in an operand's memory keeps that memory live; a result in a variable's memory takes none.
        if (values_[result].updates == kNoValue) freed -= bytes;
        continue;
      }
      made += bytes;
      if (values_[result].readers == 0) freed += values_[result].bytes;
    }
    for (ValueId id : Distinct(node))
      if (ReadsLast(n, id)) freed += values_[id].bytes;
    return {made - freed, made, n};
  }

  void MakeReady(int n) {
    is_ready_[n] = true;
    ready_.insert(rank_[n] = RankOf(n));
  }
  void RankAgain(int n) {
    if (n < 0 || !is_ready_[n]) return;
    ready_.erase(rank_[n]);
    MakeReady(n);
  }

  void Place(int n) {
    const Node& node = graph_.nodes()[n];
    for (ValueId id : Distinct(node)) {
      Liveness& value = values_[id];
      --value.readers;
      value.reader_sum -= n;
      if (value.readers == 1) RankAgain(static_cast<int>(value.reader_sum));
      if (value.readers <= 1) RankAgain(value.updated_by);
    }
    for (ValueId id : node.results)
      for (const auto [reader, i] : readers_[id]) WaitLess(reader);
    if (next_collective_[n] >= 0) WaitLess(next_collective_[n]);
  }
  void WaitLess(int n) {
    if (--waits_[n] == 0) MakeReady(n);
  }

  const Graph& graph_;
  std::vector<Liveness> values_;
  const Readers readers_;
  std::vector<int> waits_;  // per node: operands and the collective before it that are not there yet
  std::vector<int> next_collective_;  // per node
  std::vector<Rank> rank_;            // per node that is ready
  std::vector<bool> is_ready_;
  std::set<Rank> ready_;
};

}  // namespace

Graph Reorder(const Graph& local) {
  Rewriter rewriter(local);
  for (int node : Scheduler(local).Run()) rewriter.Copy(local.nodes()[node]);
  Graph ordered = std::move(rewriter).Finish();
  return LogicalPeakBytes(ordered) < LogicalPeakBytes(local) ? ordered : local;
}

}  // namespace meshwork
