#include "layout/relayout.h"

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"

namespace meshwork {
namespace {

Layout Read(const Mesh& mesh, std::string_view text) { return Layout::Parse(mesh, text).value(); }

// "all_to_all (x) 0->1 {_,x}: 448": what a step does, what it gives, and what a device sends.
std::string Describe(const RelayoutStep& step) {
  std::string out(RelayoutKindName(step.kind));
  if (!step.axes.empty()) out += " " + step.result.mesh().AxesToString(step.axes);
  if (step.dim >= 0) out += fmt::format(" {}", step.dim);
  if (step.to_dim >= 0) out += fmt::format("->{}", step.to_dim);
  if (step.kind == RelayoutKind::kAllReduce || step.kind == RelayoutKind::kReduceScatter)
    out += fmt::format(" {}", ReduceOpName(step.op));
  return out + fmt::format(" {}: {}", step.result.ToString(), step.wire_elements);
}

std::string Describe(const RelayoutPlan& plan) {
  std::string out;
  for (const RelayoutStep& step : plan.steps) out += (out.empty() ? "" : "; ") + Describe(step);
  return out;
}

TEST(PlanRelayoutTest, PlansTheNamedCases) {
  struct Case {
    const char* mesh;
    Shape shape;
    const char *from, *to, *plan;
    int64_t wire;
  };
  const Case kCases[] = {
      // Nothing to do.
      {"x=8", {64}, "{x}", "{x}", "", 0},
      {"x=8", {64}, "{_ | sum:x}", "{_ | sum:x}", "", 0},
      {"x=4,y=2", {64}, "{y | max:x}", "{y | max:x}", "", 0},
      // Slices are free, and one step whatever the number of axes.
      {"x=8", {64}, "{_}", "{x}", "shard_slice (x) 0 {x}: 0", 0},
      {"x=4,y=2", {64}, "{_}", "{(y,x)}", "shard_slice (y,x) 0 {(y,x)}: 0", 0},
      {"x=4,y=2", {8, 8}, "{_,_}", "{x,y}", "shard_slice (x) 0 {x,_}: 0; shard_slice (y) 1 {x,y}: 0", 0},
      {"x=4,y=2", {64}, "{x}", "{(x,y)}", "shard_slice (y) 0 {(x,y)}: 0", 0},
      // An all-gather moves (n-1)/n of the gathered buffer.
      {"x=8", {64}, "{x}", "{_}", "all_gather (x) 0 {_}: 56", 56},
      {"x=4,y=2", {64}, "{(x,y)}", "{x}", "all_gather (y) 0 {x}: 8", 8},
      {"x=4,y=2", {64}, "{(x,y)}", "{_}", "all_gather (x,y) 0 {_}: 56", 56},
      {"x=4,y=2", {64}, "{x | sum:y}", "{_ | sum:y}", "all_gather (x) 0 {_ | sum:y}: 48", 48},
      {"x=4", {10}, "{x}", "{_}", "all_gather (x) 0 {_}: 7", 7},
      // An all-to-all moves (n-1)/n of a shard.
      {"x=8", {64, 64}, "{x,_}", "{_,x}", "all_to_all (x) 0->1 {_,x}: 448", 448},
      {"x=8", {127, 9}, "{x,_}", "{_,x}", "all_to_all (x) 0->1 {_,x}: 126", 126},  // a block is [16,9]
      {"x=4,y=2", {64, 64}, "{(x,y),_}", "{x,y}", "all_to_all (y) 0->1 {x,y}: 256", 256},
      // Sums: scattered where the target is sharded by the axis, else reduced whole.
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{x,_}", "reduce_scatter (x) 0 sum {x,_}: 224", 224},
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{_,x}", "reduce_scatter (x) 1 sum {_,x}: 224", 224},
      {"x=8", {16, 16}, "{_,_ | sum:x}", "{_,_}", "all_reduce (x) sum {_,_}: 448", 448},
      {"x=8", {16}, "{_ | max:x}", "{_}", "all_reduce (x) max {_}: 28", 28},
      {"x=4,y=2", {16}, "{_ | sum:(x,y)}", "{_}", "all_reduce (x,y) sum {_}: 28", 28},
      {"x=4,y=2",
       {16},
       "{_ | sum:x, max:y}",
       "{_}",
       "all_reduce (x) sum {_ | max:y}: 24; all_reduce (y) max {_}: 16",
       40},
      {"x=4,y=2", {16}, "{_ | sum:(x,y)}", "{_ | sum:y}", "all_reduce (x) sum {_ | sum:y}: 24", 24},
      {"x=4,y=2",
       {16},
       "{_ | sum:(x,y)}",
       "{x}",
       "reduce_scatter (x) 0 sum {x | sum:y}: 12; all_reduce (y) sum {x}: 4",
       16},
      {"x=4,y=2",
       {16},
       "{_ | sum:(x,y)}",
       "{(x,y)}",
       "reduce_scatter (x) 0 sum {x | sum:y}: 12; reduce_scatter (y) 0 sum {(x,y)}: 2",
       14},
      {"x=4,y=2",
       {16},
       "{_ | sum:y}",
       "{(x,y)}",
       "shard_slice (x) 0 {x | sum:y}: 0; reduce_scatter (y) 0 sum {(x,y)}: 2",
       2},
      {"x=2", {}, "{| sum:x}", "{}", "all_reduce (x) sum {}: 1", 1},
      // Blocks that keep their bounds change places whole; others are gathered and cut anew.
      {"x=4,y=2", {16, 4}, "{(x,y),_}", "{(y,x),_}", "collective_permute {(y,x),_}: 8", 8},
      {"x=4,y=2",
       {10, 4},
       "{(x,y),_}",
       "{(y,x),_}",
       "all_gather (x,y) 0 {_,_}: 35; shard_slice (y,x) 0 {(y,x),_}: 0",
       35},
      {"x=2,y=2", {8, 8}, "{x,y}", "{y,x}", "collective_permute {y,x}: 16", 16},
      {"x=2,y=2", {8}, "{x}", "{y}", "collective_permute {y}: 4", 4},
      {"x=2,y=2", {7}, "{x}", "{y}", "all_gather (x) 0 {_}: 3; shard_slice (y) 0 {y}: 0", 3},
      {"x=2,y=2,z=2", {8}, "{x | sum:z}", "{y | sum:z}", "collective_permute {y | sum:z}: 4", 4},
      // Several in turn.
      {"x=4,y=2",
       {8, 8},
       "{x,y}",
       "{y,x}",
       "all_gather (x) 0 {_,y}: 24; all_to_all (y) 1->0 {y,_}: 16; shard_slice (x) 1 {y,x}: 0",
       40},
      {"x=4,y=2",
       {16},
       "{x | sum:y}",
       "{(y,x)}",
       "all_gather (x) 0 {_ | sum:y}: 12; reduce_scatter (y) 0 sum {y}: 8; shard_slice (x) 0 {(y,x)}: 0",
       20},
      // A dim of no elements moves nothing.
      {"x=8", {0, 64}, "{_,x}", "{_,_}", "all_gather (x) 1 {_,_}: 0", 0},
  };
  for (const Case& c : kCases) {
    const Mesh mesh = Mesh::Parse(c.mesh).value();
    const absl::StatusOr<RelayoutPlan> plan = PlanRelayout(Read(mesh, c.from), Read(mesh, c.to), c.shape);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(Describe(*plan), c.plan) << c.from << " -> " << c.to;
    EXPECT_EQ(plan->wire_elements, c.wire) << c.from << " -> " << c.to;
  }
}

TEST(PlanRelayoutTest, RejectsATargetThatOwesMoreThanTheSource) {
  const Mesh mesh = Mesh::Parse("x=4,y=2").value();
  auto error = [&](std::string_view from, std::string_view to) {
    return std::string(MessageOf(PlanRelayout(Read(mesh, from), Read(mesh, to), {8, 8}).status()));
  };
  EXPECT_EQ(
      error("{x,_}", "{x,_ | sum:y}"),
      "PlanRelayout {x,_} -> {x,_ | sum:y}: the target owes a sum over \"y\" that the source does not; only "
      "whole values can become partial by computation.");
  EXPECT_EQ(error("{_,_ | sum:x}", "{_,_ | max:x}"),
            "PlanRelayout {_,_ | sum:x} -> {_,_ | max:x}: the target owes a max over \"x\" that the source "
            "does not; "
            "only whole values can become partial by computation.");
}

// ---- The laws: every plan ends at its target and moves the right elements.

// What one place of a device's buffer holds: padding, or an element with the set of devices whose
// terms of the owed reduction are in it, as positions along the axes the source is partial on.
struct Cell {
  static constexpr int64_t kPadding = -1;
  int64_t element = kPadding;
  uint64_t terms = 0;
  bool operator==(const Cell&) const = default;
};
using Buffer = std::vector<Cell>;  // of block shape

class Machine {
 public:
  Machine(const Layout& from, const Shape& shape)
      : layout_(from),
        shape_(shape),
        owed_axes_(from.PartialAxes()),
        owed_(from.mesh(), owed_axes_.ToList()) {
    for (int64_t device = 0; device < mesh().num_devices(); ++device) {
      buffers_.push_back(Fill(layout_, device, [&](int64_t element, const Shape&) {
        return Cell{element, uint64_t{1} << owed_.RankOf(device)};
      }));
    }
  }

  void Run(const RelayoutStep& step) {
    std::vector<Buffer> next;
    for (int64_t device = 0; device < mesh().num_devices(); ++device)
      next.push_back(Fill(step.result, device, [&](int64_t element, const Shape& index) {
        return Receive(step, device, element, index);
      }));
    buffers_ = std::move(next);
    layout_ = step.result;
  }

  // What `device` has to hold at the end: terms of its own coordinate on the axes still owed, of
  // every coordinate on the others.
  void ExpectHolds(const Layout& to) const {
    for (int64_t device = 0; device < mesh().num_devices(); ++device) {
      const AxisGroup reduced(mesh(), owed_axes_.Minus(to.PartialAxes()).ToList());
      uint64_t terms = 0;
      for (int64_t rank = 0; rank < reduced.size(); ++rank)
        terms |= uint64_t{1} << owed_.RankOf(reduced.Member(device, rank));
      const Buffer expected = Fill(to, device, [&](int64_t element, const Shape&) {
        return Cell{element, terms};
      });
      ASSERT_EQ(buffers_[device], expected) << "device " << device;
    }
  }

 private:
  const Mesh& mesh() const { return layout_.mesh(); }

  template <typename F>
  Buffer Fill(const Layout& layout, int64_t device, F&& cell) const {
    const Shape local = layout.LocalShape(shape_);
    const Block block = layout.BlockOf(shape_, device);
    Buffer buffer(NumElements(local));
    ForEachIndex(block, [&](const Shape& index) {
      Shape at(index.size());
      for (size_t d = 0; d < index.size(); ++d) at[d] = index[d] - block[d].start;
      buffer[Linear(local, at)] = cell(Linear(shape_, index), index);
    });
    return buffer;
  }

  // The cell of `device` for a global index; padding if its block does not have it.
  Cell Load(int64_t device, const Shape& index) const {
    const Shape local = layout_.LocalShape(shape_);
    const Block block = layout_.BlockOf(shape_, device);
    Shape at(index.size());
    for (size_t d = 0; d < index.size(); ++d) {
      at[d] = index[d] - block[d].start;
      if (at[d] < 0 || at[d] >= block[d].size) return {};
    }
    return buffers_[device][Linear(local, at)];
  }

  Cell Receive(const RelayoutStep& step, int64_t device, int64_t element, const Shape& index) const {
    switch (step.kind) {
      case RelayoutKind::kShardSlice: return Load(device, index);
      case RelayoutKind::kCollectivePermute: return ReceiveBlock(step, device, index);
      case RelayoutKind::kAllReduce:
      case RelayoutKind::kReduceScatter: return Reduce(step, device, element, index);
      case RelayoutKind::kReshape:
      case RelayoutKind::kAllGather:
      case RelayoutKind::kAllToAll: break;
    }
    // Exactly one member of the group sends the element.
    const AxisGroup group(mesh(), step.axes);
    Cell found;
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      const Cell cell = Load(group.Member(device, rank), index);
      if (cell == Cell{}) continue;
      EXPECT_EQ(found, Cell{}) << "element " << element << " is sent twice";
      found = cell;
    }
    return found;
  }

  // Every member has a term; no term is counted twice.
  Cell Reduce(const RelayoutStep& step, int64_t device, int64_t element, const Shape& index) const {
    const AxisGroup group(mesh(), step.axes);
    Cell sum{element, 0};
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      const Cell term = Load(group.Member(device, rank), index);
      EXPECT_EQ(term.element, element) << "padding is read";
      EXPECT_EQ(sum.terms & term.terms, 0u) << "a term is added twice";
      sum.terms |= term.terms;
    }
    return sum;
  }

  // From one device that holds the whole block, and the same terms.
  Cell ReceiveBlock(const RelayoutStep& step, int64_t device, const Shape& index) const {
    const Block wanted = step.result.BlockOf(shape_, device);
    EXPECT_EQ(step.result.LocalShape(shape_), layout_.LocalShape(shape_));
    for (int64_t sender = 0; sender < mesh().num_devices(); ++sender) {
      if (layout_.BlockOf(shape_, sender) == wanted && owed_.RankOf(sender) == owed_.RankOf(device))
        return Load(sender, index);
    }
    return {};
  }

  Layout layout_;
  Shape shape_;
  AxisSet owed_axes_;  // the axes that the source owes a reduction over
  AxisGroup owed_;
  std::vector<Buffer> buffers_;  // by device
};

// CASES.md: all-reduce 2(n-1)/n B, reduce-scatter and all-gather (n-1)/n B, all-to-all (n-1)/n l,
// permute l; B is the reduced or gathered buffer, l the shard before.
int64_t WireOf(const RelayoutStep& step, const Layout& from, const Shape& shape) {
  const int64_t n = from.mesh().GroupSize(step.axes);
  const int64_t before = NumElements(from.LocalShape(shape)),
                after = NumElements(step.result.LocalShape(shape));
  static const std::map<RelayoutKind, int64_t> kTimes = {{RelayoutKind::kShardSlice, 0},
                                                         {RelayoutKind::kAllReduce, 2},
                                                         {RelayoutKind::kReduceScatter, 1},
                                                         {RelayoutKind::kAllGather, 1},
                                                         {RelayoutKind::kAllToAll, 1}};
  if (step.kind == RelayoutKind::kCollectivePermute) return before;
  return kTimes.at(step.kind) * (n - 1) * (step.kind == RelayoutKind::kAllGather ? after : before) / n;
}

void ExpectPlanIsRight(const Layout& from, const Layout& to, const Shape& shape) {
  const absl::StatusOr<RelayoutPlan> plan = PlanRelayout(from, to, shape);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->steps.empty(), from == to);
  Machine machine(from, shape);
  Layout at = from;
  int64_t wire = 0;
  for (const RelayoutStep& step : plan->steps) {
    machine.Run(step);
    ASSERT_EQ(step.wire_elements, WireOf(step, at, shape)) << Describe(step);
    wire += step.wire_elements;
    at = step.result;
  }
  ASSERT_EQ(at, to);
  ASSERT_EQ(plan->wire_elements, wire);
  machine.ExpectHolds(to);
}

// Every pair of a source, partial or not, and a target that owes at most as much.
void ExpectPlansAreRight(const char* mesh_text, int rank, const std::vector<int64_t>& sizes) {
  const Mesh mesh = Mesh::Parse(mesh_text).value();
  const std::vector<Layout> wholes = AllWholeLayouts(mesh, rank);
  for (const Layout& whole : wholes) {
    for (const Layout& from : WithAllPartials(whole, {ReduceOp::kSum})) {
      for (const Layout& target : wholes) {
        for (const Layout& to : WithAllPartials(target, {ReduceOp::kSum})) {
          if (!to.PartialAxes().Minus(from.PartialAxes()).empty()) continue;
          for (const Shape& shape : AllShapes(rank, sizes)) {
            SCOPED_TRACE(fmt::format("{} -> {}, {} on {}", from.ToString(), to.ToString(),
                                     ShapeToString(shape), mesh.ToString()));
            ExpectPlanIsRight(from, to, shape);
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(PlanRelayoutTest, MovesEveryElementOfRankOneToItsPlace) {
  for (const char* mesh : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3", "a=2,b=2,c=2"})
    ExpectPlansAreRight(mesh, 1, {1, 2, 5, 6, 8, 12, 13});
}

TEST(PlanRelayoutTest, MovesEveryElementOfRankTwoToItsPlace) {
  for (const char* mesh : {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3"})
    ExpectPlansAreRight(mesh, 2, {1, 4, 5});
}

TEST(PlanRelayoutTest, MovesEveryElementOnThreeAxesToItsPlace) {
  ExpectPlansAreRight("a=2,b=2,c=2", 2, {4});
  ExpectPlansAreRight("a=2,b=2,c=2", 0, {});
}

TEST(PlanRelayoutTest, DependsOnTheGroupSizesAndNotOnTheDeviceCount) {
  const Mesh mesh = Mesh::Parse("host=1024,rack=32,chip=32").value();
  const RelayoutPlan plan =
      PlanRelayout(Read(mesh, "{host,_ | sum:chip}"), Read(mesh, "{(host,chip),rack}"), {1 << 20, 64})
          .value();
  EXPECT_EQ(
      Describe(plan),
      "shard_slice (rack) 1 {host,rack | sum:chip}: 0; reduce_scatter (chip) 0 sum {(host,chip),rack}: 1984");
}

}  // namespace
}  // namespace meshwork
