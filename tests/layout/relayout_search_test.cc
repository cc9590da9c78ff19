// Where the greedy order takes several collectives, plans send as little as any sequence of steps: held
// against shortest paths over all layouts of a mesh, found without bounds from a table of what leads to what.
// MESHWORK_LONG_TESTS=1 takes every pair; without it, every so many-th.
#include <algorithm>
#include <queue>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "layout/relayout.h"

namespace meshwork {
namespace {

constexpr int64_t kNoWay = INT64_MAX;

// a, then more.
bool IsLonger(const AxisList& longer, const AxisList& shorter) {
  return longer.size() > shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

// What a device sends in the one step from s to t, by the definitions in ops/collectives.cc; kNoWay if there
// is none.
class OneStep {
 public:
  OneStep(const Layout& s, const Layout& t, const Shape& shape) : s_(s), t_(t), shape_(shape) {
    for (int d = 0; d < s.rank(); ++d)
      if (s.dim(d) != t.dim(d)) dims_.push_back(d);
  }

  int64_t Wire() const {
    const int64_t before = NumElements(s_.LocalShape(shape_)), after = NumElements(t_.LocalShape(shape_));
    if (s_.partials() != t_.partials()) return Reduction(before);
    int64_t wire = kNoWay;
    if (dims_.size() == 1) {
      const int d = dims_[0];
      if (Cuts(s_, t_, d)) wire = 0;
      if (Cuts(t_, s_, d)) wire = std::min(wire, ShareOfOthers(after, Ratio(s_, t_, d)));
    }
    if (dims_.size() == 2 && (Moves(dims_[0], dims_[1]) || Moves(dims_[1], dims_[0]))) {
      const int from = Moves(dims_[0], dims_[1]) ? dims_[0] : dims_[1];
      wire = std::min(wire, ShareOfOthers(before, Ratio(s_, t_, from)));
    }
    if (Permutes()) wire = std::min(wire, before);
    return wire;
  }

 private:
  // t cuts what s holds of dim d further.
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

  int64_t Reduction(int64_t before) const {
    const AxisSet paid = s_.PartialAxes().Minus(t_.PartialAxes());
    if (!t_.PartialAxes().Minus(s_.PartialAxes()).empty()) return kNoWay;
    const int64_t n = s_.mesh().GroupSize(paid.ToList());
    if (dims_.empty()) return ShareOfOthers(2 * before, n);
    if (dims_.size() != 1 || !Cuts(s_, t_, dims_[0])) return kNoWay;
    return AxisSet(Rest(t_.dim(dims_[0]), s_.dim(dims_[0]))) == paid ? ShareOfOthers(before, n) : kNoWay;
  }

  const Layout& s_;
  const Layout& t_;
  const Shape& shape_;
  std::vector<int> dims_;  // that lie otherwise
};

// The least that a device sends from layout `source` to each.
std::vector<int64_t> Distances(const std::vector<std::vector<int64_t>>& steps, size_t source) {
  std::vector<int64_t> distance(steps.size(), kNoWay);
  using Entry = std::pair<int64_t, size_t>;
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

int64_t NumCollectives(const RelayoutPlan& plan) {
  return std::count_if(plan.steps.begin(), plan.steps.end(),
                       [](const RelayoutStep& step) { return step.kind != RelayoutKind::kShardSlice; });
}

void ExpectLeast(const Mesh& mesh, const Shape& shape, int64_t stride, int64_t& pairs, int64_t& better) {
  std::vector<Layout> layouts;
  for (const Layout& whole : AllWholeLayouts(mesh, static_cast<int>(shape.size())))
    for (const Layout& layout : WithAllPartials(whole, {ReduceOp::kSum})) layouts.push_back(layout);
  std::vector<std::vector<int64_t>> steps(layouts.size());
  for (size_t s = 0; s < layouts.size(); ++s)
    for (size_t t = 0; t < layouts.size(); ++t)
      steps[s].push_back(s == t ? kNoWay : OneStep(layouts[s], layouts[t], shape).Wire());
  for (size_t s = 0; s < layouts.size(); ++s) {
    std::vector<int64_t> least;
    for (size_t t = 0; t < layouts.size(); ++t) {
      if (!layouts[t].PartialAxes().Minus(layouts[s].PartialAxes()).empty() || pairs++ % stride != 0)
        continue;
      const RelayoutPlan greedy =
          PlanRelayout(layouts[s], layouts[t], shape, {.search = false, .use_cache = false}).value();
      if (NumCollectives(greedy) < 2) continue;
      if (least.empty()) least = Distances(steps, s);
      better += least[t] < greedy.wire_elements;
      const RelayoutPlan plan = PlanRelayout(layouts[s], layouts[t], shape, {.use_cache = false}).value();
      ASSERT_EQ(plan.wire_elements, least[t]) << layouts[s].ToString() << " -> " << layouts[t].ToString()
                                              << " of " << ShapeToString(shape) << " on " << mesh.ToString();
      ASSERT_EQ(plan.lower_bound, plan.wire_elements);
    }
  }
}

TEST(RelayoutSearchTest, NoSequenceOfStepsSendsLess) {
  int64_t pairs = 0, better = 0;
  for (int64_t n = 2; n <= 12; ++n) {
    for (const Mesh& mesh : AllMeshes(n)) {
      if (mesh.num_axes() > 3) continue;
      for (const Shape& shape : {Shape{12}, Shape{7}, Shape{8, 6}, Shape{7, 5}, Shape{1, 12}}) {
        ExpectLeast(mesh, shape, EverySo(97), pairs, better);
        if (HasFatalFailure()) return;
      }
      if (LongTests() && mesh.num_axes() == 2) ExpectLeast(mesh, {4, 6, 5}, 1, pairs, better);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(pairs, 100000);
  EXPECT_GT(better, 10) << "the greedy order is never beaten";
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
  // Nothing fits: the greedy order, and it says what it needs.
  const RelayoutPlan large = PlanRelayout(from, to, shape, {.peak_elements = 1}).value();
  EXPECT_GT(large.peak_elements, 1);
  EXPECT_EQ(large.steps.back().result, to);
}

}  // namespace
}  // namespace meshwork
