#include "meshwork/layout/relayout_search.h"

#include <algorithm>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// The search gives up after so many states. A tensor of rank 3 on three axes has a few hundred.
constexpr size_t kMaxStates = 4000;
// With more axes than this, the search does not begin.
constexpr int kMaxAxes = 6;
// Permutes that are tried from one state.
constexpr int kMaxPermutes = 256;

using Dims = absl::InlinedVector<AxisList, 4>;

// A layout in few bytes: the axes of each dim, ended by -1; then the axes over which something is owed.
std::string KeyOf(const Dims& dims, const AxisSet& owed) {
  std::string key;
  for (const AxisList& axes : dims) {
    for (int axis : axes) key += static_cast<char>(axis);
    key += '\xff';
  }
  for (int axis : owed.ToList()) key += static_cast<char>(axis);
  return key;
}

struct Move {
  RelayoutKind kind;
  AxisList axes;
  int dim = -1, to_dim = -1;
};

struct State {
  Dims dims;
  AxisSet owed;
  int64_t local = 0;  // elements of the block
  RelayoutCost cost;
  int before = -1;  // the state it is reached from, by `move`
  Move move = {};
  bool is_done = false;
};

class Search {
 public:
  Search(const Layout& from, const Layout& to, const Shape& shape, const RelayoutCosts& costs,
         const RelayoutCost& below, int64_t peak_elements)
      : mesh_(from.mesh()),
        from_(from),
        to_(to),
        shape_(shape),
        costs_(costs),
        best_(below),
        peak_(peak_elements) {
    for (int axis = 0; axis < mesh_.num_axes(); ++axis)
      if (mesh_.axis(axis).size > 1) all_.Add(axis);
    target_ = KeyOf(DimsOf(to), to.PartialAxes());
    longest_ = mesh_.num_axes() > 4 ? 2 : 4;
  }

  RelayoutSearch Run() {
    Reach(DimsOf(from_), from_.PartialAxes(), {}, -1, {});
    if (all_.ToList().size() > kMaxAxes) {
      StepDirectly(0);
      return {Found(), false, {}};
    }
    while (!queue_.empty()) {
      const auto [cost, s] = queue_.top();
      queue_.pop();
      if (cost >= best_) break;
      if (states_[s].is_done || cost != states_[s].cost) continue;
      states_[s].is_done = true;
      if (s == found_) return {Found(), true, cost};
      if (states_.size() > kMaxStates) return {Found(), false, cost};
      Expand(s);
    }
    return {std::nullopt, true, best_};
  }

 private:
  static Dims DimsOf(const Layout& layout) { return Dims(layout.dims().begin(), layout.dims().end()); }

  int64_t LocalOf(const Dims& dims) const {
    int64_t local = 1;
    for (size_t d = 0; d < dims.size(); ++d) local *= BlockSize(mesh_, dims[d], shape_[d]);
    return local;
  }

  void Reach(const Dims& dims, AxisSet owed, const RelayoutCost& cost, int before, Move move) {
    std::string key = KeyOf(dims, owed);
    const auto [it, is_new] = ids_.try_emplace(std::move(key), static_cast<int>(states_.size()));
    if (is_new) {
      states_.push_back({.dims = dims, .owed = owed, .local = LocalOf(dims), .cost = kNoCost});
      if (it->first == target_) found_ = it->second;
    }
    State& state = states_[it->second];
    if (!(cost < state.cost)) return;
    state.cost = cost;
    state.before = before;
    state.move = std::move(move);
    queue_.push({cost, it->second});
  }

  // One step from state s.
  void Step(int s, RelayoutKind kind, const Dims& dims, AxisSet owed, Move move) {
    const RelayoutCost& at = states_[s].cost;
    const int64_t before = states_[s].local, after = LocalOf(dims);
    if (before + after > peak_) return;
    const AxisList group = MovesByLayouts(kind) ? MovedAxes(states_[s].dims, dims) : move.axes;
    if (!(at + costs_.Of(kind, group, 0) < best_)) return;  // too dear even if it sent nothing
    const int64_t wire = kind == RelayoutKind::kAllToAllV
                             ? AllToAllVTraffic(mesh_, states_[s].dims, dims, shape_).busiest()
                             : WireElementsOf(kind, before, after, mesh_.GroupSize(move.axes));
    move.kind = kind;
    const RelayoutCost cost = at + costs_.Of(kind, group, wire);
    if (cost < best_ && (found_ < 0 || cost < states_[found_].cost))
      Reach(dims, owed, cost, s, std::move(move));
  }

  // One step to the target, if the target owes the same reductions.
  void StepDirectly(int s) {
    if (states_[s].owed == to_.PartialAxes())
      Step(s, RelayoutKind::kAllToAllV, DimsOf(to_), states_[s].owed, {});
  }

  // Whether the axes after the first `count` can be added or removed without changing the others' blocks.
  bool NestsAt(const AxisList& axes, size_t count, int d) const {
    return Nests(mesh_, axes, count, shape_[d]);
  }

  // Calls f(axes) for every ordered selection of the set that dim d can be cut by further.
  template <typename F>
  void ForEachCut(const AxisList& have, AxisSet from, int d, AxisList& more, F&& f) const {
    if (more.size() == longest_) return;
    for (int axis : from.ToList()) {
      more.push_back(axis);
      AxisList whole = have;
      whole.insert(whole.end(), more.begin(), more.end());
      if (NestsAt(whole, have.size(), d)) f(std::as_const(more), whole);
      AxisSet rest = from;
      rest.Remove(axis);
      ForEachCut(have, rest, d, more, f);
      more.pop_back();
    }
  }

  void Expand(int s) {
    const Dims dims = states_[s].dims;  // copies: the states move
    const AxisSet owed = states_[s].owed;
    AxisSet used = owed;
    for (const AxisList& axes : dims) used = used.Union(AxisSet(axes));
    const AxisSet payable = owed.Minus(to_.PartialAxes());
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
      AxisList more;
      ForEachCut(dims[d], all_.Minus(used), d, more, [&](const AxisList& axes, const AxisList& whole) {
        Dims next = dims;
        next[d] = whole;
        Step(s, RelayoutKind::kShardSlice, next, owed, {.axes = axes, .dim = d});
      });
      ForEachCut(dims[d], payable, d, more, [&](const AxisList& axes, const AxisList& whole) {
        Dims next = dims;
        next[d] = whole;
        Step(s, RelayoutKind::kReduceScatter, next, owed.Minus(AxisSet(axes)), {.axes = axes, .dim = d});
      });
      ExpandMinor(s, dims, owed, d);
    }
    const AxisList owed_list = payable.ToList();
    for (unsigned choice = 1; choice < 1u << owed_list.size(); ++choice) {
      AxisList axes;
      for (size_t i = 0; i < owed_list.size(); ++i)
        if ((choice >> i & 1) != 0) axes.push_back(owed_list[i]);
      Step(s, RelayoutKind::kAllReduce, dims, owed.Minus(AxisSet(axes)), {.axes = axes});
    }
    Dims next;
    int permutes = 0;
    Permute(s, dims, all_.Minus(owed), next, permutes);
    StepDirectly(s);
  }

  // The minor axes of dim d go, or move to another dim.
  void ExpandMinor(int s, const Dims& dims, AxisSet owed, int d) {
    for (size_t count = dims[d].size(); count-- > 0;) {
      if (!NestsAt(dims[d], count, d)) continue;
      const AxisList rest(dims[d].begin(), dims[d].begin() + static_cast<int64_t>(count));
      const AxisList minor(dims[d].begin() + static_cast<int64_t>(count), dims[d].end());
      Dims next = dims;
      next[d] = rest;
      Step(s, RelayoutKind::kAllGather, next, owed, {.axes = minor, .dim = d});
      for (int e = 0; e < static_cast<int>(dims.size()); ++e) {
        if (e == d) continue;
        next[e].insert(next[e].end(), minor.begin(), minor.end());
        if (NestsAt(next[e], dims[e].size(), e))
          Step(s, RelayoutKind::kAllToAll, next, owed, {.axes = minor, .dim = d, .to_dim = e});
        next[e] = dims[e];
      }
    }
  }

  // Every layout with blocks of the same shape, where they are cut evenly: dims are chosen one after the
  // other.
  void Permute(int s, const Dims& dims, AxisSet free, Dims& next, int& count) {
    if (count >= kMaxPermutes) return;
    const size_t d = next.size();
    if (d == dims.size()) {
      if (next == dims) return;
      ++count;
      Step(s, RelayoutKind::kCollectivePermute, next, states_[s].owed, {});
      return;
    }
    const int64_t shards = mesh_.GroupSize(dims[d]);
    auto choose = [&](const AxisList& axes) {
      next.push_back(axes);
      Permute(s, dims, free.Minus(AxisSet(axes)), next, count);
      next.pop_back();
    };
    if (BlockSize(mesh_, dims[d], shape_[d]) * shards != shape_[d]) {
      if (AxisSet(dims[d]).Minus(free).empty()) choose(dims[d]);
      return;
    }
    AxisList axes;
    ForEachOfSize(shards, free, axes, choose);
  }

  // Every ordered selection of the set whose sizes make `shards`.
  template <typename F>
  void ForEachOfSize(int64_t shards, AxisSet from, AxisList& axes, F&& f) const {
    if (shards == 1) return f(std::as_const(axes));
    for (int axis : from.ToList()) {
      const int64_t size = mesh_.axis(axis).size;
      if (shards % size != 0) continue;
      axes.push_back(axis);
      AxisSet rest = from;
      rest.Remove(axis);
      ForEachOfSize(shards / size, rest, axes, f);
      axes.pop_back();
    }
  }

  // The steps to the target, if it was reached.
  std::optional<std::vector<RelayoutStep>> Found() const {
    if (found_ < 0) return std::nullopt;
    std::vector<RelayoutStep> steps;
    for (int s = found_; states_[s].before >= 0; s = states_[s].before) {
      const State& state = states_[s];
      PartialSet partials;
      for (const Partial& partial : from_.partials())
        if (state.owed.Contains(partial.axis)) partials.push_back(partial);
      const bool reduces =
          state.move.kind == RelayoutKind::kAllReduce || state.move.kind == RelayoutKind::kReduceScatter;
      steps.push_back({.kind = state.move.kind,
                       .axes = state.move.axes,
                       .dim = state.move.dim,
                       .to_dim = state.move.to_dim,
                       .op = reduces ? from_.partials()[0].op : ReduceOp::kSum,
                       .result = Layout(mesh_, {state.dims.begin(), state.dims.end()}, partials),
                       .shape = shape_,
                       .wire_elements = state.cost.wire_elements - states_[state.before].cost.wire_elements});
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  using Entry = std::pair<RelayoutCost, int>;

  const Mesh& mesh_;
  const Layout& from_;
  const Layout& to_;
  const Shape& shape_;
  const RelayoutCosts& costs_;
  const RelayoutCost best_;
  const int64_t peak_;
  AxisSet all_;  // but those of size 1
  size_t longest_ = 4;
  std::string target_;
  int found_ = -1;
  std::vector<State> states_;
  std::unordered_map<std::string, int> ids_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

RelayoutSearch SearchRelayout(const Layout& from, const Layout& to, const Shape& shape,
                              const RelayoutCosts& costs, const RelayoutCost& below, int64_t peak_elements) {
  return Search(from, to, shape, costs, below, peak_elements).Run();
}

}  // namespace meshwork
