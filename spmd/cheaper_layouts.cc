#include "meshwork/spmd/cheaper_layouts.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/spmd/optimizer_state.h"

namespace meshwork {
namespace {

constexpr int64_t kMostTried = 64;

// What a device reads and computes.
double WorkOf(const Graph& local) {
  double work = 0;
  for (const Node& node : local.nodes()) {
    if (node.row->kind != OpKind::kCompute) continue;
    double read = 0;
    for (ValueId id : node.operands) read += static_cast<double>(local.value(id).type.num_elements());
    work += std::max(FlopsOf(local, node), read);
  }
  return work;
}

// A device may do this much more: what is cut unevenly counts its padding.
constexpr double kSameWork = 1.02;

struct Candidate {
  ValueId value;
  Layout layout;
};

// Every layout that differs in one step.
std::vector<Layout> Neighbours(const Layout& layout) {
  std::vector<Layout> all;
  const Mesh& mesh = layout.mesh();
  for (int d = 0; d < layout.rank(); ++d) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (mesh.axis(axis).size == 1 || layout.ShardedAxes().Contains(axis)) continue;
      AxisList more = layout.dim(d);
      more.push_back(axis);
      all.push_back(layout.WithDim(d, more));
    }
    if (layout.dim(d).empty()) continue;
    AxisList rest = layout.dim(d);
    const int minor = rest.back();
    rest.pop_back();
    const Layout dropped = layout.WithDim(d, rest);
    all.push_back(dropped);
    for (int e = 0; e < layout.rank(); ++e) {
      if (e == d) continue;
      AxisList moved = layout.dim(e);
      moved.push_back(minor);
      all.push_back(dropped.WithDim(e, moved));
    }
  }
  return all;
}

// The state of weights, whose layout is the weight's and changes with it.
class States {
 public:
  explicit States(const Graph& graph) : is_of_weight_(graph.values().size(), false) {
    for (const WeightState& found : FindWeightStates(graph)) {
      const ValueId weight = graph.arguments()[found.weight].value;
      for (int argument : found.state) {
        const ValueId state = graph.arguments()[argument].value;
        const ValueInfo &a = graph.value(weight), &b = graph.value(state);
        if (a.type.shape != b.type.shape || a.layout != b.layout) continue;
        of_[weight].push_back(state);
        is_of_weight_[state] = true;
      }
    }
  }

  std::vector<ValueId> Of(ValueId value) const {
    const auto it = of_.find(value);
    return it == of_.end() ? std::vector<ValueId>() : it->second;
  }
  // Whether the value changes together with a weight.
  bool IsOfWeight(ValueId value) const { return is_of_weight_[value]; }

 private:
  std::unordered_map<ValueId, std::vector<ValueId>> of_;
  std::vector<bool> is_of_weight_;  // per value
};

// Those of the largest values first.
std::vector<Candidate> Candidates(const Graph& global, const States& states) {
  std::vector<Candidate> all;
  for (ValueId id = 0; id < static_cast<ValueId>(global.values().size()); ++id) {
    const ValueInfo& info = global.value(id);
    if (!info.layout.has_value() || info.layout->is_strided() || !info.modes.empty() || states.IsOfWeight(id))
      continue;
    for (Layout& layout : Neighbours(*info.layout)) all.push_back({id, std::move(layout)});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    return global.value(a.value).type.bytes() > global.value(b.value).type.bytes();
  });
  return all;
}

Graph WithLayout(const Graph& global, const States& states, const Candidate& candidate) {
  Graph changed = global;
  changed.mutable_value(candidate.value).layout = candidate.layout;
  for (ValueId id : states.Of(candidate.value)) changed.mutable_value(id).layout = candidate.layout;
  return changed;
}

std::string NameOf(const Graph& global, const ValueInfo& info) {
  if (!info.name.empty()) return "%" + info.name;
  return fmt::format("{} {}", info.node < 0 ? "input" : global.nodes()[info.node].row->name,
                     info.type.ToString());
}

}  // namespace

LayoutSearch CheaperLayouts(const Graph& global, const Program& program, const CompileOptions& options,
                            int most, int64_t most_nodes) {
  CompileOptions allowed = options;
  allowed.verify = false;
  allowed.dump = nullptr;
  // Whether budgets allow a layout is asked of the cheapest, until `most` are refused: a refusal takes
  // compiles of its own to find a way out.
  CompileOptions quick = allowed;
  quick.memory_budget = 0;
  quick.replication_budget = std::numeric_limits<int64_t>::max();
  auto weight = [](const StepCost& cost) { return std::tuple(cost.seconds, cost.bytes, cost.collectives); };
  const StepCost now = CostOf(program.body, options.topology);
  const double work = WorkOf(program.body);
  struct Found {
    LayoutChange change;
    Candidate candidate;
  };
  const States states(global);
  std::vector<Candidate> candidates = Candidates(global, states);
  LayoutSearch search{.layouts = static_cast<int64_t>(candidates.size())};
  const int64_t nodes = std::max<int64_t>(1, static_cast<int64_t>(global.nodes().size()));
  search.tried = std::min({search.layouts, kMostTried, std::max<int64_t>(1, most_nodes / nodes)});
  candidates.erase(candidates.begin() + search.tried, candidates.end());
  std::vector<Found> all;
  for (const Candidate& candidate : candidates) {
    const absl::StatusOr<Program> other = Compile(WithLayout(global, states, candidate), quick);
    if (!other.ok() || WorkOf(other->body) > work * kSameWork) continue;
    const StepCost cost = CostOf(other->body, options.topology);
    if (weight(cost) >= weight(now)) continue;
    const ValueInfo& info = global.value(candidate.value);
    all.push_back({{.value = NameOf(global, info),
                    .from = info.layout->ToString(),
                    .to = candidate.layout.ToString(),
                    .location = info.location.ToString(),
                    .cost = cost},
                   candidate});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Found& a, const Found& b) {
    return weight(a.change.cost) < weight(b.change.cost);
  });
  std::vector<LayoutChange>& changes = search.changes;
  std::set<std::pair<std::string, std::string>> seen;  // one per value
  int refused = 0;
  for (Found& found : all) {
    if (changes.size() == static_cast<size_t>(most) || refused > most) break;
    if (seen.contains({found.change.value, found.change.location})) continue;
    const absl::StatusOr<Program> allowed_program =
        Compile(WithLayout(global, states, found.candidate), allowed);
    if (!allowed_program.ok()) {
      ++refused;
      continue;
    }
    Explanation then = Explain(*allowed_program, options.topology);
    found.change.cost = then.cost;
    found.change.collectives = std::move(then.collectives);
    if (weight(found.change.cost) >= weight(now) || WorkOf(allowed_program->body) > work * kSameWork)
      continue;
    seen.emplace(found.change.value, found.change.location);
    changes.push_back(std::move(found.change));
  }
  std::stable_sort(changes.begin(), changes.end(), [&](const LayoutChange& a, const LayoutChange& b) {
    return weight(a.cost) < weight(b.cost);
  });
  return search;
}

}  // namespace meshwork
