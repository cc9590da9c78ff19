// The minimum cut (Ford and Fulkerson, Canadian Journal of Mathematics 8, 1956), by shortest augmenting paths. A value
// is two vertices: "a server computes it" and "servers have it". The capacity of the edge between them is the value's
// bytes; if the edge is cut, the value is pushed.
#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/train/parameter_server/update_plan.h"

namespace meshwork {
namespace {

constexpr int64_t kUncuttable = std::numeric_limits<int64_t>::max() / 4;

class FlowNetwork {
 public:
  static constexpr int kSource = 0, kSink = 1;
  FlowNetwork() : edges_of_(2) {}

  int AddVertex() {
    edges_of_.emplace_back();
    return static_cast<int>(edges_of_.size()) - 1;
  }
  void AddEdge(int from, int to, int64_t capacity) {
    edges_of_[static_cast<size_t>(from)].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[static_cast<size_t>(to)].push_back(edges_.size());
    edges_.push_back({from, 0});
  }
  // Cuts the network. Returns the vertices of a path from the source to the sink that cannot be cut; empty if there is
  // none.
  std::vector<int> Cut() {
    for (;;) {
      const std::vector<size_t> path = FindPath();
      if (path.empty()) return {};
      int64_t width = kUncuttable;
      for (size_t e : path) width = std::min(width, edges_[e].capacity);
      if (width >= kUncuttable / 2) {
        std::vector<int> vertices;
        for (size_t e : path) vertices.push_back(edges_[e].to);
        return vertices;
      }
      for (size_t e : path) edges_[e].capacity -= width, edges_[e ^ 1].capacity += width;
    }
  }
  // After Cut: whether a vertex lies on the source's side. No other minimum cut lies nearer to the source.
  bool IsLeft(int vertex) const { return reached_[static_cast<size_t>(vertex)]; }

 private:
  struct Edge {
    int to;
    int64_t capacity;
  };

  std::vector<size_t> FindPath() {
    reached_.assign(edges_of_.size(), false);
    std::vector<size_t> by(edges_of_.size());
    std::deque<int> queue = {kSource};
    reached_[kSource] = true;
    while (!queue.empty() && !reached_[kSink]) {
      const int at = queue.front();
      queue.pop_front();
      for (size_t e : edges_of_[static_cast<size_t>(at)]) {
        const auto to = static_cast<size_t>(edges_[e].to);
        if (edges_[e].capacity == 0 || reached_[to]) continue;
        reached_[to] = true;
        by[to] = e;
        queue.push_back(edges_[e].to);
      }
    }
    std::vector<size_t> path;
    if (!reached_[kSink]) return path;
    for (int at = kSink; at != kSource; at = edges_[by[static_cast<size_t>(at)] ^ 1].to)
      path.push_back(by[static_cast<size_t>(at)]);
    std::reverse(path.begin(), path.end());
    return path;
  }

  std::vector<Edge> edges_;  // edge e ^ 1 is edge e turned round
  std::vector<std::vector<size_t>> edges_of_;
  std::vector<bool> reached_;
};

class UpdateCut {
 public:
  UpdateCut(const UpdateFacts& facts, const std::vector<bool>& runs_here, VariableGroup& group)
      : facts_(facts), graph_(facts.graph), runs_here_(runs_here), group_(group) {}

  absl::Status Run() {
    for (int a : group_.arguments) {
      const ValueId root = facts_.updates[static_cast<size_t>(a)];
      if (root == kNoValue || IsThere(root)) continue;
      flow_.AddEdge(Visit(root) + 1, FlowNetwork::kSink, kUncuttable);
    }
    for (size_t i = 0; i < order_.size(); ++i) Connect(order_[i]);
    const std::vector<int> path = flow_.Cut();
    if (!path.empty()) return Refuse(path);
    for (const auto& [value, vertex] : vertices_)
      if (flow_.IsLeft(vertex) && !flow_.IsLeft(vertex + 1)) group_.pushed.push_back(value);
    return absl::OkStatus();
  }

 private:
  // Whether servers have the value without a push.
  bool IsThere(ValueId value) const {
    if (facts_.is_shared[static_cast<size_t>(value)]) return true;
    const int a = facts_.argument_of[static_cast<size_t>(value)];
    return std::binary_search(group_.arguments.begin(), group_.arguments.end(), a);
  }
  // The vertex "a server computes it"; the next one is "servers have it".
  int Visit(ValueId value) {
    const auto [found, is_new] = vertices_.try_emplace(value, -1);
    if (is_new) {
      found->second = flow_.AddVertex();
      flow_.AddVertex();
      order_.push_back(value);
    }
    return found->second;
  }
  void Connect(ValueId value) {
    const auto v = static_cast<size_t>(value);
    const int vertex = vertices_.at(value);
    const bool can_be_pushed = facts_.state[v] < 0 && !facts_.is_own[v];
    flow_.AddEdge(vertex, vertex + 1,
                  can_be_pushed ? std::max<int64_t>(1, graph_.value(value).type.bytes()) : kUncuttable);
    const int n = graph_.value(value).node;
    if (n < 0 || !runs_here_[static_cast<size_t>(n)]) {
      flow_.AddEdge(FlowNetwork::kSource, vertex, kUncuttable);
      return;
    }
    const Node& node = graph_.nodes()[static_cast<size_t>(n)];
    for (ValueId operand : ComputedFrom(node))
      if (!IsThere(operand)) flow_.AddEdge(Visit(operand) + 1, vertex, kUncuttable);
  }
  ValueId ValueOf(int vertex) const {
    const auto found = std::find_if(vertices_.begin(), vertices_.end(), [&](const auto& entry) {
      return entry.second == vertex || entry.second + 1 == vertex;
    });
    return found->first;
  }

  absl::Status Refuse(const std::vector<int>& path) const {
    const ValueId first = ValueOf(path.front()), root = ValueOf(path[path.size() - 2]);
    int variable = -1;
    for (int a : group_.arguments)
      if (facts_.updates[static_cast<size_t>(a)] == root && variable < 0) variable = a;
    const int n = graph_.value(first).node;
    const std::string op = n < 0 ? "a value" : graph_.Describe(n);
    const std::string& state = graph_.argument_name(std::max(0, facts_.state[static_cast<size_t>(first)]));
    if (group_.pieces > 1)
      return InvalidArgument(
          "SplitTraining: the update of {} is not by row: {} reads \"{}\", which workers do not have, across its rows, and "
          "the variable is kept in {} pieces; keep it in one, by a partitioner that gives 1 for \"{}\".",
          QuotedVariable(graph_, variable), op, state, group_.pieces, graph_.argument_name(group_.lead));
    return InvalidArgument(
        "SplitTraining: the update of {} needs {}, which servers do not run, of \"{}\", which workers do not have; declare "
        "\"{}\" trainable, or give an output that reads it, so that workers have it, too.",
        QuotedVariable(graph_, variable), op, state, state);
  }

  const UpdateFacts& facts_;
  const Graph& graph_;
  const std::vector<bool>& runs_here_;
  VariableGroup& group_;
  FlowNetwork flow_;
  std::map<ValueId, int> vertices_;
  std::vector<ValueId> order_;
};

}  // namespace

absl::Status CutUpdates(const UpdateFacts& facts, const std::vector<bool>& runs_here, VariableGroup& group) {
  return UpdateCut(facts, runs_here, group).Run();
}

}  // namespace meshwork
