#include "meshwork/runtime/plan/crossing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/plan/sharing.h"

namespace meshwork::crossing_test {
namespace {

// The plan of each domain for the last node of a local program whose other nodes move no data.
std::vector<Crossing> PlanAll(const Graph& local, int64_t num_domains, int64_t latency_bytes = 0) {
  const Placement placement = Placement::Create(local.mesh(), num_domains).value();
  EXPECT_EQ(placement.mesh(), local.mesh()) << "cut the mesh of the program";
  std::vector<AxisSet> arguments;
  for (const Argument& argument : local.arguments())
    arguments.push_back(local.value(argument.value).layout->ShardedAxes());
  const std::vector<AxisSet> axes = VaryingAxes(local, arguments, /*share=*/true);
  std::vector<Crossing> crossings;
  for (int64_t d = 0; d < num_domains; ++d) {
    const Domain domain(placement, d);
    std::vector<ValueBuffers> values;
    BufferId first = 0;
    for (AxisSet varying : axes) {
      values.push_back({InstanceMap(domain, varying), first});
      first += static_cast<BufferId>(values.back().instances.count());
    }
    const auto last = static_cast<int>(local.nodes().size()) - 1;
    crossings.push_back(CrossingPlanner(local, domain, axes, latency_bytes).Plan(last, values).value());
  }
  return crossings;
}

// "0->1 48, 1->0 48": elements that cross.
std::string Traffic(const std::vector<Crossing>& crossings) {
  std::string text;
  for (const Crossing& crossing : crossings) {
    std::map<int64_t, int64_t> elements;
    for (const Crossed& crossed : crossing.sent) elements[crossed.to_domain] += crossed.num_elements();
    for (const auto& [to, count] : elements)
      text += fmt::format("{}{}->{} {}", text.empty() ? "" : ", ", crossing.sent[0].from_domain, to, count);
  }
  return text;
}

void ExpectLaws(const Graph& local, const std::vector<Crossing>& crossings) {
  using Key = std::tuple<int64_t, int64_t, ValueId, int64_t>;
  const auto key = [](const Crossed& c) { return Key(c.from_domain, c.to_domain, c.value, c.device); };
  std::map<Key, std::vector<ElementRange>> sent, received;
  for (size_t d = 0; d < crossings.size(); ++d) {
    const auto self = static_cast<int64_t>(d);
    for (const Crossed& c : crossings[d].sent) {
      EXPECT_EQ(c.from_domain, self);
      EXPECT_NE(c.to_domain, self);
      EXPECT_TRUE(sent.emplace(key(c), c.elements).second) << "an instance goes to a domain twice";
      int64_t end = -1;
      for (const ElementRange& range : c.elements) {
        EXPECT_GT(range.begin, end) << "an element goes to a domain twice";
        EXPECT_GT(range.end, range.begin);
        end = range.end;
      }
      EXPECT_LE(end, local.value(c.value).type.num_elements());
    }
    for (const Crossed& c : crossings[d].received) {
      EXPECT_EQ(c.to_domain, self);
      received.emplace(key(c), c.elements);
    }
    for (const Transfer& transfer : crossings[d].transfers)
      for (BufferId from : transfer.from) EXPECT_GE(from, -std::ssize(crossings[d].received));
  }
  EXPECT_EQ(sent, received) << "what is sent is what is waited for";
}

std::string TrafficOf(const std::string& text, int64_t num_domains) {
  const Graph local = ParseGraph(text).value();
  const std::vector<Crossing> crossings = PlanAll(local, num_domains);
  ExpectLaws(local, crossings);
  return Traffic(crossings);
}

TEST(CrossingTest, AGatherSendsEachBlockToEachDomainOnce) {
  EXPECT_EQ(TrafficOf("mesh [x=2*2]\nfunc f(%a: f32[2,6] of f32[8,6] {x,_}) {\n"
                      "  %b = all_gather %a axes=(x) dim=0 : f32[8,6] {_,_}\n}",
                      2),
            "0->1 24, 1->0 24");
  EXPECT_EQ(
      TrafficOf("mesh [x=4]\nfunc f(%a: f32[2,6] of f32[8,6] {x,_}) {\n"
                "  %b = all_gather %a axes=(x) dim=0 : f32[8,6] {_,_}\n}",
                4),
      "0->1 12, 0->2 12, 0->3 12, 1->0 12, 1->2 12, 1->3 12, 2->0 12, 2->1 12, 2->3 12, 3->0 12, 3->1 12, "
      "3->2 12");
  // 5 rows in blocks of 2, 2, 1 and 0: padding does not cross.
  EXPECT_EQ(TrafficOf("mesh [x=2*2]\nfunc f(%a: f32[2,6] of f32[5,6] {x,_}) {\n"
                      "  %b = all_gather %a axes=(x) dim=0 : f32[5,6] {_,_}\n}",
                      2),
            "0->1 24, 1->0 6");
}

TEST(CrossingTest, ASumCrossesOnce) {
  EXPECT_EQ(TrafficOf("mesh [x=2, y=3]\nfunc f(%a: f32[4] {_ | sum:x}) {\n"
                      "  %b = all_reduce %a axes=(x) op=sum : f32[4] {_}\n}",
                      2),
            "");
  EXPECT_EQ(TrafficOf("mesh [x=2, y=3]\nfunc f(%a: f32[4,2] of f32[4,6] {_,y}, %c: f32[1] of f32[2] {x}) {\n"
                      "  %s = reduce_sum %c dims=[0] : f32[] {| sum:x}\n"
                      "  %b = all_reduce %s axes=(x) op=sum : f32[] {}\n}",
                      2),
            "0->1 1, 1->0 1");
}

// Each of four domains adds up 16 of 64 elements.
TEST(CrossingTest, ALargeSumOverManyDomainsCrossesInParts) {
  const Graph local = ParseGraph(
                          "mesh [x=4]\nfunc f(%a: f32[64,1] of f32[64,4] {_,x}) {\n"
                          "  %p = reduce_sum %a dims=[1] : f32[64] {_ | sum:x}\n"
                          "  %b = all_reduce %p axes=(x) op=sum : f32[64] {_}\n}")
                          .value();
  EXPECT_THAT(Traffic(PlanAll(local, 4, /*latency_bytes=*/256)),
              testing::StartsWith("0->1 64, 0->2 64, 0->3 64, 1->0"));
  const std::vector<Crossing> crossings = PlanAll(local, 4, /*latency_bytes=*/255);
  ExpectLaws(local, crossings);
  EXPECT_THAT(Traffic(crossings), testing::StartsWith("0->1 16, 0->2 16, 0->3 16, 1->0 16"));
  for (const Crossing& crossing : crossings) {
    ASSERT_EQ(crossing.transfers.size(), 1u);
    EXPECT_EQ(crossing.transfers[0].from.size(), 4u);
    EXPECT_EQ(crossing.transfers[0].box.elements(), 16);
    EXPECT_EQ(crossing.sent_parts.size(), 3u);
    std::vector<bool> is_received(64);
    for (const Crossed& part : crossing.received_parts) {
      ASSERT_EQ(part.elements.size(), 1u);
      const auto [begin, end] = part.elements[0];
      EXPECT_EQ(std::pair(begin, end), std::pair(16 * part.from_domain, 16 * part.from_domain + 16));
      for (int64_t i = begin; i < end; ++i) is_received[static_cast<size_t>(i)] = true;
      const std::vector<Crossed>& sent = crossings[static_cast<size_t>(part.from_domain)].sent_parts;
      EXPECT_TRUE(std::any_of(sent.begin(), sent.end(), [&](const Crossed& other) {
        return other.to_domain == part.to_domain && other.value == part.value &&
               other.elements == part.elements;
      }));
    }
    EXPECT_EQ(std::count(is_received.begin(), is_received.end(), true), 48);
  }
}

// A scalar that is the same over y: only the last part has an element. Domains such as (2,1) send and receive nothing
// in the second round, but take part in it.
TEST(CrossingTest, AllDomainsTakePartInBothRounds) {
  const Graph local = ParseGraph(
                          "mesh [x=3, y=2]\nfunc f(%a: f32[1] of f32[3] {x}) {\n"
                          "  %p = reduce_sum %a dims=[0] : f32[] {| sum:x}\n"
                          "  %b = all_reduce %p axes=(x) op=sum : f32[] {}\n}")
                          .value();
  for (const Crossing& crossing : PlanAll(local, 6)) EXPECT_TRUE(crossing.takes_two_rounds);
  for (const Crossing& crossing : PlanAll(local, 6, /*latency_bytes=*/4))
    EXPECT_FALSE(crossing.takes_two_rounds);
}

TEST(CrossingTest, AScatteredSumSendsTheBlocksOfOthers) {
  EXPECT_EQ(TrafficOf("mesh [x=2]\nfunc f(%a: f32[4] of f32[8] {x}) {\n"
                      "  %p = mul %a, %a : f32[4] of f32[8] {x}\n"
                      "  %b = all_to_all_v %p : f32[4] of f32[8] {x}\n}",
                      2),
            "");
  EXPECT_EQ(TrafficOf("mesh [x=2]\nfunc f(%a: f32[8,2] of f32[8,4] {_,x}) {\n"
                      "  %p = reduce_sum %a dims=[1] : f32[8] {_ | sum:x}\n"
                      "  %b = reduce_scatter %p axes=(x) dim=0 op=sum : f32[4] of f32[8] {x}\n}",
                      2),
            "0->1 4, 1->0 4");
}

TEST(CrossingTest, AnExchangeSendsEdges) {
  // A halo of one row: each domain has one neighbour.
  const std::string halo =
      "mesh [x=2*2]\nfunc f(%a: f32[2,5] of f32[8,5] {x,_}) {\n"
      "  %b = exchange %a offset=[-1,0] size=[8,-1] extent=[3,1] : f32[4,5] of f32[16,5] {x,_}\n}";
  EXPECT_EQ(TrafficOf(halo, 2), "0->1 5, 1->0 5");
}

TEST(CrossingTest, BlocksOfAColumnCrossInRuns) {
  // all_to_all: device pairs exchange columns of rows.
  const std::string text =
      "mesh [x=2]\nfunc f(%a: f32[4,6] of f32[8,6] {x,_}) {\n"
      "  %b = all_to_all %a axes=(x) from=0 to=1 : f32[8,3] of f32[8,6] {_,x}\n}";
  EXPECT_EQ(TrafficOf(text, 2), "0->1 12, 1->0 12");
  const std::vector<Crossing> crossings = PlanAll(ParseGraph(text).value(), 2);
  ASSERT_EQ(crossings[0].sent.size(), 1u);
  const std::vector<ElementRuns> runs = RunsOf(crossings[0].sent[0].elements);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(std::tuple(runs[0].begin, runs[0].size, runs[0].count, runs[0].step), std::tuple(3, 3, 4, 6));
}

TEST(CrossingTest, RunsHaveTheElementsOfTheRanges) {
  for (int pattern = 0; pattern < 1 << 10; ++pattern) {
    std::vector<ElementRange> ranges;
    std::vector<int64_t> expected, found;
    for (int64_t i = 0; i < 10; ++i) {
      if ((pattern >> i & 1) == 0) continue;
      expected.push_back(i);
      if (!ranges.empty() && ranges.back().end == i) ++ranges.back().end;
      else ranges.push_back({i, i + 1});
    }
    for (const ElementRuns& runs : RunsOf(ranges))
      for (int64_t r = 0; r < runs.count; ++r)
        for (int64_t i = 0; i < runs.size; ++i) found.push_back(runs.begin + r * runs.step + i);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace meshwork::crossing_test
