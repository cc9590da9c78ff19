#include "meshwork/simulate/report.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/simulate/scale.h"

namespace meshwork {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kOneSum = R"(mesh [x=4]
func step(%a: f32[2,3] of f32[2,12] {_,x}, %b: f32[3,4] of f32[12,4] {x,_}) {
  %p = matmul %a, %b : f32[2,4] {_,_ | sum:x}
  %s = all_reduce %p axes=(x) op=sum : f32[2,4] {_,_}
  return y=%s
})";

Machine SlowLinks(const Mesh& mesh) {
  return {.topology = Topology::Create(mesh, {{"x", {.bandwidth = 1, .latency = 5}}}, /*flops=*/1).value()};
}

TEST(SimulationReportTest, SaysWhatTheStepConsistsOf) {
  const Graph local = ParseGraph(kOneSum).value();
  const Simulation step = Simulate(local, SlowLinks(local.mesh()));
  // 72 bytes of arguments and 32 of the product, over which the sum is written.
  EXPECT_EQ(ToText(local, step), R"(step on [x=4]: 116 s
  compute 48 s; links 68 s, waited for 68 s (0 % hidden)
  limit   links: all_reduce over (x) at program:4 takes 59 %

  lane          time   share   times  op
  links         68 s  58.6 %       1  all_reduce over (x) (program:4)
  compute       48 s  41.4 %       1  matmul (program:3)

what a device holds:
         104 B |###########################
               |###########################
               |###########################
               |###########################
               |###########################
               |###########################
               |################################################################
               |################################################################
               +----------------------------------------------------------------
                0                                                          116 s
)");
  const json all = json::parse(ToJson(local, step).dump());
  EXPECT_EQ(all.at("seconds"), 116);
  EXPECT_EQ(all.at("peak_bytes"), step.peak_bytes);
  EXPECT_EQ(all.at("spans").size(), 2u);
  EXPECT_EQ(all.at("spans")[1].at("lane"), "links");
  EXPECT_EQ(all.at("memory").size(), 3u);
}

TEST(SimulationReportTest, TheDearestStandAlone) {
  const Graph local = ParseGraph(kOneSum).value();
  const std::string text = ToText(local, Simulate(local, SlowLinks(local.mesh())), /*most=*/1);
  EXPECT_THAT(text, HasSubstr("48 s  41.4 %          1 more\n"));
}

TEST(SimulationReportTest, TracesAreReadByTraceViewers) {
  const Graph local = ParseGraph(kOneSum).value();
  const Trace trace = TraceOf(local, Simulate(local, SlowLinks(local.mesh())));
  EXPECT_EQ(Trace::Decode(trace.Encode()).value(), trace);
  std::vector<std::pair<std::string, double>> events;  // with their ends, in microseconds
  const json all = json::parse(trace.ToJson());
  for (const json& event : all.at("traceEvents"))
    if (event.at("ph") == "X")
      events.emplace_back(event.at("name"), event.at("ts").get<double>() + event.at("dur").get<double>());
  EXPECT_EQ(events,
            (std::vector<std::pair<std::string, double>>{{"matmul", 48e6}, {"all_reduce over (x)", 116e6}}));
}

// ---- Scaling.

// 8 examples for each position of x, whose gradient is summed over x.
constexpr std::string_view kScaled = R"(mesh [x=2]
func step(%h: f32[16,24] {x,_}, %d: f32[16,8] {x,_}, var %w: f32[24,8]) {
  %g = matmul %h, %d transpose_a=true
  %w1 = sub %w, %g
  update %w = %w1
})";

absl::StatusOr<ScaleProgram> TrainingOn(const Mesh& mesh) {
  std::string text(kScaled);
  text.replace(0, text.find('\n'), "mesh " + mesh.ToString());
  MESHWORK_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text));
  const Link link{.bandwidth = 1e3, .latency = 1};
  MESHWORK_ASSIGN_OR_RETURN(Topology topology, Topology::Create(mesh, {{"x", link}}, /*flops=*/1));
  return ScaleProgram{std::move(graph), {.topology = std::move(topology)}};
}

TEST(ScaleTest, ABatchThatGrowsLeavesEachDeviceItsWork) {
  const std::vector<ScalePoint> curve = Scale(Mesh::Parse("x=2").value(), {.axis = "x"}, TrainingOn).value();
  ASSERT_EQ(curve.size(), 21u);
  for (size_t p = 0; p < curve.size(); ++p) {
    ASSERT_TRUE(curve[p].status.ok()) << curve[p].status;
    EXPECT_EQ(curve[p].mesh.num_devices(), int64_t{1} << p);
    EXPECT_EQ(curve[p].compute_seconds, 2 * 24 * 8 * 8 + 24 * 8);
    if (p > 0) {
      EXPECT_GT(curve[p].link_seconds, curve[p - 1].link_seconds);
      EXPECT_LT(curve[p].efficiency, curve[p - 1].efficiency);
    }
  }
  EXPECT_EQ(curve[0].efficiency, 1);
  EXPECT_EQ(curve[0].link_seconds, 0);
  // 2·20 messages, and nearly twice 768 bytes.
  EXPECT_NEAR(curve[20].link_seconds, 40 + 2 * 768 / 1e3, 0.01);
  EXPECT_THAT(ToText(curve), HasSubstr(" 1048576  [x=1048576]"));
  EXPECT_EQ(json::parse(ToJson(curve).dump())[20].at("devices"), 1 << 20);
}

TEST(ScaleTest, ABatchThatStaysIsShared) {
  const std::vector<ScalePoint> curve =
      Scale(Mesh::Parse("x=2").value(), {.devices = 8, .same_batch = true}, TrainingOn).value();
  ASSERT_EQ(curve.size(), 4u);
  for (size_t p = 0; p < curve.size(); ++p) {
    ASSERT_TRUE(curve[p].status.ok()) << curve[p].status;
    EXPECT_EQ(curve[p].compute_seconds, 2 * 24 * 8 * 16 / static_cast<double>(1 << p) + 24 * 8);
    EXPECT_DOUBLE_EQ(curve[p].efficiency, curve[0].seconds / curve[p].seconds / static_cast<double>(1 << p));
  }
}

TEST(ScaleTest, AnErrorOfASizeStandsInItsLine) {
  const auto sometimes = [](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    if (mesh.num_devices() == 2) return InvalidArgument("not on two.");
    return TrainingOn(mesh);
  };
  const std::vector<ScalePoint> curve = Scale(Mesh::Parse("x=2").value(), {.devices = 4}, sometimes).value();
  ASSERT_EQ(curve.size(), 3u);
  EXPECT_EQ(MessageOf(curve[1].status), "not on two.");
  EXPECT_TRUE(curve[2].status.ok());
  EXPECT_THAT(ToText(curve), HasSubstr("  [x=2] not on two.\n"));
  EXPECT_EQ(json::parse(ToJson(curve).dump())[1].at("error"), "not on two.");
}

TEST(MachineTest, IsReadAsItIsWritten) {
  const Machine machine{.product_flops = 1e12,
                        .memory_bandwidth = 2e11,
                        .op_seconds = 1e-6,
                        .step_seconds = 2e-6,
                        .workers = 4,
                        .copy_bandwidth = 1e10,
                        .barrier_seconds = 5e-7,
                        .kernels = {{"neg f32[2] -> f32[2]", 1e-9}, {"piece", 2}}};
  const Machine read = ParseMachine(MachineToJson(machine).dump()).value();
  EXPECT_EQ(read.product_flops, machine.product_flops);
  EXPECT_EQ(read.memory_bandwidth, machine.memory_bandwidth);
  EXPECT_EQ(read.op_seconds, machine.op_seconds);
  EXPECT_EQ(read.step_seconds, machine.step_seconds);
  EXPECT_EQ(read.workers, machine.workers);
  EXPECT_EQ(read.copy_bandwidth, machine.copy_bandwidth);
  EXPECT_EQ(read.barrier_seconds, machine.barrier_seconds);
  EXPECT_EQ(read.kernels, machine.kernels);
  EXPECT_EQ(ParseMachine("{}")->flops(), Topology::kAssumedFlops);
  EXPECT_EQ(MachineToJson(ParseMachine("{}").value()).at("product_flops"), Topology::kAssumedFlops);
}

}  // namespace
}  // namespace meshwork
