// Meshes that are found cost no more than meshes that engineers choose by hand.
#include "meshwork/spmd/auto/auto_mesh.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/gradients.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ops/ops.h"

namespace meshwork::auto_mesh_test {
namespace {

using testing::HasSubstr;

// Two layers and their training step: x [batch, units], weights [units, hidden] and [hidden, units].
Graph Mlp(const std::string& mesh, int64_t batch, int64_t units, int64_t hidden, const LayoutSpec& x,
          const LayoutSpec& in, const LayoutSpec& out) {
  Graph graph(Mesh::Parse(mesh).value());
  Value h = graph.Input("x", F32, {batch, units}, x);
  const Value target = graph.Input("target", F32, {batch, units}, x);
  std::vector<Variable> variables;
  for (int layer = 0; layer < 2; ++layer) {
    variables.push_back(graph.Var(fmt::format("in{}", layer), {.type = {F32, {units, hidden}}}, in));
    variables.push_back(graph.Var(fmt::format("out{}", layer), {.type = {F32, {hidden, units}}}, out));
    h = MatMul(Relu(MatMul(h, variables[2 * layer])), variables[2 * layer + 1]);
  }
  const std::vector<Value> weights(variables.begin(), variables.end());
  const std::vector<Value> gradients = Gradients(ReduceMean(SquaredDifference(h, target)), weights);
  for (size_t i = 0; i < weights.size(); ++i) graph.Update(variables[i], weights[i] - gradients[i] * 0.01);
  return graph;
}
Graph OpenMlp(const std::string& mesh, int64_t batch, int64_t units, int64_t hidden) {
  const LayoutSpec open = {OPEN, OPEN};
  return Mlp(mesh, batch, units, hidden, open, open, open);
}

// Four hosts of eight devices as one axis of 32: the program does not know that its parts have different links.
TEST(AutoMeshTest, HostsTakeExamplesAndTheirDevicesWeights) {
  const Graph by_hand = Mlp("host=4,device=8", 512, 1024, 4096, {"host", UNSHARDED}, {UNSHARDED, "device"},
                            {"device", UNSHARDED});
  const Topology of_hosts = Topology::Parse(by_hand.mesh(), R"({"axes": {
      "host": {"bandwidth": 1e9, "latency": 1e-5}, "device": {"bandwidth": 1e11, "latency": 1e-6}}, "flops": 1e13})")
                                .value();
  const StepCost hand = CostOf(Compile(by_hand, {.topology = of_hosts}).value().body, of_hosts);

  const Graph flat = OpenMlp("devices=32", 512, 1024, 4096);
  const Topology topology = Topology::Parse(flat.mesh(), R"({"axes": {
      "devices:(1)4": {"bandwidth": 1e9, "latency": 1e-5}, "devices:(4)8": {"bandwidth": 1e11, "latency": 1e-6}},
      "flops": 1e13})")
                                .value();
  std::vector<std::string> searched;
  const std::vector<FoundLayouts> found =
      FindMesh(flat, {.topology = topology},
               {.on_search = [&](const Mesh& mesh) { searched.push_back(mesh.ToString()); }})
          .value();
  EXPECT_LE(found[0].cost.seconds, hand.seconds * 1.001);
  EXPECT_EQ(CostOf(Compile(found[0].graph, {.topology = topology}).value().body, topology).bytes,
            found[0].cost.bytes);
  const std::vector<FoundLayouts> uncut = FindLayouts(flat, {.topology = topology}).value();
  EXPECT_LT(found[0].seconds(), 0.9 * uncut[0].seconds());
  // At least all first cuts are searched: in 2, 4, 8 and 16.
  ASSERT_GE(searched.size(), 5);
  EXPECT_EQ(searched[0], flat.mesh().ToString());
}

// Two examples, eight devices: an axis that shards both the batch and the weights has to be cut itself.
TEST(AutoMeshTest, FewExamplesAndManyDevices) {
  const Graph flat = OpenMlp("x=8", 2, 1024, 4096);
  const std::vector<FoundLayouts> found = FindMesh(flat).value();
  const Graph by_hand = Mlp("a=2,b=4", 2, 1024, 4096, {"a", UNSHARDED}, {UNSHARDED, "b"}, {"b", UNSHARDED});
  EXPECT_LE(found[0].cost.bytes, CostOf(Compile(by_hand).value().body, {}).bytes);
}

// No mesh of one cut is better than what is found.
TEST(AutoMeshTest, TakesNoMoreTimeThanAnyMeshOfOneCut) {
  const Graph graph = OpenMlp("x=8", 64, 512, 2048);
  const std::vector<FoundLayouts> found = FindMesh(graph, {}, {.most = 10}).value();
  for (const char* part : {"x", "x:(1)2", "x:(1)4"}) {
    Graph cut = graph;
    cut.CutMesh(graph.mesh().Cut(part).value());
    EXPECT_LE(found[0].seconds(), FindLayouts(cut).value()[0].seconds()) << part;
  }
}

// All divisors of an axis, however large it is.
TEST(AutoMeshTest, TriesAllDivisors) {
  const auto meshes_of = [](const std::string& mesh) {
    int count = 0;
    EXPECT_TRUE(
        FindMesh(OpenMlp(mesh, 4, 2, 2), {}, {.most_cuts = 1, .on_search = [&](const Mesh&) { ++count; }})
            .ok());
    return count;
  };
  EXPECT_EQ(meshes_of("x=12"), 1 + 4);
  EXPECT_EQ(meshes_of("x=36"), 1 + 7);
  EXPECT_EQ(meshes_of("x=1000000007"), 1) << "a prime";
}

// If no cut helps, the mesh stays as it is, and each plan is listed once.
TEST(AutoMeshTest, WhatNeedsNoCutIsNotCut) {
  const std::vector<FoundLayouts> found = FindMesh(OpenMlp("x=4", 4096, 32, 64), {}, {.most = 10}).value();
  EXPECT_EQ(found[0].graph.mesh().ToString(), "[x=4]");
  for (size_t i = 1; i < found.size(); ++i)
    EXPECT_TRUE(found[i].seconds() != found[i - 1].seconds() ||
                found[i].cost.bytes != found[i - 1].cost.bytes ||
                found[i].cost.peak_bytes != found[i - 1].cost.peak_bytes ||
                found[i].cost.collectives != found[i - 1].cost.collectives);
}

TEST(AutoMeshTest, ErrorsAreThoseOfFindLayouts) {
  const Graph flat = OpenMlp("x=4", 4096, 32, 64);
  const absl::Status full = FindMesh(flat, {.memory_budget = 1000}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("FindLayouts: a device may hold 1000 B"));
  EXPECT_EQ(FindMesh(flat, {}, {.most = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace meshwork::auto_mesh_test
