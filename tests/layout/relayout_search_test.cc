// Where the greedy order takes several steps, plans send as little as any sequence of steps, and with a topology
// no sequence takes less time. The reference is the shortest path over all layouts of a mesh, without bounds, in
// a table of all single steps, with or without an exchange as the last step. And whole tensors whose dims are
// evenly sharded move no more than the lower bound of what devices lack and replicas have to send.
// MESHWORK_LONG_TESTS=1 takes every pair; without it, every nth of the first test.
#include "meshwork/layout/relayout_search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/layout/relayout_cost.h"

namespace meshwork::relayout_search_test {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();

// One collective, or none.
struct Way {
  int64_t wire = 0;
  AxisList axes;  // of the group
  int64_t messages = 0;
};

// The cost to minimize.
using Weight = std::function<double(const Way&)>;

int64_t Log2Up(int64_t n) {
  int64_t depth = 0;
  while (int64_t{1} << depth < n) ++depth;
  return depth;
}

// True if `longer` begins with `shorter` and has more axes.
bool IsLonger(const AxisList& longer, const AxisList& shorter) {
  return longer.size() > shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// The axes on which the dims of two layouts differ.
AxisList Moved(const Layout& s, const Layout& t) {
  AxisSet moved;
  for (int d = 0; d < s.rank(); ++d)
    if (s.dim(d) != t.dim(d)) moved = moved.Union(AxisSet(s.dim(d))).Union(AxisSet(t.dim(d)));
  return moved.ToList();
}

// The least weight of a single step from s to t, by the definitions in ops/collectives.cc; kNoWay if no step leads
// there.
class OneStep {
 public:
  OneStep(const Layout& s, const Layout& t, const Shape& shape, const Weight& weight)
      : s_(s), t_(t), shape_(shape), weight_(weight) {
    for (int d = 0; d < s.rank(); ++d)
      if (s.dim(d) != t.dim(d)) dims_.push_back(d);
  }

  double Least() {
    const int64_t before = NumElements(s_.LocalShape(shape_)), after = NumElements(t_.LocalShape(shape_));
    if (s_.partials() != t_.partials()) {
      Reduction(before);
      return least_;
    }
    if (dims_.size() == 1) {
      const int d = dims_[0];
      if (Cuts(s_, t_, d)) Try({});
      if (Cuts(t_, s_, d)) {
        const int64_t n = Ratio(s_, t_, d);
        Try({ShareOfOthers(after, n), Rest(s_.dim(d), t_.dim(d)), Log2Up(n)});
      }
    }
    if (dims_.size() == 2 && (Moves(dims_[0], dims_[1]) || Moves(dims_[1], dims_[0]))) {
      const int from = Moves(dims_[0], dims_[1]) ? dims_[0] : dims_[1];
      const int64_t n = Ratio(s_, t_, from);
      Try({ShareOfOthers(before, n), Rest(s_.dim(from), t_.dim(from)), n - 1});
    }
    if (Permutes()) {
      Try({before, Moved(s_, t_), 1});
    }
    return least_;
  }

 private:
  // t shards dim d as s does, and further.
  bool Cuts(const Layout& s, const Layout& t, int d) const {
    return IsLonger(t.dim(d), s.dim(d)) && Nests(s.mesh(), t.dim(d), s.dim(d).size(), shape_[d]);
  }
  static int64_t Ratio(const Layout& s, const Layout& t, int d) { return s.NumShards(d) / t.NumShards(d); }
  static AxisList Rest(const AxisList& longer, const AxisList& shorter) {
    return {longer.begin() + static_cast<int64_t>(shorter.size()), longer.end()};
  }

  bool Moves(int from, int to) const {
    return Cuts(t_, s_, from) && Cuts(s_, t_, to) &&
           Rest(s_.dim(from), t_.dim(from)) == Rest(t_.dim(to), s_.dim(to));
  }

  bool Permutes() const {
    return std::all_of(dims_.begin(), dims_.end(), [&](int d) {
      return s_.NumShards(d) == t_.NumShards(d) && !s_.IsPadded(shape_, d) && !t_.IsPadded(shape_, d);
    });
  }

  void Reduction(int64_t before) {
    const AxisSet paid = s_.PartialAxes().Minus(t_.PartialAxes());
    if (!t_.PartialAxes().Minus(s_.PartialAxes()).empty()) return;
    const int64_t n = s_.mesh().GroupSize(paid.ToList());
    if (dims_.empty()) Try({ShareOfOthers(2 * before, n), paid.ToList(), 2 * Log2Up(n)});
    if (dims_.size() != 1 || !Cuts(s_, t_, dims_[0])) return;
    if (AxisSet(Rest(t_.dim(dims_[0]), s_.dim(dims_[0]))) == paid)
      Try({ShareOfOthers(before, n), paid.ToList(), Log2Up(n)});
  }

  void Try(const Way& way) { least_ = std::min(least_, weight_(way)); }

  const Layout& s_;
  const Layout& t_;
  const Shape& shape_;
  const Weight& weight_;
  std::vector<int> dims_;  // the dims that differ
  double least_ = kNoWay;
};

// The least weight of a path from layout `source` to each layout.
std::vector<double> Distances(const std::vector<std::vector<double>>& steps, size_t source) {
  std::vector<double> distance(steps.size(), kNoWay);
  using Entry = std::pair<double, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({distance[source] = 0, source});
  while (!queue.empty()) {
    const auto [far, at] = queue.top();
    queue.pop();
    if (far != distance[at]) continue;
    for (size_t to = 0; to < steps.size(); ++to) {
      if (steps[at][to] == kNoWay || far + steps[at][to] >= distance[to]) continue;
      queue.push({distance[to] = far + steps[at][to], to});
    }
  }
  return distance;
}

bool IsEven(const Layout& layout, const Shape& shape) {
  for (int d = 0; d < layout.rank(); ++d)
    if (layout.IsPadded(shape, d)) return false;
  return true;
}

int64_t NumCollectives(const RelayoutPlan& plan) {
  return std::count_if(plan.steps.begin(), plan.steps.end(),
                       [](const RelayoutStep& step) { return step.kind != RelayoutKind::kShardSlice; });
}

// A plan of a single collective sends the least; with slices around the collective, only if it sends no more than
// a device lacks.
bool MayBeBeaten(const Layout& from, const Layout& to, const Shape& shape, const RelayoutPlan& greedy) {
  if (NumCollectives(greedy) != 1) return NumCollectives(greedy) > 1;
  if (from.partials() != to.partials()) return greedy.steps.back().kind == RelayoutKind::kShardSlice;
  return greedy.steps.size() > 1 && greedy.wire_elements > ExchangedTraffic(from, to, shape).received;
}

struct Counts {
  int64_t pairs = 0, better = 0, direct = 0;
};

// Compares bytes if the topology is assumed, else time.
void ExpectLeast(const Mesh& mesh, const Shape& shape, const Topology& topology, int64_t stride,
                 Counts& counts) {
  constexpr int64_t kElementBytes = 2;
  const std::vector<Link> links = topology.LinksOf(mesh);
  const bool by_time = !topology.is_assumed();
  const Weight weight = [&](const Way& way) {
    if (!by_time || way.axes.empty()) return static_cast<double>(way.wire);
    double latency = 0, bandwidth = kNoWay;
    for (int axis : way.axes) {
      latency = std::max(latency, links[axis].latency);
      bandwidth = std::min(bandwidth, links[axis].bandwidth);
    }
    return static_cast<double>(way.messages) * latency +
           static_cast<double>(way.wire * kElementBytes) / bandwidth;
  };
  RelayoutOptions options{.use_cache = false, .topology = topology, .element_bytes = kElementBytes};
  std::vector<Layout> layouts;
  for (const Layout& whole : AllWholeLayouts(mesh, static_cast<int>(shape.size())))
    for (const Layout& layout : WithAllPartials(whole, {ReduceOp::kSum})) layouts.push_back(layout);
  std::vector<std::vector<double>> steps(layouts.size());
  for (size_t s = 0; s < layouts.size(); ++s)
    for (size_t t = 0; t < layouts.size(); ++t)
      steps[s].push_back(s == t ? kNoWay : OneStep(layouts[s], layouts[t], shape, weight).Least());
  // By all_to_all_v alone; computed on demand (-1: not yet).
  std::vector<std::vector<double>> exchanges(layouts.size(), std::vector<double>(layouts.size(), -1));
  const auto exchange = [&](size_t s, size_t t) {
    const Layout &from = layouts[s], &to = layouts[t];
    if (s == t || from.partials() != to.partials()) return kNoWay;
    const AxisList moved = Moved(from, to);
    if (exchanges[s][t] < 0)
      exchanges[s][t] = weight({Exchanged(from, to, shape), moved, mesh.GroupSize(moved) - 1});
    return exchanges[s][t];
  };
  for (size_t s = 0; s < layouts.size(); ++s) {
    std::vector<double> by_steps;
    for (size_t t = 0; t < layouts.size(); ++t) {
      if (!layouts[t].PartialAxes().Minus(layouts[s].PartialAxes()).empty() || counts.pairs++ % stride != 0)
        continue;
      options.search = false;
      const RelayoutPlan greedy = PlanRelayout(layouts[s], layouts[t], shape, options).value();
      if (by_time ? greedy.seconds == 0 : !MayBeBeaten(layouts[s], layouts[t], shape, greedy)) continue;
      if (by_steps.empty()) by_steps = Distances(steps, s);
      double least = by_steps[t];
      for (size_t m = 0; m < layouts.size(); ++m)
        if (by_steps[m] < least) least = std::min(least, by_steps[m] + exchange(m, t));
      options.search = true;
      const RelayoutPlan plan = PlanRelayout(layouts[s], layouts[t], shape, options).value();
      const auto cost = [&](const RelayoutPlan& p) {
        return by_time ? p.seconds : static_cast<double>(p.wire_elements);
      };
      counts.better += least < cost(greedy) * (1 - 1e-9);
      counts.direct += plan.steps.back().kind == RelayoutKind::kAllToAllV;
      // Several collectives do not replace a single one to save one element, which rounding may do.
      const double slack = !by_time && NumCollectives(greedy) == 1 && NumCollectives(plan) == 1 ? 1 : 0;
      ASSERT_NEAR(cost(plan), least, least * 1e-9 + slack)
          << layouts[s].ToString() << " -> " << layouts[t].ToString() << " of " << ShapeToString(shape)
          << " on " << mesh.ToString();
      ASSERT_EQ(by_time ? plan.seconds_lower_bound : static_cast<double>(plan.lower_bound), cost(plan));
    }
  }
}

void ExpectLeastOnAllMeshes(const std::function<Topology(const Mesh&)>& topology, int64_t stride,
                            Counts& counts) {
  for (int64_t n = 2; n <= 12; ++n) {
    for (const Mesh& mesh : AllMeshes(n)) {
      if (mesh.num_axes() > 3) continue;
      for (const Shape& shape : {Shape{12}, Shape{7}, Shape{8, 6}, Shape{7, 5}, Shape{1, 12}}) {
        ExpectLeast(mesh, shape, topology(mesh), EverySo(stride), counts);
        if (::testing::Test::HasFatalFailure()) return;
      }
      if (LongTests() && mesh.num_axes() == 2) ExpectLeast(mesh, {4, 6, 5}, topology(mesh), 1, counts);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RelayoutSearchTest, NoSequenceOfStepsSendsLess) {
  Counts counts;
  ExpectLeastOnAllMeshes([](const Mesh&) { return Topology(); }, 97, counts);
  EXPECT_GT(counts.pairs, 100000);
  EXPECT_GT(counts.better, 10) << "the greedy order is never beaten";
  EXPECT_GT(counts.direct, 10) << "the exchange is never best";
}

// The first axis is slow, the others are fast; a message's latency is worth some bytes.
TEST(RelayoutSearchTest, NoSequenceOfStepsTakesLessTime) {
  Counts counts;
  ExpectLeastOnAllMeshes(
      [](const Mesh& mesh) {
        std::vector<Topology::AxisLink> links;
        for (int i = 0; i < mesh.num_axes(); ++i)
          links.push_back({mesh.axis(i).name, i == 0 ? Link{1e6, 1e-5} : Link{2e7, 2e-6}});
        return Topology::Create(mesh, links).value();
      },
      97, counts);
  EXPECT_GT(counts.pairs, 100000);
  EXPECT_GT(counts.better, 10) << "the greedy order is never beaten";
  EXPECT_GT(counts.direct, 10) << "the exchange is never best";
}

// Every pair of layouts on every mesh of up to 8 devices. Pairs that shard evenly all reach the lower bound.
TEST(RelayoutSearchTest, WholeTensorsMoveNoMoreThanTheyHaveTo) {
  int64_t pairs = 0;
  for (int64_t n = 2; n <= 8; ++n) {
    for (const Mesh& mesh : AllMeshes(n)) {
      for (const Shape& shape : {Shape{3360, 1920}, Shape{n * 4, n * 2, n}}) {
        if (n == 8 && shape.size() == 3 && mesh.num_axes() > 2 && !LongTests()) continue;
        const std::vector<Layout> layouts = AllWholeLayouts(mesh, static_cast<int>(shape.size()));
        for (const Layout& from : layouts) {
          for (const Layout& to : layouts) {
            const bool is_even = IsEven(from, shape) && IsEven(to, shape);
            if (!is_even) continue;
            ++pairs;
            const RelayoutPlan plan = PlanRelayout(from, to, shape, {.use_cache = false}).value();
            ASSERT_EQ(plan.wire_elements, LeastMoved(from, to, shape))
                << from.ToString() << " -> " << to.ToString() << " of " << ShapeToString(shape) << " on "
                << mesh.ToString();
          }
        }
      }
    }
  }
  EXPECT_GT(pairs, 5000);
}

// For groups of more devices than are counted one by one, the traffic of some devices is that of all.
TEST(RelayoutSearchTest, ExchangesOfLargeGroupsAreCountedAlike) {
  int64_t pairs = 0;
  for (const char* text : {"x=16,y=8", "x=9,y=8", "x=5,y=4,z=4"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    const std::vector<Layout> layouts = AllWholeLayouts(mesh, 2);
    const auto stride = static_cast<size_t>(mesh.num_axes() > 2 ? EverySo(11) : 1);
    for (size_t pair = 0; pair < layouts.size() * layouts.size(); pair += stride) {
      const Layout &from = layouts[pair / layouts.size()], &to = layouts[pair % layouts.size()];
      const Shape shape = {1440, 11520};
      if (!IsEven(from, shape) || !IsEven(to, shape) || mesh.GroupSize(Moved(from, to)) <= 64) continue;
      ++pairs;
      ASSERT_EQ(AllToAllVTraffic(mesh, from.dims(), to.dims(), shape), ExchangedTraffic(from, to, shape))
          << from.ToString() << " -> " << to.ToString() << " on " << text;
    }
  }
  EXPECT_GT(pairs, 100);
}

TEST(RelayoutSearchTest, SlicesCutAwayNothingThatWasSent) {
  struct Case {
    const char *mesh, *from, *to;
    int64_t wire;  // of f32[1024,1024]
  };
  for (const Case& c : {
           Case{"x=2,y=4", "{_,x}", "{(x,y),_}", 65536},
           Case{"x=2,y=4", "{x,_}", "{_,(x,y)}", 65536},
           Case{"x=4,y=2", "{_,y}", "{(y,x),_}", 65536},
           Case{"x=2,y=4", "{y,_}", "{(x,y),_}", 131072},
           Case{"x=2,y=4", "{y,_}", "{x,_}", 524288},
       }) {
    const Mesh mesh = Mesh::Parse(c.mesh).value();
    const Layout from = Layout::Parse(mesh, c.from).value(), to = Layout::Parse(mesh, c.to).value();
    EXPECT_EQ(PlanRelayout(from, to, {1024, 1024}).value().wire_elements, c.wire) << c.from << " -> " << c.to;
    EXPECT_EQ(LeastMoved(from, to, {1024, 1024}), c.wire) << c.from << " -> " << c.to;
  }
  // The same on meshes of more devices than the planner looks at.
  const Mesh large = Mesh::Parse("x=16,y=8").value(), huge = Mesh::Parse("x=1048576,y=1048576").value();
  const auto wire = [](const Mesh& mesh, const char* from, const char* to, const Shape& shape) {
    return PlanRelayout(Layout::Parse(mesh, from).value(), Layout::Parse(mesh, to).value(), shape)
        .value()
        .wire_elements;
  };
  EXPECT_EQ(wire(large, "{_,x}", "{(x,y),_}", {1024, 1024}), 8 * 1024 * 15 / 16);
  EXPECT_EQ(wire(large, "{y,_}", "{(x,y),_}", {1024, 1024}), 8 * 1024);
  EXPECT_EQ(wire(huge, "{_,x}", "{(x,y),_}", {int64_t{1} << 40, 1 << 20}), (1 << 20) - 1);
  // Parts of a sum that the target cuts away are not added up.
  const Mesh mesh = Mesh::Parse("x=3,y=3").value();
  EXPECT_EQ(
      PlanRelayout(Layout::Parse(mesh, "{_ | sum:x}").value(), Layout::Parse(mesh, "{(x,y)}").value(), {81})
          .value()
          .wire_elements,
      27);  // 18 for parts of a third, 9 to change places; not 54 for parts of the whole
}

TEST(RelayoutSearchTest, ReducesWithinTheHostsFirst) {
  const Mesh mesh = Mesh::Parse("host=4,device=8").value();
  const Topology topology = Topology::Create(mesh, {{"host", {1e9, 1e-5}}, {"device", {1e11, 1e-6}}}).value();
  const RelayoutPlan plan = PlanRelayout(Layout::Parse(mesh, "{_,_ | sum:(host,device)}").value(),
                                         Layout::Replicated(mesh, 2), {1024, 1024}, {.topology = topology})
                                .value();
  ASSERT_EQ(plan.steps.size(), 3);
  EXPECT_EQ(plan.steps[0].kind, RelayoutKind::kReduceScatter);
  EXPECT_EQ(plan.steps[0].axes, AxisList{1});
  EXPECT_EQ(plan.steps[1].kind, RelayoutKind::kAllReduce);
  EXPECT_EQ(plan.steps[1].axes, AxisList{0});
  EXPECT_EQ(plan.steps[2].kind, RelayoutKind::kAllGather);
  EXPECT_EQ(plan.steps[2].axes, AxisList{1});
  // Of 4 MiB, 7/8 in each direction within a host, and 2·3/4 of an eighth across hosts.
  const double bytes = 1024 * 1024 * 4;
  EXPECT_NEAR(plan.seconds, 2 * (3e-6 + bytes * 7 / 8 / 1e11) + 4e-5 + bytes / 8 * 1.5 / 1e9, 1e-12);
  EXPECT_EQ(plan.seconds, plan.seconds_lower_bound);
}

// Each plan ends at its target, even where every way takes longer than a double can say.
TEST(RelayoutSearchTest, LinksThatNeverEndHavePlansToo) {
  for (const auto& [axes, from, to, shape] :
       std::vector<std::tuple<const char*, const char*, const char*, Shape>>{
           {"x=8", "{x}", "{_}", {64}},
           {"x=8", "{x,_}", "{_,x}", {64, 64}},
           {"x=4,y=2", "{(x,y),_}", "{_,(y,x)}", {64, 64}}}) {
    const Mesh mesh = Mesh::Parse(axes).value();
    const Layout source = Layout::Parse(mesh, from).value(), target = Layout::Parse(mesh, to).value();
    for (const Link& link : {Link{1e-310, 0}, Link{1e9, 1e308}}) {
      std::vector<Topology::AxisLink> links;
      for (const Axis& axis : mesh.axes()) links.push_back({axis.name, link});
      const RelayoutPlan plan =
          PlanRelayout(source, target, shape, {.topology = Topology::Create(mesh, links).value()}).value();
      ASSERT_FALSE(plan.steps.empty()) << from << " -> " << to;
      EXPECT_EQ(plan.steps.back().result, target);
    }
  }
}

// More tensors than a thread remembers have the same plans when they are asked for again.
TEST(RelayoutSearchTest, WhatIsForgottenIsFoundAgain) {
  const Mesh mesh = Mesh::Parse("x=4,y=2").value();
  const Topology topology = Topology::Create(mesh, {{"x", {1e9, 1e-5}}, {"y", {1e11, 1e-6}}}).value();
  const Layout from = Layout::Parse(mesh, "{(x,y),_}").value(), to = Layout::Parse(mesh, "{y,x}").value();
  const RelayoutCosts costs(mesh, topology, /*element_bytes=*/4);
  std::vector<RelayoutCost> found;
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 600; ++i) {
      const RelayoutSearch search =
          SearchRelayout(from, to, {8 + 8 * i, 16}, costs, kNoCost, std::numeric_limits<int64_t>::max());
      ASSERT_TRUE(search.steps.has_value());
      if (round == 0) found.push_back(search.lower_bound);
      else EXPECT_EQ(search.lower_bound.seconds, found[static_cast<size_t>(i)].seconds);
    }
  }
}

// Blocks of [2,4] of 8 by 8 become blocks of [4,2]: half of the devices already have one element of their block.
TEST(RelayoutSearchTest, GoesStraightWhereStepsSendMore) {
  const Mesh mesh = Mesh::Parse("x=4,y=2").value();
  const RelayoutPlan plan =
      PlanRelayout(Layout::Parse(mesh, "{x,y}").value(), Layout::Parse(mesh, "{y,x}").value(), {8, 8})
          .value();
  ASSERT_EQ(plan.steps.size(), 1);
  EXPECT_EQ(plan.steps[0].kind, RelayoutKind::kAllToAllV);
  EXPECT_EQ(plan.wire_elements, 8);
  EXPECT_EQ(plan.lower_bound, 8);
  EXPECT_EQ(plan.peak_elements, 16);
  // On meshes of more devices the planner looks at some, and the plan is the same.
  const Mesh large = Mesh::Parse("x=4096,y=2048").value();
  const RelayoutPlan other =
      PlanRelayout(Layout::Parse(large, "{x,y}").value(), Layout::Parse(large, "{y,x}").value(), {8192, 8192})
          .value();
  ASSERT_EQ(other.steps.size(), 1);
  EXPECT_EQ(other.steps[0].kind, RelayoutKind::kAllToAllV);
  EXPECT_EQ(other.wire_elements, 8);
}

TEST(RelayoutSearchTest, StaysWithinTheMemoryWhereAPlanDoes) {
  const Mesh mesh = Mesh::Parse("x=4,y=2").value();
  const Layout from = Layout::Parse(mesh, "{(x,y),_}").value(), to = Layout::Parse(mesh, "{_,(y,x)}").value();
  const Shape shape = {64, 64};
  int64_t peak = 0;
  for (const RelayoutOptions& options : {RelayoutOptions{}, RelayoutOptions{.peak_elements = 2 * 512}}) {
    const RelayoutPlan plan = PlanRelayout(from, to, shape, options).value();
    EXPECT_EQ(plan.wire_elements, plan.lower_bound);
    peak = plan.peak_elements;
  }
  EXPECT_LE(peak, 2 * 512);
  // No plan fits: the greedy order is returned, with the memory that it needs.
  const RelayoutPlan large = PlanRelayout(from, to, shape, {.peak_elements = 1}).value();
  EXPECT_GT(large.peak_elements, 1);
  EXPECT_EQ(large.steps.back().result, to);
}

}  // namespace
}  // namespace meshwork::relayout_search_test
