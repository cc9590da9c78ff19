#include "meshwork/spmd/local/recompute.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/plan/storage.h"
#include "meshwork/ir/readers.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// So many nodes are run again for one value at most.
constexpr int kMostNodes = 8;
// So many values are tried one by one where taking several at once has not helped.
constexpr size_t kTried = 8;
// The most rounds. Each lowers a peak.
constexpr int kRounds = 64;

bool IsCheap(const Graph& graph, const Node& node) {
  if (node.row->kind == OpKind::kLocal) return true;
  if (node.row->kind != OpKind::kCompute || node.row->flops != nullptr) return false;
  const Rule rule = RuleOf(graph, node);
  return std::none_of(rule.letters.begin(), rule.letters.end(),
                      [](const Letter& letter) { return letter.reduced; });
}

// A value that is live at a node and idle there, and the node before which it is computed again.
struct Late {
  ValueId value;
  int reader;
};
// A value and its views, which lie in one memory.
using LateTogether = std::vector<Late>;

class Recomputer {
 public:
  Recomputer(const Graph& graph, int node)
      : graph_(graph), readers_(ReadersOf(graph)), node_(node), is_variable_(graph.values().size(), false) {
    for (const Argument& argument : graph.arguments()) is_variable_[argument.value] = argument.is_variable;
    const std::vector<ValueId> contents = FindContents(graph);
    views_.resize(contents.size());
    for (size_t v = 0; v < contents.size(); ++v)
      if (contents[v] != static_cast<ValueId>(v)) views_[contents[v]].push_back(static_cast<ValueId>(v));
  }

  // Those of the given values that may be computed again, with their views.
  std::vector<LateTogether> Candidates(const std::vector<LiveValue>& live) const {
    std::vector<LateTogether> candidates;
    for (const LiveValue& one : live)
      if (LateTogether late = LateOf(one.value); !late.empty()) candidates.push_back(std::move(late));
    return candidates;
  }

  // The program that computes these again. Later readers of a value read what was computed again.
  Graph Write(const std::vector<Late>& late) const {
    std::vector<std::vector<ValueId>> before(graph_.nodes().size());
    std::vector<ValueId> dropped;
    for (const Late& one : late) {
      before[one.reader].push_back(one.value);
      dropped.push_back(one.value);
    }
    Rewriter rewriter(graph_);
    for (int n = 0; n < static_cast<int>(graph_.nodes().size()); ++n) {
      for (ValueId value : before[n]) {
        rewriter.Set(value, Again(value, dropped, n, rewriter));
        dropped.erase(std::find(dropped.begin(), dropped.end(), value));
      }
      rewriter.Copy(graph_.nodes()[n]);
    }
    return std::move(rewriter).Finish();
  }

 private:
  static bool Holds(const std::vector<ValueId>& values, ValueId id) {
    return std::find(values.begin(), values.end(), id) != values.end();
  }

  // Whether the value stays to the end.
  bool Stays(ValueId id) const { return is_variable_[id] || readers_.exits(id) > 0; }
  // Whether the value is live in any case when node n runs.
  bool IsLiveAt(ValueId id, int n) const { return Stays(id) || readers_.last(id) >= n; }
  // The first node from n on that reads the value; -1 if none does.
  int NextReader(ValueId id, int n) const {
    const auto next =
        std::lower_bound(readers_[id].begin(), readers_[id].end(), n,
                         [](const Readers::Reader& reader, int at) { return reader.node < at; });
    return next == readers_[id].end() ? -1 : next->node;
  }

  // The value and its views that are read behind the node; empty if one of them must stay.
  LateTogether LateOf(ValueId value) const {
    std::vector<ValueId> all = {value};
    all.insert(all.end(), views_[value].begin(), views_[value].end());
    LateTogether late;
    for (ValueId id : all) {
      const int made_by = graph_.value(id).node;
      if (made_by >= node_) continue;
      const int reader = NextReader(id, node_);
      if (made_by < 0 || Stays(id) || reader == node_) return {};
      if (reader < 0) continue;
      int left = kMostNodes;
      if (!IsCheap(graph_, graph_.nodes()[made_by]) || !CanCompute(id, all, reader, left)) return {};
      late.push_back({id, reader});
    }
    return late;
  }

  // Whether the value is available when node n runs, without the dropped ones: it is live, or at most `left` cheap
  // ops make it from values that are live.
  bool CanCompute(ValueId value, const std::vector<ValueId>& dropped, int n, int& left) const {
    if (!Holds(dropped, value) && IsLiveAt(value, n)) return true;
    const int made_by = graph_.value(value).node;
    if (made_by < 0) return false;
    const Node& node = graph_.nodes()[made_by];
    if (!IsCheap(graph_, node) || left-- == 0) return false;
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) { return CanCompute(operand, dropped, n, left); });
  }

  // Computes the value again in front of node n; returns the new one. An operand that is not available otherwise is
  // read as it was, and stays live until then.
  ValueId Again(ValueId value, const std::vector<ValueId>& dropped, int n, Rewriter& rewriter) const {
    const Node& node = graph_.nodes()[graph_.value(value).node];
    Node copy = node;
    copy.cause = fmt::format("{} is computed again to need less memory", node.row->name);
    for (ValueId& operand : copy.operands) {
      int left = kMostNodes;
      const bool is_there = !Holds(dropped, operand) && IsLiveAt(operand, n);
      operand = is_there || !CanCompute(operand, dropped, n, left) ? rewriter.Map(operand)
                                                                   : Again(operand, dropped, n, rewriter);
    }
    std::vector<ValueInfo> infos;
    size_t result = 0;
    for (size_t r = 0; r < node.results.size(); ++r) {
      infos.push_back(graph_.value(node.results[r]));
      infos.back().name.clear();
      if (node.results[r] == value) result = r;
    }
    const int index = rewriter.to().AddNode(std::move(copy), std::move(infos));
    return rewriter.to().nodes()[index].results[result];
  }

  const Graph& graph_;
  const Readers readers_;
  const int node_;
  std::vector<bool> is_variable_;            // per value
  std::vector<std::vector<ValueId>> views_;  // per value that is no view
};

// How much a program needs, and at how many nodes.
std::pair<int64_t, int64_t> Need(const MemoryReport& report) {
  return {report.peak_bytes, report.peak_nodes};
}

// One round: the program that computes values which are idle at the peak again, the largest first; nothing if none
// helps.
std::optional<Graph> Lowered(const Graph& local, const MemoryReport& report, int64_t budget) {
  const Recomputer recomputer(local, report.node);
  const std::vector<LateTogether> candidates = recomputer.Candidates(report.largest);
  const auto helps = [&](const Graph& graph) { return Need(ReportMemory(graph, 0)) < Need(report); };
  std::vector<Late> several;
  int64_t freed = 0;
  for (const LateTogether& late : candidates) {
    if (freed >= report.peak_bytes - budget) break;
    several.insert(several.end(), late.begin(), late.end());
    freed += local.value(late[0].value).type.bytes();
  }
  if (several.size() > 1)
    if (Graph graph = recomputer.Write(several); helps(graph)) return graph;
  for (size_t i = 0; i < std::min(kTried, candidates.size()); ++i)
    if (Graph graph = recomputer.Write(candidates[i]); helps(graph)) return graph;
  return std::nullopt;
}

}  // namespace

Graph Recompute(const Graph& local, int64_t budget) {
  Graph best = local;
  MemoryReport report = ReportMemory(best, std::numeric_limits<int>::max());
  for (int round = 0; round < kRounds && report.peak_bytes > budget; ++round) {
    std::optional<Graph> lowered = Lowered(best, report, budget);
    if (!lowered.has_value()) break;
    best = *std::move(lowered);
    report = ReportMemory(best, std::numeric_limits<int>::max());
  }
  return report.peak_bytes < LogicalPeakBytes(local) ? best : local;
}

}  // namespace meshwork
