// The command simulate of the program meshwork.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/simulate/report.h"
#include "meshwork/tools/simulate/scale.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_simulate_test {
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
                                         "--scale", "model", "--strong", "--max-devices", "16", "--json"}));
  ASSERT_EQ(curve.size(), 4u);  // model = 1, 2, 4, 8
  EXPECT_EQ(curve[3].at("devices"), 16);
  EXPECT_EQ(curve[0].at("efficiency"), 1);
}

// Measurements of this machine can be read back.
TEST_F(MeshworkTest, SimulateMeasures) {
  const std::string machine = Path("here.json");
  const std::string measured = Output({"simulate", Path("step.mw"), "--measure", "--machine", machine});
  EXPECT_GT(json::parse(Contents(Path("here.json"))).at("kernels").size(), 0u);
  EXPECT_EQ(Output({"simulate", Path("step.mw"), "--machine", machine}), measured);
  EXPECT_THAT(Output({"simulate", Path("step.mw"), "--machine", machine, "--domains", "2"}),
              HasSubstr(" over (batch"));
}

// Measurements of one program stay when another program is measured. The same program is measured anew.
TEST_F(MeshworkTest, SimulateMeasuresOneProgramAfterTheOther) {
  const std::string machine = Path("here.json");
  File("other.mw", "mesh [x=2]\nfunc other(%h: f32[40,30] {x,_}) {\n  %y = exp %h\n  return y=%y\n}");
  const auto kernels = [&] { return json::parse(Contents(machine)).at("kernels"); };
  Output({"simulate", Path("step.mw"), "--measure", "--machine", machine});
  const json first = kernels();
  Output({"simulate", Path("other.mw"), "--measure", "--machine", machine});
  EXPECT_GT(kernels().size(), first.size());
  for (const auto& [key, seconds] : first.items()) EXPECT_EQ(kernels().at(key), seconds) << key;
  json changed = json::parse(Contents(machine));
  const std::string key = first.begin().key();
  changed["kernels"][key] = 1e6;
  File("here.json", changed.dump());
  Output({"simulate", Path("step.mw"), "--measure", "--machine", machine});
  EXPECT_LT(kernels().at(key), 1e6);
}

// A name may be any bytes.
TEST_F(MeshworkTest, SimulateOfAFileWhoseNameIsNoTextIsJson) {
  const std::string step = File("\xff.mw", kStep);
  EXPECT_EQ(json::parse(Output({"simulate", step, "--json"})).at("program"), "step");
}

// Standard input is read once, for all sizes.
TEST_F(MeshworkTest, SimulateScalesStandardInput) {
  File("machine.json", R"({"op_seconds": 1e-6})");
  const std::string flags = " --scale batch --max-devices 16 --json --machine ";
  const Finished named = Shell("\"$0\" simulate step.mw" + flags + "machine.json");
  EXPECT_EQ(named.code, 0);
  EXPECT_EQ(named.err, "");
  const Finished program = Shell("\"$0\" simulate -" + flags + "machine.json < step.mw");
  EXPECT_EQ(program.err, "");
  EXPECT_EQ(json::parse(program.out)[2].at("seconds"), json::parse(named.out)[2].at("seconds"));
  EXPECT_EQ(Shell("\"$0\" simulate step.mw" + flags + "- < machine.json").out, named.out);
}

// An axis that is named "first" takes precedence over the word for the first axis.
TEST_F(MeshworkTest, SimulateScalesAnAxisThatIsCalledFirst) {
  const std::string step =
      File("axes.mw", "mesh [a=2, first=2]\nfunc f(%h: f32[8] {first}) {\n  %y = exp %h\n  return y=%y\n}");
  const json curve =
      json::parse(Output({"simulate", step, "--scale", "first", "--max-devices", "4", "--json"}));
  EXPECT_EQ(curve.at(0).at("mesh"), "[a=2, first=1]");
}

TEST_F(MeshworkTest, SimulateFailsWhereEverySizeDoes) {
  const std::string step = Path("step.mw");
  const Finished finished =
      Run({"simulate", step, "--scale", "batch", "--max-devices", "16", "--memory-budget", "10"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr("meshwork simulate: [batch=1, model=4]: Compile: step does not fit"));
}

TEST_F(MeshworkTest, SimulateOverwritesNothingThatItReads) {
  File("here.json", "{}");
  const auto refused = [&](const std::string& flag, const std::string& given, const std::string& what,
                           const std::string& other) {
    return fmt::format(
        "meshwork simulate: --{}: {} is {} too, and would be overwritten; give another name, as {}.", flag,
        given, what, other);
  };
  ExpectFails(Shell("\"$0\" simulate step.mw --trace step.mw"), 2,
              refused("trace", "step.mw", "FILE", "step.trace.json"));
  ExpectFails(Shell("\"$0\" simulate step.mw --machine here.json --trace $PWD/here.json"), 2,
              refused("trace", Path("here.json"), "--machine", Path("here.trace.json")));
  ExpectFails(Shell("\"$0\" simulate step.mw --measure --machine new.json --trace new.json"), 2,
              refused("machine", "new.json", "--trace", "new.machine.json"));
  ExpectFails(Shell("\"$0\" simulate step.mw --scale batch --topology here.json --plot here.json"), 2,
              refused("plot", "here.json", "--topology", "here.curve.svg"));
  EXPECT_EQ(Contents(Path("step.mw")), kStep);
  EXPECT_EQ(Contents(Path("here.json")), "{}");
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
      {{"--measure", "--machine", "-"},
       "--measure writes what it measures into the file that --machine names; - is none."},
      {{"--max-devices", "16"},
       "--max-devices says how far a step scales; name the axis that grows with --scale."},
      {{"--scale", "batch", "--domains", "2"},
       "--domains shares the devices of one mesh, --scale simulates many; leave one of them out."},
      {{"--domains", "2"},
       "--domains=2: processes share virtual devices, and --machine has hardware; name a machine with \"workers\", as "
       "--measure writes it."},
      {{"--machine", "-", "--topology", "-"},
       "--machine: - is standard input, which is --topology already; name a file."},
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
}  // namespace meshwork::meshwork_simulate_test
