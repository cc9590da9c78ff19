#include "meshwork/layout/relayout_search.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// A search from one layout ends after it has looked at so many moves. A tensor of rank 4 on four axes has fewer.
constexpr int64_t kMostMoves = 200'000;
// What one thread remembers of all tensors: so many tensors, and moves, layouts and blocks of about 32 bytes each, of
// which a tensor takes at least kLeastKnown.
constexpr size_t kMostTensors = 256, kMostKnown = 1'000'000, kLeastKnown = 150;
// With more axes than this, no steps are looked at but exchanges from the first layout.
constexpr int kMaxAxes = 6;
// Permutes that are tried from one layout.
constexpr int kMaxPermutes = 256;
// On meshes of at most so many devices, what each receives in an exchange bounds its cost; on others, what those at the
// ends of all axes receive.
constexpr int64_t kFewDevices = 64;

using ListId = uint16_t;                         // of axes in some order; 0: none
using ListIds = absl::InlinedVector<ListId, 4>;  // per dim
using Dims = absl::InlinedVector<AxisList, 4>;

bool HasManyAxes(const Mesh& mesh) {
  int count = 0;
  for (const Axis& axis : mesh.axes()) count += axis.size > 1;
  return count > kMaxAxes;
}

// Numbers for lists of axes.
class AxisLists {
 public:
  explicit AxisLists(int num_axes) : num_axes_(static_cast<size_t>(num_axes)) { Add({}); }

  size_t size() const { return lists_.size(); }
  const AxisList& operator[](ListId id) const { return lists_[id]; }
  AxisSet set(ListId id) const { return sets_[id]; }
  // The set as bits, one per axis.
  uint32_t bits(ListId id) const { return bits_[id]; }

  ListId IdOf(std::span<const int> axes) {
    ListId id = 0;
    for (int axis : axes) id = With(id, axis);
    return id;
  }
  // The list with one more axis, the most minor.
  ListId With(ListId id, int axis) {
    const size_t at = id * num_axes_ + static_cast<size_t>(axis);
    if (next_[at] == 0) {
      AxisList more = lists_[id];
      more.push_back(axis);
      next_[at] = static_cast<ListId>(lists_.size());
      Add(std::move(more));
    }
    return next_[at];
  }

 private:
  void Add(AxisList axes) {
    sets_.emplace_back(axes);
    bits_.push_back(0);
    for (int axis : axes) bits_.back() |= uint32_t{1} << axis;
    lists_.push_back(std::move(axes));
    next_.resize(next_.size() + num_axes_, 0);
  }

  const size_t num_axes_;
  std::deque<AxisList> lists_;
  std::vector<AxisSet> sets_;
  std::vector<uint32_t> bits_;
  std::vector<ListId> next_;  // per list and axis: the list with this axis; 0: not asked for yet
};

// A step from one layout to another.
struct RelayoutMove {
  double seconds = 0;  // 0 if the topology is assumed
  int64_t wire = 0;    // elements
  int to = -1;         // a state
  ListId axes = 0;
  RelayoutKind kind = {};
  int16_t dim = -1, to_dim = -1;

  RelayoutCost cost() const {
    return {seconds, wire, kind == RelayoutKind::kShardSlice ? 0 : 1,
            kind == RelayoutKind::kAllToAllV ? 1 : 0, 1};
  }
};

// A layout of the tensor: how its dims are cut, and what is owed.
struct RelayoutState {
  ListIds cuts;
  AxisSet owed;
  int64_t local;                         // elements of the block
  int begin_moves = -1, end_moves = -1;  // those that lead from it; -1: not known yet
};

// The layouts of one tensor by numbers, and the moves between them, each found once.
class RelayoutSpace {
 public:
  RelayoutSpace(const Mesh& mesh, const Shape& shape, const RelayoutCosts& costs)
      : mesh_(mesh), shape_(shape), costs_(costs), lists_(mesh.num_axes()), blocks_(shape.size()) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      if (mesh.axis(axis).size > 1) all_.Add(axis);
    longest_ = mesh.num_axes() > 4 ? 2 : 4;
    if (mesh.num_devices() <= kFewDevices) {
      for (int64_t device = 0; device < mesh.num_devices(); ++device) devices_.push_back(device);
    } else if (!HasManyAxes(mesh)) {
      devices_ = {0};
      for (int axis : all_.ToList())
        for (size_t i = 0, size = devices_.size(); i < size; ++i)
          devices_.push_back(devices_[i] + (mesh.axis(axis).size - 1) * mesh.stride(axis));
    }
  }

  bool IsOf(const Mesh& mesh, const Shape& shape, const RelayoutCosts& costs) const {
    return shape_ == shape && mesh_ == mesh && costs_ == costs;
  }
  const Mesh& mesh() const { return mesh_; }
  const Shape& shape() const { return shape_; }
  const AxisLists& lists() const { return lists_; }
  const RelayoutState& state(int id) const { return states_[id]; }
  const RelayoutMove& move(int id) const { return moves_[id]; }
  // See kMostKnown.
  size_t size() const { return kLeastKnown + moves_.size() + 4 * states_.size() + num_extents_; }

  int IdOf(const Layout& layout) {
    ListIds cuts;
    for (const AxisList& axes : layout.dims()) cuts.push_back(lists_.IdOf(axes));
    return IdOf(cuts, layout.PartialAxes());
  }

  // The moves from a state, but for exchanges: [begin, end).
  std::pair<int, int> MovesFrom(int id) {
    if (states_[id].begin_moves < 0) FindMoves(id);
    return {states_[id].begin_moves, states_[id].end_moves};
  }

  // By one all_to_all_v, after a way of cost `at`; nothing if the whole certainly costs no less than `below`, or more
  // than `most`. REQUIRES: both owe the same.
  std::optional<RelayoutMove> Exchange(int from, int to, const RelayoutCost& at, const RelayoutCost& below,
                                       const RelayoutCost& most) {
    const RelayoutState &source = states_[from], &target = states_[to];
    const Group& group = GroupBetween(source.cuts, target.cuts);
    RelayoutMove move{.to = to, .kind = RelayoutKind::kAllToAllV};
    const auto is_too_dear = [&](int64_t wire) {
      move.wire = wire;
      move.seconds = costs_.is_by_time() ? group.exchange.Seconds(wire) : 0;
      const double seconds = at.seconds + move.seconds;
      if (seconds > below.seconds || seconds > most.seconds) return true;
      const RelayoutCost all = at + move.cost();
      return !(all < below) || most < all;
    };
    if (is_too_dear(0) || is_too_dear(LeastReceived(source.cuts, target.cuts)) ||
        is_too_dear(AllToAllVTraffic(mesh_, DimsOf(source.cuts), DimsOf(target.cuts), shape_).busiest()))
      return std::nullopt;
    return move;
  }

  Dims DimsOf(const ListIds& cuts) const {
    Dims dims;
    for (ListId id : cuts) dims.push_back(lists_[id]);
    return dims;
  }

 private:
  // How a list of axes cuts one dim.
  struct DimBlocks {
    int64_t size = -1;                 // of a block; -1: not computed yet
    uint64_t nests = 0;                // bit n: the axes after the first n can be added or removed (Nests)
    std::vector<Extent> extents = {};  // per device of devices_
  };

  const DimBlocks& BlocksOf(size_t dim, ListId id) {
    const std::vector<DimBlocks>& known = blocks_[dim];
    return id < known.size() && known[id].size >= 0 ? known[id] : FoundBlocks(dim, id);
  }

  const DimBlocks& FoundBlocks(size_t dim, ListId id) {
    std::vector<DimBlocks>& known = blocks_[dim];
    if (known.size() <= id) known.resize(lists_.size());
    DimBlocks& blocks = known[id];
    const AxisList& axes = lists_[id];
    blocks.size = BlockSize(mesh_, axes, shape_[dim]);
    for (size_t count = 0; count <= axes.size(); ++count)
      if (Nests(mesh_, axes, count, shape_[dim])) blocks.nests |= uint64_t{1} << count;
    for (int64_t device : devices_) blocks.extents.push_back(ExtentOf(mesh_, axes, shape_[dim], device));
    num_extents_ += devices_.size();
    return blocks;
  }
  // Whether the axes after the first `count` can be added or removed without changing the others' blocks.
  bool NestsAt(ListId id, size_t count, size_t dim) { return (BlocksOf(dim, id).nests >> count & 1) != 0; }

  int IdOf(const ListIds& cuts, AxisSet owed) {
    std::string key;
    for (ListId id : cuts) {
      key += static_cast<char>(id & 0xff);
      key += static_cast<char>(id >> 8);
    }
    for (int axis : owed.ToList()) key += static_cast<char>(axis);
    const auto [it, is_new] = ids_.try_emplace(std::move(key), static_cast<int>(states_.size()));
    if (is_new) {
      int64_t local = 1;
      for (size_t d = 0; d < cuts.size(); ++d) local *= BlocksOf(d, cuts[d]).size;
      states_.push_back({cuts, owed, local});
    }
    return it->second;
  }

  static constexpr size_t kGroups = 64;
  // Axes, and what an exchange along them costs.
  struct Group {
    AxisList axes;  // in the order of the mesh
    GroupSeconds exchange;
  };

  const Group& GroupBetween(const ListIds& from, const ListIds& to) {
    uint32_t moved = 0;
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] != to[d]) moved |= lists_.bits(from[d]) | lists_.bits(to[d]);
    const size_t at = moved % kGroups;
    for (const auto& [bits, group] : groups_[at])
      if (bits == moved) return group;
    AxisList axes;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis)
      if ((moved >> axis & 1) != 0) axes.push_back(axis);
    return groups_[at]
        .emplace_back(moved, Group{axes, costs_.InGroup(RelayoutKind::kAllToAllV, axes)})
        .second;
  }

  // The elements that one of devices_ must receive, the one that lacks most. AllToAllVTraffic looks at these devices,
  // too.
  int64_t LeastReceived(const ListIds& from, const ListIds& to) {
    absl::InlinedVector<std::pair<const Extent*, const Extent*>, 4> changed;
    int64_t others = 1, block = 1, most = 0;
    for (size_t d = 0; d < from.size(); ++d) {
      (from[d] == to[d] ? others : block) *= BlocksOf(d, to[d]).size;
      if (from[d] != to[d])
        changed.emplace_back(BlocksOf(d, from[d]).extents.data(), BlocksOf(d, to[d]).extents.data());
    }
    for (size_t device = 0; device < devices_.size() && most < block; ++device) {
      int64_t needed = 1, own = 1;
      for (const auto& [has, needs] : changed) {
        const Extent &a = has[device], &b = needs[device];
        needed *= b.size;
        own *=
            std::max<int64_t>(0, std::min(a.start + a.size, b.start + b.size) - std::max(a.start, b.start));
      }
      most = std::max(most, needed - own);
    }
    return most * others;
  }

  void Add(int from, RelayoutKind kind, const ListIds& cuts, AxisSet owed, ListId axes, int dim, int to_dim) {
    const int to = IdOf(cuts, owed);
    const AxisList& group = MovesByLayouts(kind) ? GroupBetween(states_[from].cuts, cuts).axes : lists_[axes];
    const int64_t wire =
        WireElementsOf(kind, states_[from].local, states_[to].local, mesh_.GroupSize(lists_[axes]));
    moves_.push_back({costs_.Of(kind, group, wire).seconds, wire, to, axes, kind, static_cast<int16_t>(dim),
                      static_cast<int16_t>(to_dim)});
  }

  // Calls f(axes, all) for every ordered selection of the set by which dim d, cut by `have`, can be cut further.
  // all: with `have` before them.
  template <typename F>
  void ForEachCut(ListId have, AxisSet from, size_t d, ListId more, ListId all, F&& f) {
    if (lists_[more].size() == longest_) return;
    for (int axis : from.ToList()) {
      const ListId longer = lists_.With(more, axis), whole = lists_.With(all, axis);
      if (NestsAt(whole, lists_[have].size(), d)) f(longer, whole);
      AxisSet rest = from;
      rest.Remove(axis);
      ForEachCut(have, rest, d, longer, whole, f);
    }
  }

  void FindMoves(int id) {
    const ListIds cuts = states_[id].cuts;  // copies: the states move
    const AxisSet owed = states_[id].owed;
    const auto begin = static_cast<int>(moves_.size());
    AxisSet used = owed;
    for (ListId axes : cuts) used = used.Union(lists_.set(axes));
    for (size_t d = 0; d < cuts.size(); ++d) {
      const auto cut = [&](RelayoutKind kind, ListId axes, ListId whole, AxisSet still_owed) {
        ListIds next = cuts;
        next[d] = whole;
        Add(id, kind, next, still_owed, axes, static_cast<int>(d), -1);
      };
      ForEachCut(cuts[d], all_.Minus(used), d, 0, cuts[d],
                 [&](ListId axes, ListId whole) { cut(RelayoutKind::kShardSlice, axes, whole, owed); });
      ForEachCut(cuts[d], owed, d, 0, cuts[d], [&](ListId axes, ListId whole) {
        cut(RelayoutKind::kReduceScatter, axes, whole, owed.Minus(lists_.set(axes)));
      });
      FindMinorMoves(id, cuts, owed, d);
    }
    const AxisList owed_list = owed.ToList();
    for (unsigned choice = 1; choice < 1u << owed_list.size(); ++choice) {
      AxisList axes;
      for (size_t i = 0; i < owed_list.size(); ++i)
        if ((choice >> i & 1) != 0) axes.push_back(owed_list[i]);
      Add(id, RelayoutKind::kAllReduce, cuts, owed.Minus(AxisSet(axes)), lists_.IdOf(axes), -1, -1);
    }
    ListIds next;
    int permutes = 0;
    Permute(id, cuts, all_.Minus(owed), next, permutes);
    states_[id].begin_moves = begin;
    states_[id].end_moves = static_cast<int>(moves_.size());
  }

  // The minor axes of dim d go, or move to another dim.
  void FindMinorMoves(int id, const ListIds& cuts, AxisSet owed, size_t d) {
    for (size_t count = lists_[cuts[d]].size(); count-- > 0;) {
      if (!NestsAt(cuts[d], count, d)) continue;
      const std::span<const int> axes(lists_[cuts[d]]);
      const ListId minor = lists_.IdOf(axes.subspan(count));
      ListIds next = cuts;
      next[d] = lists_.IdOf(axes.first(count));
      Add(id, RelayoutKind::kAllGather, next, owed, minor, static_cast<int>(d), -1);
      for (size_t e = 0; e < cuts.size(); ++e) {
        if (e == d) continue;
        for (int axis : axes.subspan(count)) next[e] = lists_.With(next[e], axis);
        if (NestsAt(next[e], lists_[cuts[e]].size(), e))
          Add(id, RelayoutKind::kAllToAll, next, owed, minor, static_cast<int>(d), static_cast<int>(e));
        next[e] = cuts[e];
      }
    }
  }

  // Every layout with blocks of the same shape, where they are cut evenly: dims are chosen one after the
  // other.
  void Permute(int id, const ListIds& cuts, AxisSet free, ListIds& next, int& count) {
    if (count >= kMaxPermutes) return;
    const size_t d = next.size();
    if (d == cuts.size()) {
      if (next == cuts) return;
      ++count;
      Add(id, RelayoutKind::kCollectivePermute, next, states_[id].owed, 0, -1, -1);
      return;
    }
    const int64_t shards = mesh_.GroupSize(lists_[cuts[d]]);
    const auto choose = [&](ListId axes) {
      next.push_back(axes);
      Permute(id, cuts, free.Minus(lists_.set(axes)), next, count);
      next.pop_back();
    };
    if (BlocksOf(d, cuts[d]).size * shards != shape_[d]) {
      if (lists_.set(cuts[d]).Minus(free).empty()) choose(cuts[d]);
      return;
    }
    ForEachOfSize(shards, free, 0, choose);
  }

  // Every ordered selection of the set whose sizes make `shards`.
  template <typename F>
  void ForEachOfSize(int64_t shards, AxisSet from, ListId axes, F&& f) {
    if (shards == 1) return f(axes);
    for (int axis : from.ToList()) {
      const int64_t size = mesh_.axis(axis).size;
      if (shards % size != 0) continue;
      AxisSet rest = from;
      rest.Remove(axis);
      ForEachOfSize(shards / size, rest, lists_.With(axes, axis), f);
    }
  }

  const Mesh mesh_;
  const Shape shape_;
  const RelayoutCosts costs_;
  AxisSet all_;                   // but those of size 1
  std::vector<int64_t> devices_;  // some
  size_t longest_ = 4;
  AxisLists lists_;
  std::array<std::vector<std::pair<uint32_t, Group>>, kGroups> groups_;  // by their axes, as bits
  std::vector<std::vector<DimBlocks>> blocks_;                           // per dim and list
  size_t num_extents_ = 0;                                               // of all blocks
  std::vector<RelayoutState> states_;
  std::unordered_map<std::string, int> ids_;
  std::vector<RelayoutMove> moves_;
};

// The cheapest ways from one state to all others, found as far as they are asked for.
class Paths {
 public:
  // kept: the axes over which a reduction stays owed; peak: the most elements that a step may hold.
  Paths(RelayoutSpace& space, int from, AxisSet kept, int64_t peak)
      : space_(space), from_(from), kept_(kept), peak_(peak), has_many_axes_(HasManyAxes(space.mesh())) {
    Reach(from, {}, -1, -1);
  }

  bool IsOf(int from, AxisSet kept, int64_t peak) const {
    return from_ == from && kept_ == kept && peak_ == peak;
  }

  // See kMostKnown.
  size_t size() const { return 3 * reached_.size() + 2 * visited_.size() + 2 * queue_.size(); }

  // The cheapest way to `to` of less cost than `below`. It does not depend on what was asked before.
  RelayoutSearch To(const Layout& from, const Layout& to, const RelayoutCost& below) {
    RelayoutSearch search;
    const int target = space_.IdOf(to);
    const AxisSet owed = space_.state(target).owed;
    const int64_t most_local = peak_ - space_.state(target).local;
    std::optional<RelayoutMove> exchange;  // the last step of the best way that ends so
    RelayoutCost by_exchange = below;
    size_t before_exchange = 0, count = 0;
    for (;; ++count) {
      const int reached = ReachedAt(target);
      const RelayoutCost by_steps = reached < 0 ? kNoCost : reached_[reached].cost;
      if (count == visited_.size() && !Visit()) {
        search.is_complete = !is_cut_short_;
        search.lower_bound = search.is_complete ? std::min(by_steps, by_exchange) : visited_.back().cost;
        break;
      }
      const Visited& at = visited_[count];
      if (at.cost >= std::min(by_steps, by_exchange)) {
        search.lower_bound = std::min(by_steps, by_exchange);
        break;
      }
      if (at.state == target || at.owed != owed || at.local > most_local) continue;
      const std::optional<RelayoutMove> move =
          space_.Exchange(at.state, target, at.cost, by_exchange, by_steps);
      if (!move.has_value()) continue;
      by_exchange = at.cost + move->cost();
      before_exchange = count;
      exchange = move;
    }
    search.looked_at = count == 0 ? 0 : visited_[count - 1].looked_at;
    const int reached = ReachedAt(target);
    // Of two ways that cost the same, the one whose last step begins at the cheaper state.
    const bool takes_steps =
        reached >= 0 && reached_[reached].cost < below &&
        (reached_[reached].cost < by_exchange ||
         (reached_[reached].cost == by_exchange && WhenVisited(reached_[reached].before) <= before_exchange));
    if (takes_steps) {
      search.steps = StepsTo(from, reached);
    } else if (exchange.has_value()) {
      search.steps = StepsTo(from, visited_[before_exchange].reached);
      search.steps->push_back(Written(from, *exchange));
    }
    return search;
  }

 private:
  struct Reached {
    RelayoutCost cost;
    int state;
    int before = -1, move = -1;  // what it is reached from, and how
    bool is_visited = false;
  };
  struct Visited {
    RelayoutCost cost;
    int state, reached;
    AxisSet owed;
    int64_t local;
    int64_t looked_at;  // moves until then
  };

  int ReachedAt(int state) const { return static_cast<size_t>(state) < at_.size() ? at_[state] : -1; }

  size_t WhenVisited(int reached) const {
    const auto found = std::find_if(visited_.begin(), visited_.end(),
                                    [&](const Visited& visited) { return visited.reached == reached; });
    return static_cast<size_t>(found - visited_.begin());
  }

  void Reach(int state, const RelayoutCost& cost, int before, int move) {
    if (!(cost < kNoCost)) return;  // it takes infinitely long
    if (at_.size() <= static_cast<size_t>(state)) at_.resize(static_cast<size_t>(state) + 1, -1);
    if (at_[state] < 0) {
      at_[state] = static_cast<int>(reached_.size());
      reached_.push_back({kNoCost, state});
    }
    Reached& reached = reached_[at_[state]];
    if (!(cost < reached.cost)) return;
    reached.cost = cost;
    reached.before = before;
    reached.move = move;
    queue_.push({cost, at_[state]});
  }

  // Visits the cheapest state that was reached and not visited. Returns false if there is none, or if too many steps
  // were looked at.
  bool Visit() {
    while (!queue_.empty()) {
      if (!visited_.empty() && (has_many_axes_ || visited_.back().looked_at > kMostMoves)) {
        is_cut_short_ = true;
        return false;
      }
      const auto [cost, at] = queue_.top();
      queue_.pop();
      if (reached_[at].is_visited || cost != reached_[at].cost) continue;
      reached_[at].is_visited = true;
      const int id = reached_[at].state;
      const auto [begin, end] = has_many_axes_ ? std::pair(0, 0) : space_.MovesFrom(id);
      const AxisSet owed = space_.state(id).owed;
      const int64_t local = space_.state(id).local, before = visited_.empty() ? 0 : visited_.back().looked_at;
      visited_.push_back({cost, id, at, owed, local, before + end - begin});
      for (int m = begin; m < end; ++m) {
        const RelayoutMove& move = space_.move(m);
        const RelayoutState& to = space_.state(move.to);
        if (to.local > peak_ - local || owed.Minus(to.owed).Intersects(kept_)) continue;
        Reach(move.to, cost + move.cost(), at, m);
      }
      return true;
    }
    return false;
  }

  RelayoutStep Written(const Layout& from, const RelayoutMove& move) const {
    const RelayoutState& state = space_.state(move.to);
    PartialSet partials;
    for (const Partial& partial : from.partials())
      if (state.owed.Contains(partial.axis)) partials.push_back(partial);
    const bool reduces = move.kind == RelayoutKind::kAllReduce || move.kind == RelayoutKind::kReduceScatter;
    const Dims dims = space_.DimsOf(state.cuts);
    return {.kind = move.kind,
            .axes = space_.lists()[move.axes],
            .dim = move.dim,
            .to_dim = move.to_dim,
            .op = reduces ? from.partials()[0].op : ReduceOp::kSum,
            .result = Layout(from.mesh(), {dims.begin(), dims.end()}, partials),
            .shape = space_.shape(),
            .wire_elements = move.wire};
  }

  std::vector<RelayoutStep> StepsTo(const Layout& from, int reached) const {
    std::vector<RelayoutStep> steps;
    for (; reached_[reached].before >= 0; reached = reached_[reached].before)
      steps.push_back(Written(from, space_.move(reached_[reached].move)));
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  using Entry = std::pair<RelayoutCost, int>;

  RelayoutSpace& space_;
  const int from_;
  const AxisSet kept_;
  const int64_t peak_;
  const bool has_many_axes_;
  std::vector<int> at_;  // per state: its index in reached_; -1: not reached
  std::vector<Reached> reached_;
  std::vector<Visited> visited_;  // in order
  bool is_cut_short_ = false;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

// Spaces and paths of the last questions: a planner asks for all pairs of some layouts of a tensor. What is forgotten
// is found again, so that results do not depend on it.
class KnownPaths {
 public:
  RelayoutSearch Search(const Layout& from, const Layout& to, const Shape& shape, const RelayoutCosts& costs,
                        const RelayoutCost& below, int64_t peak) {
    Tensor& tensor = TensorOf(from.mesh(), shape, costs);
    const size_t space_before = tensor.space.size();
    Paths& paths = PathsOf(tensor, from, to.PartialAxes(), peak);
    const size_t paths_before = paths.size();
    RelayoutSearch search = paths.To(from, to, below);
    Count(tensor, tensor.space.size() - space_before + paths.size() - paths_before);
    Forget();
    return search;
  }

 private:
  struct Tensor {
    Tensor(const Mesh& mesh, const Shape& shape, const RelayoutCosts& costs) : space(mesh, shape, costs) {}
    RelayoutSpace space;
    std::list<Paths> paths = {};  // the last that were asked for are at the end, here and below
    size_t size = 0;
  };

  // Moves `found` to the end of the list.
  template <typename T>
  static T& Last(std::list<T>& list, typename std::list<T>::iterator found) {
    list.splice(list.end(), list, found);
    return list.back();
  }

  void Count(Tensor& tensor, size_t more) {
    tensor.size += more;
    size_ += more;
  }

  Tensor& TensorOf(const Mesh& mesh, const Shape& shape, const RelayoutCosts& costs) {
    for (auto tensor = tensors_.end(); tensor != tensors_.begin();)
      if ((--tensor)->space.IsOf(mesh, shape, costs)) return Last(tensors_, tensor);
    Tensor& tensor = tensors_.emplace_back(mesh, shape, costs);
    Count(tensor, tensor.space.size());
    return tensor;
  }

  Paths& PathsOf(Tensor& tensor, const Layout& from, AxisSet kept, int64_t peak) {
    const int state = tensor.space.IdOf(from);
    for (auto paths = tensor.paths.end(); paths != tensor.paths.begin();)
      if ((--paths)->IsOf(state, kept, peak)) return Last(tensor.paths, paths);
    Paths& paths = tensor.paths.emplace_back(tensor.space, state, kept, peak);
    Count(tensor, paths.size());
    return paths;
  }

  // Other tensors first, then other paths of the last tensor, then this tensor.
  void Forget() {
    while (tensors_.size() > 1 && (tensors_.size() > kMostTensors || size_ > kMostKnown)) {
      size_ -= tensors_.front().size;
      tensors_.pop_front();
    }
    Tensor& last = tensors_.back();
    while (last.paths.size() > 1 && size_ > kMostKnown) {
      const size_t less = last.paths.front().size();
      last.paths.pop_front();
      last.size -= less;
      size_ -= less;
    }
    if (size_ <= kMostKnown) return;
    tensors_.clear();
    size_ = 0;
  }

  std::list<Tensor> tensors_;
  size_t size_ = 0;
};

}  // namespace

RelayoutSearch SearchRelayout(const Layout& from, const Layout& to, const Shape& shape,
                              const RelayoutCosts& costs, const RelayoutCost& below, int64_t peak_elements) {
  // No step holds more than the whole tensor twice.
  if (NumElements(shape) <= peak_elements / 2) peak_elements = std::numeric_limits<int64_t>::max();
  if (HasManyAxes(from.mesh())) {
    RelayoutSpace space(from.mesh(), shape, costs);
    return Paths(space, space.IdOf(from), to.PartialAxes(), peak_elements).To(from, to, below);
  }
  thread_local KnownPaths known;
  return known.Search(from, to, shape, costs, below, peak_elements);
}

}  // namespace meshwork
