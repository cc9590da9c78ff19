// The command simulate of the program meshwork.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/meshwork_tool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/simulate/report.h"
#include "meshwork/simulate/scale.h"
#include "meshwork/spmd/compile.h"

namespace meshwork {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::string_view kPod = R"({"axes": {"batch": {"bandwidth": 1e9, "latency": 2e-5},
 "model": {"bandwidth": 1e10, "latency": 3e-6}}, "flops": 1e9})";

TEST_F(MeshworkTest, SimulatePrintsTheStep) {
  File("pod.json", kPod);
  File("chip.json", R"({"memory_bandwidth": 1e9, "op_seconds": 1e-6})");
  const std::vector<std::string> args = {"simulate",       Path("step.mw"), "--topology",
                                         Path("pod.json"), "--machine",     Path("chip.json")};
  const Graph global = ParseGraph(kStep, Path("step.mw")).value();
  const Topology topology = Topology::Parse(global.mesh(), kPod).value();
  const Program program = Compile(global, {.topology = topology}).value();
  const Machine machine{.topology = topology, .memory_bandwidth = 1e9, .op_seconds = 1e-6};
  const Simulation step = Simulate(program.body, machine);
  EXPECT_EQ(Output(args), ToText(program.body, step));
  std::vector<std::string> more = args;
  more.insert(more.end(), {"--json", "--trace", Path("trace.json")});
  EXPECT_EQ(Output(more), ToJson(program.body, step).dump(2) + "\n");
  EXPECT_EQ(Contents(Path("trace.json")), TraceOf(program.body, step).ToJson());
  more = args;
  more.emplace_back("--no-overlap");
  EXPECT_EQ(Output(more), ToText(program.body, Simulate(program.body, machine, {.overlap = false})));
}

TEST_F(MeshworkTest, SimulateScales) {
  File("pod.json", kPod);
  const std::string text = Output({"simulate", Path("step.mw"), "--topology", Path("pod.json"), "--scale",
                                   "first", "--plot", Path("curve.svg")});
  EXPECT_THAT(text, HasSubstr("\n 1048576  [batch=262144, model=4] "));
  EXPECT_THAT(Contents(Path("curve.svg")), HasSubstr("<svg"));
  const json curve = json::parse(Output({"simulate", Path("step.mw"), "--topology", Path("pod.json"),
                                         "--scale", "model", "--strong", "--devices", "16", "--json"}));
  ASSERT_EQ(curve.size(), 4u);  // model = 1, 2, 4, 8
  EXPECT_EQ(curve[3].at("devices"), 16);
  EXPECT_EQ(curve[0].at("efficiency"), 1);
}

// What this machine measures is read back.
TEST_F(MeshworkTest, SimulateMeasures) {
  const std::string machine = Path("here.json");
  const std::string measured = Output({"simulate", Path("step.mw"), "--measure", "--machine", machine});
  EXPECT_GT(json::parse(Contents(Path("here.json"))).at("kernels").size(), 0u);
  EXPECT_EQ(Output({"simulate", Path("step.mw"), "--machine", machine}), measured);
  EXPECT_THAT(Output({"simulate", Path("step.mw"), "--machine", machine, "--domains", "2"}),
              HasSubstr(" over (batch"));
}

TEST_F(MeshworkTest, SimulateRefusesArgumentsThatAreWrong) {
  File("broken.json", R"({"flops": 1})");
  const std::string step = Path("step.mw");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--measure"}, "--measure writes what it measures into the file that --machine names; name one."},
      {{"--strong"}, "--strong says how a step scales; name the axis that grows with --scale."},
      {{"--plot", "p.svg"}, "--plot draws how a step scales; name the axis that grows with --scale."},
      {{"--scale", "batch", "--trace", "t"},
       "--trace writes one step, --scale simulates many; leave one of them out."},
      {{"--scale", "batch", "--measure", "--machine", "m"},
       "--measure times one program, --scale simulates many; leave one of them out."},
      {{"--scale", "bacth"},
       "Scale: mesh [batch=2, model=4] has no axis \"bacth\" that could grow; did you mean \"batch\"?"},
      {{"--machine", Path("broken.json")}, "--machine: " + Path("broken.json") + ": machine: "},
      {{"--trace", "/no/such/folder/t.json"}, "--trace: "},
  };
  for (const auto& [args, message] : cases) {
    std::vector<std::string> all = {"simulate", step};
    all.insert(all.end(), args.begin(), args.end());
    const Finished finished = Run(all);
    EXPECT_EQ(finished.code, 2) << message;
    EXPECT_THAT(finished.err, HasSubstr("meshwork simulate: " + message));
  }
}

}  // namespace
}  // namespace meshwork
