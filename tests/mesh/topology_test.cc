#include "meshwork/mesh/topology.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"

namespace meshwork::topology_test {
namespace {

using ::testing::ElementsAre;

constexpr Link kFast = {.bandwidth = 2e11, .latency = 1e-6};
constexpr Link kSlow = {.bandwidth = 1e9, .latency = 3e-5};
constexpr Link kLongWay = {.bandwidth = 4e11, .latency = 1e-3};

Mesh Read(std::string_view text) { return Mesh::Parse(text).value(); }

TEST(TopologyTest, IsAlikeOnAllAxesIfNothingIsSaid) {
  const Topology topology;
  EXPECT_TRUE(topology.is_assumed());
  const std::vector<Link> links = topology.LinksOf(Read("a=2,b=3*4"));
  ASSERT_EQ(links.size(), 3);
  EXPECT_EQ(links[0], links[2]);
  EXPECT_DOUBLE_EQ(links[0].Seconds(2, 1e10), 1.00002);
  EXPECT_EQ(topology.flops(), 1e11);
}

TEST(TopologyTest, ReadsJson) {
  const Mesh mesh = Read("host=4,device=8,one=1");
  const Topology topology = Topology::Parse(mesh, R"({"axes": {"host": {"bandwidth": 1e9, "latency": 3e-5},
      "device": {"bandwidth": 2e11, "latency": 1e-6}}, "flops": 1e14})")
                                .value();
  EXPECT_FALSE(topology.is_assumed());
  EXPECT_EQ(topology.LinksOf(mesh)[0], kSlow);
  EXPECT_EQ(topology.LinksOf(mesh)[1], kFast);
  EXPECT_EQ(topology.flops(), 1e14);
  EXPECT_EQ(topology, Topology::Create(mesh, {{"device", kFast}, {"host", kSlow}}, 1e14).value());
  EXPECT_NE(topology, Topology::Create(mesh, {{"device", kFast}, {"host", kFast}}, 1e14).value());
  EXPECT_NE(topology, Topology());
}

TEST(TopologyTest, TwoLinksAreAsSlowAsTheSlowerInEachRespect) {
  EXPECT_EQ(Slowest(kLongWay, kFast), (Link{.bandwidth = 2e11, .latency = 1e-3}));
  EXPECT_EQ(Slowest(kFast, kFast), kFast);
}

TEST(TopologyTest, KnowsThePartsOfAnAxis) {
  const Mesh mesh = Read("x=24");
  const Topology topology = Topology::Create(mesh, {{"x:(1)2", kSlow}, {"x:(2)12", kFast}}).value();
  EXPECT_THAT(topology.LinksOf(mesh), ElementsAre(kSlow));
  EXPECT_THAT(topology.LinksOf(Read("x=2*12")), ElementsAre(kSlow, kFast));
  EXPECT_THAT(topology.LinksOf(Read("x=2*3*4")), ElementsAre(kSlow, kFast, kFast));
  EXPECT_THAT(topology.LinksOf(Read("x=4*6")), ElementsAre(kSlow, kFast));
  // A part that crosses hosts, and has no common cut with the parts of the hosts.
  EXPECT_THAT(topology.LinksOf(Read("x=3*8")), ElementsAre(kSlow, kSlow));
}

}  // namespace
}  // namespace meshwork::topology_test
