#include "meshwork/tools/simulate/report.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/tools/simulate/scale.h"

namespace meshwork::report_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
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
  std::vector<std::pair<std::string, double>> events;  // start times and ends, in microseconds
  const json all = json::parse(trace.ToJson());
  for (const json& event : all.at("traceEvents"))
    if (event.at("ph") == "X")
      events.emplace_back(event.at("name"), event.at("ts").get<double>() + event.at("dur").get<double>());
  EXPECT_EQ(events,
            (std::vector<std::pair<std::string, double>>{{"matmul", 48e6}, {"all_reduce over (x)", 116e6}}));
}

// A step that takes no time, and times that no trace can hold.
TEST(SimulationReportTest, TimesAtTheEndsOfTheirRange) {
  const Graph local = ParseGraph(kOneSum).value();
  Simulation none = Simulate(local, SlowLinks(local.mesh()));
  none.seconds = 0;
  for (SimulatedSpan& span : none.spans) span.start = span.seconds = 0;
  EXPECT_THAT(ToText(local, none), Not(HasSubstr("nan")));
  Simulation long_step = Simulate(local, SlowLinks(local.mesh()));
  long_step.spans[1].seconds = 1e300;
  EXPECT_EQ(TraceOf(local, long_step).events[1].ns, std::numeric_limits<int64_t>::max() - 48'000'000'000);
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
      Scale(Mesh::Parse("x=2").value(), {.max_devices = 8, .same_batch = true}, TrainingOn).value();
  ASSERT_EQ(curve.size(), 4u);
  for (size_t p = 0; p < curve.size(); ++p) {
    ASSERT_TRUE(curve[p].status.ok()) << curve[p].status;
    EXPECT_EQ(curve[p].compute_seconds, 2 * 24 * 8 * 16 / static_cast<double>(1 << p) + 24 * 8);
    EXPECT_DOUBLE_EQ(curve[p].efficiency, curve[0].seconds / curve[p].seconds / static_cast<double>(1 << p));
  }
}

TEST(ScaleTest, AnErrorOfASizeStandsInItsLine) {
  const auto sometimes = [](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    if (mesh.num_devices() == 2) return InvalidArgument("not on two.\nBut on four.");
    return TrainingOn(mesh);
  };
  const std::vector<ScalePoint> curve =
      Scale(Mesh::Parse("x=2").value(), {.max_devices = 4}, sometimes).value();
  ASSERT_EQ(curve.size(), 3u);
  EXPECT_EQ(MessageOf(curve[1].status), "not on two.\nBut on four.");
  EXPECT_TRUE(curve[2].status.ok());
  EXPECT_THAT(ToText(curve), AllOf(HasSubstr("  [x=2] not on two.\n"), Not(HasSubstr("four"))));
  EXPECT_EQ(json::parse(ToJson(curve).dump())[1].at("error"), "not on two.\nBut on four.");
}

// The labels are the first input; the axis cuts the images.
TEST(ScaleTest, TheBatchIsWhatTheAxisCuts) {
  const auto point_on = [](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    MESHWORK_ASSIGN_OR_RETURN(
        Graph graph, ParseGraph(fmt::format("mesh {}\nfunc f(%table: f32[5,8], %h: f32[16,5] {{x,_}}) {{\n"
                                            "  %y = matmul %h, %table\n  return y=%y\n}}",
                                            mesh.ToString())));
    return ScaleProgram{std::move(graph), {}};
  };
  const std::vector<ScalePoint> curve =
      Scale(Mesh::Parse("x=2").value(), {.max_devices = 4}, point_on).value();
  for (const ScalePoint& point : curve) {
    ASSERT_TRUE(point.status.ok()) << point.status;
    EXPECT_EQ(point.batch_input, "h");
    EXPECT_EQ(point.batch, 8 * point.mesh.num_devices());
  }
  EXPECT_THAT(ToText(curve),
              HasSubstr("\nThe batch is dim 0 of %h: 8 with the first size, 32 with the last.\n"));
  const std::vector<ScalePoint> same =
      Scale(Mesh::Parse("x=2").value(), {.max_devices = 4, .same_batch = true}, point_on).value();
  EXPECT_THAT(ToText(same), Not(HasSubstr("The batch")));
}

// A program for `examples` sequences per position, with activations of 1024 tokens and 768 numbers each.
absl::StatusOr<ScaleProgram> SequencesOn(const Mesh& mesh, int64_t examples) {
  MESHWORK_ASSIGN_OR_RETURN(
      Graph graph,
      ParseGraph(fmt::format("mesh {}\nfunc f(%tokens: i32[{},1024] {{x,_}}, var %table: f32[512,768]) {{\n"
                             "  %y = gather %table, %tokens dim=0\n"
                             "  %s = reduce_sum %y dims=[0,1,2]\n  return s=%s\n}}",
                             mesh.ToString(), 2 * examples)));
  return ScaleProgram{std::move(graph), {}};
}

// No value has more than 2^40 elements.
TEST(ScaleTest, ACurveReachesAsFarAsTheBatchCanGrow) {
  const Mesh mesh = Mesh::Parse("x=2").value();
  const auto curve_of = [&](int64_t examples) {
    return Scale(mesh, {}, [&](const Mesh& on) { return SequencesOn(on, examples); }).value();
  };
  const std::vector<ScalePoint> small = curve_of(1), large = curve_of(8);
  EXPECT_TRUE(small.back().status.ok()) << small.back().status;
  EXPECT_EQ(
      MessageOf(large.back().status),
      "a batch of 8388608 needs a value of more than 2^40 elements, the most there can be; begin with a smaller "
      "batch than 16 on 2 positions, or end with fewer devices.");
  EXPECT_TRUE(large[large.size() - 4].status.ok());
}

// A mesh has at most 2^40 devices, and a batch at most as many elements.
TEST(ScaleTest, SizesThatCannotBeCountedAreErrors) {
  const auto point_on = [](const Mesh& mesh) -> absl::StatusOr<ScaleProgram> {
    Graph graph(mesh);
    graph.Output("y", graph.Input("x", F32, {int64_t{1} << 39}, {"x"}));
    return ScaleProgram{std::move(graph), {}};
  };
  const std::vector<ScalePoint> curve =
      Scale(Mesh::Parse("x=1").value(), {.max_devices = std::numeric_limits<int64_t>::max()}, point_on)
          .value();
  ASSERT_EQ(curve.size(), 41u);
  EXPECT_TRUE(curve[1].status.ok()) << curve[1].status;
  EXPECT_THAT(MessageOf(curve[40].status), HasSubstr("more than 2^40 elements"));
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
}  // namespace meshwork::report_test
