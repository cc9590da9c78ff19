// The sends between two placements are checked against the elements that each device holds.
#include "meshwork/layout/send.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/layout/block.h"
#include "meshwork/layout/plain_parts.h"

namespace meshwork::send_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SendSide Side(const std::string& mesh, int64_t domains, const std::string& layout,
              std::vector<int64_t> processes = {}) {
  const Placement placement = Placement::Create(Mesh::Parse(mesh).value(), domains).value();
  return {placement, Layout::Parse(placement.mesh(), layout).value(), std::move(processes)};
}

// The elements that a device holds, by their row-major position.
std::set<int64_t> HeldBy(const Layout& layout, const Shape& shape, int64_t device) {
  std::set<int64_t> held;
  ForEachIndex(FullBlock(layout.LocalShape(shape)), [&](const Shape& local) {
    if (layout.IsHeld(shape, device, local))
      held.insert(Linear(shape, layout.GlobalIndex(shape, device, local)));
  });
  return held;
}

// The elements that the devices of each process hold.
std::map<int64_t, std::set<int64_t>> HeldByProcess(const SendSide& side, const Shape& shape) {
  std::map<int64_t, std::set<int64_t>> held;
  for (int64_t device = 0; device < side.layout.mesh().num_devices(); ++device)
    held[side.ProcessOf(device)].merge(HeldBy(side.layout, shape, device));
  return held;
}

std::string Describe(const Shape& shape, const SendSide& from, const SendSide& to) {
  return fmt::format("{} from {} of {}, processes [{}], to {} of {}, processes [{}]", ShapeToString(shape),
                     from.layout.ToString(), from.placement.ToString(), fmt::join(from.processes, ","),
                     to.layout.ToString(), to.placement.ToString(), fmt::join(to.processes, ","));
}

// The laws of PlanSend; returns how many elements cross.
int64_t ExpectLaws(const Shape& shape, const SendSide& from, const SendSide& to) {
  SCOPED_TRACE(Describe(shape, from, to));
  const SendPlan plan = PlanSend(shape, 4, from, to);
  std::map<int64_t, std::set<int64_t>> there = HeldByProcess(from, shape);
  there.erase(SendSide::kLost);
  std::set<int64_t> lost;
  for (const Block& box : plan.lost) {
    ForEachIndex(box, [&](const Shape& index) {
      const int64_t at = Linear(shape, index);
      EXPECT_TRUE(lost.insert(at).second) << "lost twice: " << at;
      for (const auto& [process, held] : there) EXPECT_FALSE(held.contains(at)) << process << " has " << at;
    });
  }
  std::map<int64_t, std::set<int64_t>> arrived;  // by domain
  int64_t crossing = 0, last = 0;
  for (const SentPiece& piece : plan.pieces) {
    EXPECT_GE(piece.to_device, last);
    last = piece.to_device;
    const int64_t domain = to.placement.DomainOf(piece.to_device);
    const int64_t source = from.ProcessOf(piece.from_device), target = to.ProcessOf(piece.to_device);
    EXPECT_NE(source, SendSide::kLost);
    EXPECT_GT(NumElements(piece.box), 0);
    const std::set<int64_t> held = HeldBy(from.layout, shape, piece.from_device),
                            needed = HeldBy(to.layout, shape, piece.to_device);
    for (int64_t lower = to.placement.FirstDevice(domain); lower < piece.to_device; ++lower)
      EXPECT_NE(HeldBy(to.layout, shape, lower), needed)
          << lower << " holds the block of " << piece.to_device;
    ForEachIndex(piece.box, [&](const Shape& index) {
      const int64_t at = Linear(shape, index);
      EXPECT_TRUE(held.contains(at)) << piece.from_device << " does not hold " << at;
      EXPECT_TRUE(needed.contains(at)) << piece.to_device << " does not need " << at;
      EXPECT_TRUE(arrived[domain].insert(at).second) << at << " comes twice to domain " << domain;
      if (source != target) {
        EXPECT_FALSE(there[target].contains(at)) << target << " has " << at;
      }
    });
    crossing += source != target ? NumElements(piece.box) : 0;
    for (const auto& [side, device] :
         {std::pair(&from, piece.from_device), std::pair(&to, piece.to_device)}) {
      const Block block = side->layout.BlockOf(shape, device);
      const std::vector<PlainPart> parts = PlainParts(side->layout, shape, block);
      EXPECT_EQ(
          std::count_if(parts.begin(), parts.end(),
                        [&](const PlainPart& part) { return Intersect(part.box, piece.box) == piece.box; }),
          1);
    }
  }
  int64_t least = 0;  // the lower bound of the elements that cross
  for (int64_t domain = 0; domain < to.placement.num_domains(); ++domain) {
    std::set<int64_t> needed;
    for (int64_t d = 0; d < to.placement.devices_per_domain(); ++d)
      needed.merge(HeldBy(to.layout, shape, to.placement.FirstDevice(domain) + d));
    for (int64_t at : needed) {
      EXPECT_EQ(arrived[domain].contains(at), !lost.contains(at)) << at << " in domain " << domain;
      if (!lost.contains(at) && !there[to.ProcessOfDomain(domain)].contains(at)) ++least;
    }
    EXPECT_LE(arrived[domain].size(), needed.size());
  }
  EXPECT_EQ(crossing, least);
  return crossing;
}

// A placement of every number of domains up to 3, with every layout.
std::vector<SendSide> AllSides(const std::vector<std::string>& meshes, const Shape& shape, size_t factors) {
  std::vector<SendSide> sides;
  for (const std::string& mesh : meshes) {
    for (int64_t domains : {1, 2, 3}) {
      const absl::StatusOr<Placement> placement = Placement::Create(Mesh::Parse(mesh).value(), domains);
      if (!placement.ok()) continue;
      for (const Layout& layout : factors == 1
                                      ? AllWholeLayouts(placement->mesh(), static_cast<int>(shape.size()))
                                      : AllStridedLayouts(placement->mesh(), shape, factors))
        sides.push_back({*placement, layout});
    }
  }
  return sides;
}

// Every nth pair; ten times as many in long tests.
void ExpectLawsForAll(const std::vector<SendSide>& from, const std::vector<SendSide>& to, const Shape& shape,
                      size_t every) {
  if (LongTests()) every = (every + 9) / 10;
  size_t n = 0;
  for (const SendSide& a : from)
    for (const SendSide& b : to)
      if (n++ % every == 0) ExpectLaws(shape, a, b);
}

TEST(PlanSendTest, SendsWhatADomainLacksAndNothingElse) {
  const std::vector<std::string> small = {"", "a=3"}, large = {"a=2,b=2", "b=3,a=2", "a=4"};
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5}, Shape{12}}) {
    const std::vector<SendSide> a = AllSides(small, shape, 1), b = AllSides(large, shape, 1);
    ExpectLawsForAll(a, b, shape, 1);
    ExpectLawsForAll(b, a, shape, 1);
    ExpectLawsForAll(b, b, shape, 3);
  }
  for (const Shape& shape : {Shape{5, 3}, Shape{2, 6}, Shape{1, 4}}) {
    const std::vector<SendSide> sides = AllSides(large, shape, 1);
    ExpectLawsForAll(sides, sides, shape, 23);
  }
}

TEST(PlanSendTest, KnowsStridedLayouts) {
  const Shape shape{12};
  const std::vector<SendSide> sides = AllSides({"a=2,b=2", "b=3,a=2"}, shape, 3);
  ExpectLawsForAll(sides, sides, shape, 41);
  const Shape matrix{4, 3};
  const std::vector<SendSide> of_matrix = AllSides({"a=2", "b=3,a=2"}, matrix, 2);
  ExpectLawsForAll(of_matrix, of_matrix, matrix, 499);
}

// Processes that are lost, join later, hold two domains, or get other numbers.
TEST(PlanSendTest, TakesWhatProcessesAreLeft) {
  const std::string layouts[] = {"{a,_}", "{b,_}", "{_,_}", "{_,(a,b)}", "{b,a}"};
  const std::vector<std::vector<int64_t>> left = {{0, 1, 2},
                                                  {SendSide::kLost, 0, 1},
                                                  {1, SendSide::kLost, 0},
                                                  {SendSide::kLost, 4, SendSide::kLost},
                                                  {0, 0, 1},
                                                  {SendSide::kLost, SendSide::kLost, SendSide::kLost}};
  const Shape shape{5, 7};
  for (const std::string& before : layouts) {
    for (const std::string& after : layouts) {
      for (const std::vector<int64_t>& processes : left) {
        for (const char* old_mesh : {"a=3,b=2", "b=6,a=1", "b=2,a=3"}) {
          if (!Placement::Create(Mesh::Parse(old_mesh).value(), 3).ok()) continue;
          const SendSide from = Side(old_mesh, 3, before, processes);
          ExpectLaws(shape, from, Side("a=2,b=2", 2, after));
          ExpectLaws(shape, from, Side("a=2,b=2", 2, after, {4, 1}));
          ExpectLaws(shape, from, Side("a=2,b=2", 4, after));
          ExpectLaws(shape, from, Side("b=3,a=1", 1, after));
        }
      }
    }
  }
}

TEST(PlanSendTest, SaysWhatNobodyHas) {
  const SendSide to = Side("a=2", 1, "{_}");
  const std::vector<int64_t> one_lost = {0, SendSide::kLost};
  EXPECT_THAT(PlanSend({8}, 4, Side("a=4", 2, "{a}", one_lost), to).lost,
              ElementsAre(Block{{4, 2}}, Block{{6, 2}}));
  // In the strided layout, one device's block has two parts.
  EXPECT_THAT(PlanSend({8}, 4, Side("a=2", 2, "{2*4@a}", one_lost), to).lost,
              ElementsAre(Block{{2, 2}}, Block{{6, 2}}));
  EXPECT_THAT(PlanSend({8}, 4, Side("a=4", 2, "{_}", one_lost), to).lost, IsEmpty());
}

TEST(PlanSendTest, TheHeaderTellsTheTruth) {
  const SendPlan plan = PlanSend({8}, 4, Side("x=8", 2, "{x}"), Side("y=6", 3, "{y}"));
  const std::vector<SentPiece> first(plan.pieces.begin(), plan.pieces.begin() + 2);
  EXPECT_THAT(first, ElementsAre(SentPiece{0, 0, {{0, 1}}}, SentPiece{1, 0, {{1, 1}}}));
  EXPECT_THAT(plan.pieces[4], (SentPiece{4, 2, {{4, 1}}}));
}

// From 8 to 4×2 to 6 devices, replicated and sharded: bytes per process, computed by hand.
TEST(PlanSendTest, SendsAreSharedByThoseThatHoldThePiece) {
  SentBytes sent;
  // Two processes hold everything, two join and need 1 MB each: each holder sends half of each.
  const int64_t rows = 1 << 18;
  const SendSide from = Side("a=4", 2, "{_}"), to = Side("a=8", 4, "{_}");
  SendPlan plan = PlanSend({rows}, 4, from, to, &sent);
  EXPECT_EQ(plan.pieces.size(), 6u);
  EXPECT_THAT(sent, ElementsAre(std::pair(0, 4 * rows), std::pair(1, 4 * rows)));
  // Small pieces are sent by each process in turn.
  for (int i = 0; i < 4; ++i) plan = PlanSend({10}, 4, from, to, &sent);
  EXPECT_EQ(plan.pieces.size(), 4u);
  EXPECT_THAT(sent, ElementsAre(std::pair(0, 4 * rows + 160), std::pair(1, 4 * rows + 160)));
  // Elements that a process already has are not sent.
  sent.clear();
  PlanSend({rows}, 4, Side("a=8", 2, "{a}"), Side("a=4,b=2", 2, "{a}"), &sent);
  EXPECT_THAT(sent, IsEmpty());
  PlanSend({24}, 4, Side("a=8", 2, "{a}"), Side("a=2,b=4", 2, "{b}"), &sent);
  EXPECT_THAT(sent, ElementsAre(std::pair(0, 48), std::pair(1, 48)));
}

}  // namespace
}  // namespace meshwork::send_test
