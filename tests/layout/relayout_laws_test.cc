// Every plan ends at its target and moves the right elements: plans are executed and compared element by
// element. MESHWORK_LONG_TESTS=1 takes every pair of layouts; without it, every nth.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/relayout.h"

namespace meshwork::relayout_laws_test {
namespace {

// One place of a device's buffer: padding, or an element with the set of devices whose terms of the pending
// reduction are in it. Devices are positions along the axes on which the source is partial.
struct Cell {
  static constexpr int64_t kPadding = -1;
  int64_t element = kPadding;  // in row-major order, which a reshape does not change
  uint64_t terms = 0;
  bool operator==(const Cell&) const = default;
};
using Buffer = std::vector<Cell>;  // of block shape

// The positions of a tensor's elements on the devices, in the space of factors.
struct Placement {
  Placement(const Layout& layout, const Shape& global)
      : shape(layout.FactorShape(global)), local(layout.Flat().LocalShape(shape)) {
    for (int64_t device = 0; device < layout.mesh().num_devices(); ++device)
      blocks.push_back(layout.BlockOf(global, device));
  }

  Shape shape, local;
  std::vector<Block> blocks;  // by device
};

class Machine {
 public:
  Machine(const Layout& from, const Shape& shape)
      : mesh_(from.mesh()),
        at_(from, shape),
        at_layout_(from),
        owed_axes_(from.PartialAxes()),
        owed_(from.mesh(), owed_axes_.ToList()) {
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      buffers_.push_back(Fill(at_, device, [&](int64_t element, const Shape&) {
        return Cell{element, uint64_t{1} << owed_.RankOf(device)};
      }));
    }
  }

  void Run(const RelayoutStep& step) {
    Placement result(step.result, step.shape);
    if (step.kind == RelayoutKind::kReshape) {
      EXPECT_EQ(NumElements(result.local), NumElements(at_.local));
    } else {
      EXPECT_EQ(result.shape, at_.shape);
      std::vector<Buffer> next;
      for (int64_t device = 0; device < mesh_.num_devices(); ++device)
        next.push_back(Receive(step, result, device));
      buffers_ = std::move(next);
    }
    at_ = std::move(result);
    at_layout_ = step.result;
  }

  // At the end `device` holds, on the axes that are still partial, only the term of its own coordinate; on the
  // other axes, the terms of every coordinate.
  void ExpectHolds(const Layout& to, const Shape& shape) const {
    const Placement wanted(to, shape);
    const AxisGroup reduced(mesh_, owed_axes_.Minus(to.PartialAxes()).ToList());
    for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
      uint64_t terms = 0;
      for (int64_t rank = 0; rank < reduced.size(); ++rank)
        terms |= uint64_t{1} << owed_.RankOf(reduced.Member(device, rank));
      const Buffer expected = Fill(wanted, device, [&](int64_t element, const Shape&) {
        return Cell{element, terms};
      });
      ASSERT_EQ(buffers_[device], expected) << "device " << device;
    }
  }

 private:
  template <typename F>
  static Buffer Fill(const Placement& placement, int64_t device, F&& cell) {
    Buffer buffer(NumElements(placement.local));
    ForEachIndex(placement.blocks[device], [&](const Shape& index) {
      buffer[Place(placement, device, index)] = cell(Linear(placement.shape, index), index);
    });
    return buffer;
  }

  // Position in the device's buffer; -1 for an element that its block does not have.
  static int64_t Place(const Placement& placement, int64_t device, const Shape& index) {
    const Block& block = placement.blocks[device];
    int64_t place = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t at = index[d] - block[d].start;
      if (at < 0 || at >= block[d].size) return -1;
      place = place * placement.local[d] + at;
    }
    return place;
  }
  Cell Load(int64_t device, const Shape& index) const {
    const int64_t place = Place(at_, device, index);
    return place < 0 ? Cell{} : buffers_[device][place];
  }

  Buffer Receive(const RelayoutStep& step, const Placement& result, int64_t device) const {
    const AxisGroup group(mesh_, step.axes);
    std::vector<int64_t> members;
    for (int64_t rank = 0; rank < group.size(); ++rank) members.push_back(group.Member(device, rank));
    switch (step.kind) {
      case RelayoutKind::kShardSlice: members = {device}; break;
      case RelayoutKind::kCollectivePermute: members = {SenderOf(step, result, device)}; break;
      case RelayoutKind::kAllToAllV: members = HoldersFor(device, at_layout_); break;
      case RelayoutKind::kAllReduce:
      case RelayoutKind::kReduceScatter:
        return Fill(result, device,
                    [&](int64_t element, const Shape& index) { return Reduce(members, element, index); });
      case RelayoutKind::kReshape:
      case RelayoutKind::kAllGather:
      case RelayoutKind::kAllToAll: break;
    }
    return Fill(result, device,
                [&](int64_t element, const Shape& index) { return Copy(members, element, index); });
  }

  // Exactly one member sends the element.
  Cell Copy(const std::vector<int64_t>& members, int64_t element, const Shape& index) const {
    Cell found;
    for (int64_t member : members) {
      const Cell cell = Load(member, index);
      if (cell == Cell{}) continue;
      EXPECT_EQ(found, Cell{}) << "element " << element << " is sent twice";
      found = cell;
    }
    EXPECT_EQ(found.element, element) << "another element, or none, is sent";
    return found;
  }

  // Every member has a term; no term is counted twice.
  Cell Reduce(const std::vector<int64_t>& members, int64_t element, const Shape& index) const {
    Cell sum{element, 0};
    for (int64_t member : members) {
      const Cell term = Load(member, index);
      EXPECT_EQ(term.element, element) << "padding is read";
      EXPECT_EQ(sum.terms & term.terms, 0u) << "a term is added twice";
      sum.terms |= term.terms;
    }
    return sum;
  }

  // A device that holds the whole block, with the same terms on the axes that stay partial.
  int64_t SenderOf(const RelayoutStep& step, const Placement& result, int64_t device) const {
    EXPECT_EQ(result.local, at_.local);
    const AxisGroup owed(mesh_, step.result.PartialAxes().ToList());
    for (int64_t sender = 0; sender < mesh_.num_devices(); ++sender)
      if (at_.blocks[sender] == result.blocks[device] && owed.RankOf(sender) == owed.RankOf(device))
        return sender;
    ADD_FAILURE() << "nobody has the block of device " << device;
    return device;
  }

  Mesh mesh_;
  Placement at_;
  Layout at_layout_;
  AxisSet owed_axes_;  // the axes that the source owes a reduction over
  AxisGroup owed_;
  std::vector<Buffer> buffers_;  // by device
};

// CASES.md: all-reduce 2(n-1)/n B, reduce-scatter and all-gather (n-1)/n B, all-to-all (n-1)/n l,
// permute l; B is the reduced or gathered buffer, l the shard before.
int64_t WireOf(RelayoutKind kind, int64_t n, int64_t before, int64_t after) {
  static const std::map<RelayoutKind, int64_t> kTimes = {
      {RelayoutKind::kShardSlice, 0},    {RelayoutKind::kReshape, 0},   {RelayoutKind::kAllReduce, 2},
      {RelayoutKind::kReduceScatter, 1}, {RelayoutKind::kAllGather, 1}, {RelayoutKind::kAllToAll, 1}};
  if (kind == RelayoutKind::kCollectivePermute) return before;
  return kTimes.at(kind) * (n - 1) * (kind == RelayoutKind::kAllGather ? after : before) / n;
}

// The elements that a device sends to reduce the axes that the target does not owe, gather all dims, and shard anew.
int64_t WireOfGathering(const Layout& from, const Layout& to, const Shape& shape) {
  const Shape factors = from.FactorShape(shape);
  Layout at = from.Flat();
  auto elements = [&] { return NumElements(at.LocalShape(factors)); };
  const Mesh& mesh = from.mesh();
  const AxisList reduced = from.PartialAxes().Minus(to.PartialAxes()).ToList();
  int64_t wire = WireOf(RelayoutKind::kAllReduce, mesh.GroupSize(reduced), elements(), 0);
  for (int d = 0; d < at.rank(); ++d) {
    const int64_t n = at.NumShards(d);
    at = at.WithDim(d, {});
    wire += WireOf(RelayoutKind::kAllGather, n, 0, elements());
  }
  return wire;
}

// True if `to` shards each dim by the same axes and more, and every device already has the elements of its block.
bool Refines(const Layout& from, const Layout& to, const Shape& shape) {
  if (from.is_strided() || to.is_strided() || from.partials() != to.partials()) return false;
  for (int d = 0; d < from.rank(); ++d) {
    const AxisList &have = from.dim(d), &wish = to.dim(d);
    if (have.size() > wish.size() || !std::equal(have.begin(), have.end(), wish.begin())) return false;
  }
  for (int64_t device = 0; device < from.mesh().num_devices(); ++device) {
    const Block have = from.BlockOf(shape, device), wish = to.BlockOf(shape, device);
    for (size_t d = 0; d < have.size(); ++d) {
      if (wish[d].size > 0 &&
          (wish[d].start < have[d].start || wish[d].start + wish[d].size > have[d].start + have[d].size))
        return false;
    }
  }
  return true;
}

void ExpectPlanIsRight(const Layout& from, const Layout& to, const Shape& shape) {
  const absl::StatusOr<RelayoutPlan> plan = PlanRelayout(from, to, shape);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->steps.empty(), from == to);
  Machine machine(from, shape);
  Layout at = from;
  Shape at_shape = shape;
  int64_t wire = 0;
  bool reshapes = false;
  for (const RelayoutStep& step : plan->steps) {
    machine.Run(step);
    if (::testing::Test::HasFailure()) FAIL() << RelayoutKindName(step.kind) << " " << step.result.ToString();
    ASSERT_EQ(step.wire_elements,
              step.kind == RelayoutKind::kAllToAllV
                  ? Exchanged(at, step.result, at_shape)
                  : WireOf(step.kind, at.mesh().GroupSize(step.axes), NumElements(at.LocalShape(at_shape)),
                           NumElements(step.result.LocalShape(step.shape))))
        << RelayoutKindName(step.kind);
    if (step.kind == RelayoutKind::kAllReduce || step.kind == RelayoutKind::kReduceScatter) {
      ASSERT_EQ(step.op, from.partials()[0].op);
    }
    reshapes |= step.kind == RelayoutKind::kReshape;
    wire += step.wire_elements;
    at = step.result;
    at_shape = step.shape;
  }
  ASSERT_EQ(at, to);
  ASSERT_EQ(at_shape, shape);
  ASSERT_EQ(plan->wire_elements, wire);
  ASSERT_EQ(reshapes, from != to && (from.is_strided() || to.is_strided()));
  ASSERT_LE(wire, WireOfGathering(from, to, shape));
  if (Refines(from, to, shape)) {
    ASSERT_EQ(wire, 0);
  }
  machine.ExpectHolds(to, shape);
}

// Every `stride`-th pair of a source, partial or not, and a target whose partial axes are among the source's.
void ExpectPlansAreRight(const std::vector<Layout>& wholes, const std::vector<Shape>& shapes, int64_t stride,
                         ReduceOp op = ReduceOp::kSum) {
  stride = EverySo(stride);
  std::vector<std::vector<Layout>> layouts;
  for (const Layout& whole : wholes) layouts.push_back(WithAllPartials(whole, {op}));
  int64_t pair = 0;
  for (const std::vector<Layout>& sources : layouts) {
    for (const Layout& from : sources) {
      for (const std::vector<Layout>& targets : layouts) {
        for (const Layout& to : targets) {
          if (!to.PartialAxes().Minus(from.PartialAxes()).empty()) continue;
          for (const Shape& shape : shapes) {
            if (pair++ % stride != 0) continue;
            ExpectPlanIsRight(from, to, shape);
            if (!::testing::Test::HasFailure()) continue;
            FAIL() << fmt::format("{} -> {}, {} on {}", from.ToString(), to.ToString(), ShapeToString(shape),
                                  from.mesh().ToString());
          }
        }
      }
    }
  }
}

Mesh Read(std::string_view text) { return Mesh::Parse(text).value(); }
constexpr const char* kMeshes[] = {"a=2", "a=3", "a=4", "a=2,b=2", "a=2,b=3"};
constexpr const char* kCutMeshes[] = {"a=2*2", "a=2*2,b=2", "a=2*3"};

TEST(PlanRelayoutLaws, MovesEveryElementOfRankOne) {
  for (const char* mesh : kMeshes)
    ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 1), AllShapes(1, {0, 1, 2, 5, 6, 8, 12, 13}), 1);
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2,b=2,c=2"), 1), AllShapes(1, {1, 5, 12}), 1);
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2,b=2,c=2"), 0), {{}}, 1);
}

TEST(PlanRelayoutLaws, MovesEveryElementOfRankTwo) {
  for (const char* mesh : kMeshes)
    ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 2), {{10, 7}, {1, 4}, {4, 6}, {0, 3}}, 1);
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2,b=2,c=2"), 2), {{10, 7}}, 1);
}

TEST(PlanRelayoutLaws, MovesEveryElementOfRankThree) {
  for (const char* mesh : kMeshes) ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 3), {{4, 6, 5}}, 1);
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2,b=2,c=2"), 3), {{4, 6, 5}}, 11);
}

TEST(PlanRelayoutLaws, MovesEveryElementOnCutMeshes) {
  for (const char* mesh : kCutMeshes) {
    ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 1), AllShapes(1, {0, 1, 2, 5, 6, 8, 12, 13}), 1);
    ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 2), {{10, 7}, {4, 6}, {1, 4}}, 5);
    ExpectPlansAreRight(AllWholeLayouts(Read(mesh), 3), {{4, 6, 5}}, 31);
  }
  // Runs of parts that are neither first nor last.
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2*2*2"), 1), AllShapes(1, {5, 6, 8, 12, 13}), 1);
  ExpectPlansAreRight(AllWholeLayouts(Read("a=2*2*2"), 2), {{12, 5}}, 3);
}

TEST(PlanRelayoutLaws, MovesEveryElementOfStridedDims) {
  for (const char* mesh : {"a=2", "a=3", "a=4", "a=2*2", "a=2,b=2", "a=2,b=3", "a=2*3"}) {
    const bool is_long = Read(mesh).num_axes() > 1;
    ExpectPlansAreRight(AllStridedLayouts(Read(mesh), {12}, 3), {{12}}, is_long ? 31 : 1);
    ExpectPlansAreRight(AllStridedLayouts(Read(mesh), {4, 6}, 2), {{4, 6}}, is_long ? 61 : 1);
  }
}

TEST(PlanRelayoutLaws, ReducesByWhatIsOwed) {
  for (ReduceOp op : kAllReduceOps) {
    ExpectPlansAreRight(AllWholeLayouts(Read("a=2,b=2"), 1), {{12}, {5}}, 1, op);
    ExpectPlansAreRight(AllStridedLayouts(Read("a=2"), {12}, 2), {{12}}, 1, op);
  }
}

}  // namespace
}  // namespace meshwork::relayout_laws_test
