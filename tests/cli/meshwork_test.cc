// The program meshwork as a shell sees it: what it prints, writes and returns.
#include "meshwork.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/process.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/plan/memory_report.h"
#include "meshwork/spmd/cheaper_layouts.h"
#include "support/golden.h"
#include "train/temp_dir.h"

namespace meshwork {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::string_view kStep = R"(mesh [batch=2, model=4]
func step(%h: f32[8,12] {batch,model},
     var %w: f32[12,4] {model,_}) {
  %y = matmul %h, %w : f32[8,4] {batch,_}
  %loss = reduce_sum %y dims=[0,1] : f32[]
  %0 = add %w, %w : f32[12,4]
  update %w = %0
  return y=%y, loss=%loss
}
)";

class MeshworkTest : public TempDirTest {
 protected:
  MeshworkTest() { File("step.mw", kStep); }

  static Finished Run(const std::vector<std::string>& args) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return RunProcess(MESHWORK, args, fmt::format("{}cli-{}-{}", testing::TempDir(), test.name(), getpid()));
  }
  // As a shell does, in the test's folder, where $0 is the program.
  Finished Shell(const std::string& command) const {
    return RunProcess("/bin/sh", {"-c", fmt::format("cd {} && {}", dir(), command), MESHWORK}, Path("shell"));
  }

  // Nothing on stdout; this on stderr, where $ stands for the test's folder.
  void ExpectFails(const Finished& finished, int code, std::string_view message) const {
    std::string expected;
    for (char c : message) {
      if (c == '$') expected += dir();
      else expected += c;
    }
    EXPECT_EQ(finished.err, expected + "\n");
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.code, code);
  }

  // What a command prints that succeeds.
  static std::string Output(const std::vector<std::string>& args) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err, "");
    return finished.out;
  }
};

Program Compiled() { return Compile(ParseGraph(kStep).value()).value(); }

// ---- The command line.

TEST_F(MeshworkTest, HelpListsCommandsAndFlags) {
  std::string all;
  for (const char* command : {"", "compile", "explain", "verify", "run", "relayout", "ops", "fmt"}) {
    std::vector<std::string> args = {"--help"};
    if (*command != '\0') args.insert(args.begin(), command);
    all += fmt::format("$ meshwork {}\n{}\n", fmt::join(args, " "), Output(args));
  }
  ExpectGolden("cli/meshwork_help.txt", all);
}

TEST_F(MeshworkTest, SaysItsVersion) { EXPECT_EQ(Output({"--version"}), "meshwork " MESHWORK_VERSION "\n"); }

TEST_F(MeshworkTest, RefusesArgumentsThatAreWrong) {
  const std::string step = Path("step.mw");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "meshwork: a command is missing. See --help."},
      {{"compil", step}, "meshwork: there is no command \"compil\"; did you mean \"compile\"? See --help."},
      {{"--emit=local"}, "meshwork: there is no command \"--emit=local\". See --help."},
      {{"compile"}, "meshwork compile: FILE is missing. See --help."},
      {{"compile", step, step}, "meshwork compile: \"$/step.mw\" is one argument too many. See --help."},
      {{"compile", step, "--emit=locl"},
       "meshwork compile: --emit: \"locl\" is not one of global, propagated, local, stats, memory, "
       "explain, certificate; did you mean \"local\"?"},
      {{"compile", step, "--emti", "local"},
       "meshwork compile: there is no flag --emti; did you mean \"emit\"? See --help."},
      {{"compile", step, "--passes", "--emit=stats"},
       "meshwork compile: --passes prints programs, not --emit=stats; leave one of them out."},
      {{"verify", step}, "meshwork verify: CERT is missing. See --help."},
      {{"verify", "-", "-"}, "meshwork verify: only one of FILE and CERT can be standard input."},
      {{"run", step, "--workers", "-1"},
       "meshwork run: --workers: \"-1\" is not a whole number from 0 to 1024."},
      {{"fmt", "--check", "--in-place", step},
       "meshwork fmt: --check changes nothing; leave it or --in-place out."},
      {{"fmt", "--in-place", "-"}, "meshwork fmt: --in-place needs a file; standard input is none."},
  };
  for (const auto& [args, message] : cases) ExpectFails(Run(args), 2, message);
}

TEST_F(MeshworkTest, RefusesProgramsThatAreNone) {
  const std::string wrong = File("wrong.mw", "mesh [x=2]\nfunc f(%x: f32[4] {y}) {\n}\n");
  const std::string error =
      "$/wrong.mw:2:19: Layout {y}: mesh [x=2] has no axis \"y\".\n"
      "  func f(%x: f32[4] {y}) {\n                    ^";
  for (const char* command : {"compile", "explain", "run", "fmt"}) {
    ExpectFails(Run({command, wrong}), 2, fmt::format("meshwork {}: {}", command, error));
    ExpectFails(
        Run({command, Path("none.mw")}), 2,
        fmt::format("meshwork {}: $/none.mw: cannot be read: No such file or directory; check the path.",
                    command));
    ExpectFails(Run({command, dir()}), 2,
                fmt::format("meshwork {}: $: cannot be read: Is a directory; check the path.", command));
  }
  ExpectFails(Run({"verify", wrong, wrong}), 2, "meshwork verify: " + error);
  const std::string local = File("local.mw", Output({"compile", Path("step.mw")}));
  ExpectFails(
      Run({"compile", local}), 2,
      "meshwork compile: Compile: \"step\" is a local program, compiled already; hand it to the executor.");
}

TEST_F(MeshworkTest, ReadsStandardInputAndMissesNothingThatItPrints) {
  const Finished piped = Shell("\"$0\" compile - < step.mw");
  EXPECT_EQ(piped.out, Output({"compile", Path("step.mw")}));
  EXPECT_EQ(piped.code, 0);
  const Finished wrong = Shell("echo oops | \"$0\" compile -");
  ExpectFails(wrong, 2,
              "meshwork compile: standard input:1:1: expected \"mesh\", found \"oops\".\n  oops\n  ^");
  ExpectFails(Shell("\"$0\" compile step.mw > /dev/full"), 1,
              "meshwork: standard output: No space left on device.");
}

// ---- compile, explain.

TEST_F(MeshworkTest, CompilePrintsTheProgramOfEachStage) {
  const std::string step = Path("step.mw");
  const Program program = Compiled();
  EXPECT_EQ(Output({"compile", step}), PrintGraph(program.body));
  EXPECT_EQ(Output({"compile", "--emit=local", step}), PrintGraph(program.body));
  EXPECT_EQ(Output({"compile", "--emit=global", step}), kStep);
  const std::string propagated = R"(// value 4 dim 0 = (model): update of %w
mesh [batch=2, model=4]
func step(%h: f32[8,12] {batch,model},
     var %w: f32[12,4] {model,_}) {
  %y = matmul %h, %w : f32[8,4] {batch,_}
  %loss = reduce_sum %y dims=[0,1] : f32[] {}
  %0 = add %w, %w : f32[12,4] {model,_}
  update %w = %0
  return y=%y, loss=%loss
}
)";
  EXPECT_EQ(Output({"compile", "--emit", "propagated", step}), propagated);
  std::string passes;
  CompileOptions options;
  options.dump = [&](std::string_view pass, const Graph& graph) {
    passes += fmt::format("{}// {}\n{}", passes.empty() ? "" : "\n", pass, PrintGraph(graph));
  };
  ASSERT_TRUE(Compile(ParseGraph(kStep).value(), options).ok());
  EXPECT_EQ(Output({"compile", "--passes", step}), passes);
}

TEST_F(MeshworkTest, CompilePrintsWhatIsKnownOfTheProgram) {
  json stats = json::parse(Output({"compile", "--emit=stats", Path("step.mw")}));
  for (const PassTiming& pass : Compiled().passes) {
    EXPECT_GE(stats["ms"][pass.pass].get<double>(), 0) << pass.pass;
    stats["ms"].erase(pass.pass);
  }
  EXPECT_GT(stats["ms"]["verify"].get<double>(), 0);
  stats["ms"].erase("verify");
  // The product takes 2*8*4*12 operations, 2*4*4*3 on a device; the sum and the add one per result element.
  // Most is held while y, 4x4 on a device, is summed: y before and after, and w, 3x4.
  for (json& value : stats["peak"]["largest"])
    EXPECT_THAT(value["line"].get<std::string>(), HasSubstr("step.mw:"));
  for (json& value : stats["peak"]["largest"]) value.erase("line");
  EXPECT_THAT(stats["peak"]["at"].get<std::string>(), HasSubstr("step.mw:4), %0"));
  stats["peak"].erase("at");
  const std::string expected = R"json({"mesh": "[batch=2, model=4]", "devices": 8, "collectives": [
    {"type": "all_reduce", "axes": "(model)", "count": 1, "wire_bytes_per_device": 96},
    {"type": "all_reduce", "axes": "(batch)", "count": 1, "wire_bytes_per_device": 4}],
    "flops": 817, "flops_per_device": 109, "peak_bytes": 176, "peak": {"values": 3, "largest": [
    {"value": "%y", "type": "f32[4,4]", "global": "f32[8,4]", "layout": "{batch,_ | sum:model}", "bytes": 64,
     "op": "matmul"},
    {"value": "%0", "type": "f32[4,4]", "global": "f32[8,4]", "layout": "{batch,_}", "bytes": 64,
     "op": "all_reduce"},
    {"value": "%w", "type": "f32[3,4]", "global": "f32[12,4]", "layout": "{model,_}", "bytes": 48, "op": ""}]},
    "ms": {}})json";
  EXPECT_EQ(stats, json::parse(expected));
  const Graph local = Compile(ParseGraph(kStep, Path("step.mw")).value()).value().body;
  EXPECT_EQ(Output({"compile", "--emit=memory", Path("step.mw")}),
            PrintMemoryReport(local, ReportMemory(local)));
}

TEST_F(MeshworkTest, CompilePlansWithinAMemoryBudget) {
  const std::string step = Path("step.mw");
  EXPECT_THAT(Output({"compile", "--emit=memory", "--memory-budget=176", step}),
              HasSubstr("176 B per device at "));
  // The sum in blocks that are gathered: y, a quarter of it, and w.
  const std::string less = Output({"compile", "--memory-budget", "1KiB", "--emit=stats", step});
  EXPECT_EQ(json::parse(less)["peak_bytes"], 176);
  const std::string least = Output({"compile", "--memory-budget", "165", "--emit=stats", step});
  EXPECT_LE(json::parse(least)["peak_bytes"].get<int64_t>(), 165);
  const Finished finished = Run({"compile", "--memory-budget=100", step});
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, HasSubstr("does not fit into the memory budget of 100 B"));
}

TEST_F(MeshworkTest, ExplainSaysWhyCollectivesAreThere) {
  const std::string text = Output({"explain", Path("step.mw")});
  const Graph global = ParseGraph(kStep, Path("step.mw")).value();
  const Program program = Compile(global).value();
  Explanation expected = Explain(program);
  expected.search = CheaperLayouts(global, program);
  EXPECT_EQ(text, ToText(expected));
  EXPECT_EQ(text, Output({"compile", "--emit=explain", Path("step.mw")}));
  EXPECT_THAT(text, HasSubstr("step on mesh [batch=2, model=4], 2 collectives, 100 B"));
  EXPECT_THAT(text, HasSubstr("matmul (" + Path("step.mw") + ":4) leaves "));
}

TEST_F(MeshworkTest, ATopologyGivesTimes) {
  const std::string links = R"({"axes": {"batch": {"bandwidth": 1e9, "latency": 1e-5},
                                         "model": {"bandwidth": 2e10, "latency": 1e-6}}})";
  File("links.json", links);
  const Topology topology = Topology::Parse(Mesh::Parse("batch=2,model=4").value(), links).value();
  const json explained =
      json::parse(Output({"explain", "--json", "--topology", Path("links.json"), Path("step.mw")}));
  // 96 B over four devices: two times two messages; 4 B over two: two messages.
  EXPECT_NEAR(explained["list"][0]["seconds"].get<double>(), 4e-6 + 96 / 2e10, 1e-15);
  EXPECT_NEAR(explained["list"][1]["seconds"].get<double>(), 2e-5 + 4 / 1e9, 1e-15);
  EXPECT_NEAR(explained["seconds"].get<double>(), 2.4e-5 + 96 / 2e10 + 4e-9, 1e-15);
  EXPECT_FALSE(json::parse(Output({"explain", "--json", Path("step.mw")})).contains("seconds"));

  const std::vector<std::string> question = {"relayout", "--mesh=batch=2,model=4", "--shape=1024,1024",
                                             "--from={_,_ | sum:(batch,model)}", "--to={_,_}"};
  auto with_topology = question;
  with_topology.push_back("--topology=" + Path("links.json"));
  EXPECT_THAT(Output(question), HasSubstr("1. all_reduce over (batch,model): "));
  EXPECT_THAT(Output(with_topology), HasSubstr("1. reduce_scatter over (model), dim 0: "));
  EXPECT_THAT(Output(with_topology), HasSubstr(" ms\n"));

  File("slow.json", R"({"axes": {"batch": {"bandwidth": 0, "latency": 1e-5}}})");
  ExpectFails(
      Run({"explain", "--topology", Path("slow.json"), Path("step.mw")}), 2,
      "meshwork explain: $/slow.json: topology: the bandwidth of \"batch\" is 0; bytes per second are a "
      "finite number above 0.");
}

// ---- verify.

TEST_F(MeshworkTest, VerifyChecksCertificates) {
  const std::string step = Path("step.mw");
  const std::string certificate = Output({"compile", "--emit=certificate", step});
  const std::string path = File("step.json", certificate);
  const json parsed = json::parse(certificate);
  EXPECT_EQ(Output({"verify", step, path}),
            fmt::format("{}: the local program {} computes step on mesh [batch=2, model=4]; 7 claims hold: 2 "
                        "argument, 3 rule, 2 collective.\n",
                        path, parsed["program"].get<std::string>()));
  EXPECT_EQ(Shell("\"$0\" compile --emit=certificate step.mw | \"$0\" verify step.mw -").code, 0);

  auto tampered = [&](const std::string& from, const std::string& to) {
    std::string text = certificate;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return Run({"verify", step, File("tampered.json", text)});
  };
  const std::string head = "meshwork verify: $/tampered.json: ";
  ExpectFails(tampered(R"("lemma": "rule")", R"("lemma": "mask")"), 1,
              head +
                  "the certificate does not hold: claim 2 says that %y is a block of %y under {batch,_ | "
                  "sum:model}, by mask; proven is that %y is a block of %y under {batch,_ | sum:model}, by "
                  "rule.");
  ExpectFails(tampered("axes=(model) op=sum", "axes=(model) op=max"), 2,
              head +
                  "local:5:8: all_reduce: the operand {batch,_ | sum:model} owes no max over axis "
                  "\"model\".\n    %0 = all_reduce %y axes=(model) op=max : f32[4,4] of f32[8,4] "
                  "{batch,_}\n         ^");
  ExpectFails(tampered("y=%0", "y=%y"), 1,
              head +
                  "the certificate does not hold: Verify: output \"y\" is {batch,_ | sum:model}; what is "
                  "owed must be reduced first.");
  ExpectFails(
      tampered(R"("lemma": "rule")", R"("lemma": "rul")"), 2,
      head +
          "claims[2].lemma is \"rul\"; it must be one of argument, rule, sum, collective, slice, mask, "
          "reshape, exchange, body, rounding.");
  ExpectFails(tampered(R"("mesh")", R"("mehs")"), 2,
              head +
                  "it has the key \"mehs\"; the keys are program, global, mesh, local, claims; did you "
                  "mean \"mesh\"?");

  std::string other(kStep);
  other.replace(other.find("func step"), 9, "func walk");
  const Finished finished = Run({"verify", File("other.mw", other), path});
  ExpectFails(finished, 2,
              fmt::format("meshwork verify: $/step.json: the certificate is for the program {}; this one is "
                          "{}.",
                          parsed["global"].get<std::string>(), Fingerprint(ParseGraph(other).value())));
  ExpectFails(Run({"verify", step, step}), 2,
              "meshwork verify: $/step.mw:1:1: this is no JSON.\n  mesh [batch=2, model=4]\n  ^");
}

// ---- run.

std::vector<float> Ramp(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i % 5));
  return values;
}

TEST_F(MeshworkTest, RunGivesWhatASessionGives) {
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}}).ok());
  const Finished finished =
      Run({"run", Path("step.mw"), "--inputs", Path("in"), "--outputs", Path("out"), "--workers", "2"});
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(finished.out,
            "step on mesh [batch=2, model=4], 8 devices\n"
            "y: f32[8,4] 44, 50, 51, 42, 62, 42, 27, 52, …\n"
            "loss: f32[] 1484\n"
            "var w: f32[12,4] 0, 2, 4, 6, 8, 0, 2, 4, …\n");

  Session session = Session::Create(ParseGraph(kStep).value()).value();
  ASSERT_TRUE(session.Set("w", w).ok());
  const StepResult result = session.Run({{"h", h}}).value();
  const auto written = ReadSafetensors(Path("out")).value();
  ASSERT_EQ(written.size(), 3u);
  for (const auto& [name, tensor] : written) {
    const Tensor expected = name == "w" ? session.Get(name).value() : result.Get(name).value();
    EXPECT_EQ(tensor.type(), expected.type());
    EXPECT_THAT(tensor.values<float>(), testing::ElementsAreArray(expected.values<float>())) << name;
  }
}

constexpr std::string_view kMomentum = R"(mesh [x=4]
func step(%x: f32[64,12] {x,_}, %y: f32[64,4] {x,_}, var %w: f32[12,4] {_,_}, var %m: f32[12,4] {_,_}) {
  %h = matmul %x, %w
  %d = sub %h, %y
  %g = matmul %x, %d transpose_a=true
  %new_m = add %m, %g
  %new_w = sub %w, %new_m
  update %m = %new_m
  update %w = %new_w
}
)";

TEST_F(MeshworkTest, ShardsWeightUpdatesWhereAsked) {
  const std::string file = File("momentum.mw", kMomentum), flag = "--shard-weight-update";
  EXPECT_THAT(Output({"compile", file, flag}), HasSubstr("var %m: f32[3,4] of f32[12,4] {x,_}"));
  EXPECT_THAT(Output({"compile", file, flag, "--passes"}), HasSubstr("// shard_weight_update\n"));
  EXPECT_THAT(Output({"compile", file, flag, "--emit=propagated"}),
              HasSubstr("// %m = {x,_} instead of {_,_}: weight-update sharding\n"));
  EXPECT_THAT(Output({"explain", file, flag}),
              HasSubstr("laid out by weight-update sharding:\n  %m {x,_} instead of {_,_}\n"));
  EXPECT_EQ(json::parse(Output({"explain", file, flag, "--json"}))["sharded_state"],
            json::parse(R"([{"variable": "m", "from": "{_,_}", "to": "{x,_}"}])"));
  // A certificate is for the program with its state laid out so.
  const std::string global = File("global.mw", Output({"compile", file, flag, "--emit=global"}));
  const std::string certificate =
      File("certificate.json", Output({"compile", file, flag, "--emit=certificate"}));
  EXPECT_EQ(Run({"verify", global, certificate}).code, 0);
  EXPECT_EQ(Output({"compile", global}), Output({"compile", file, flag}));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"x", Tensor::From({64, 12}, Ramp(768))},
                                            {"y", Tensor::From({64, 4}, Ramp(256))}})
                  .ok());
  EXPECT_EQ(Output({"run", file, flag, "--inputs", Path("in")}),
            Output({"run", file, "--inputs", Path("in")}));
}

TEST_F(MeshworkTest, RunLeavesOutTensorsThatTheProgramDoesNotHave) {
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}}).ok());
  ASSERT_TRUE(WriteSafetensors(Path("more"), {{"w", w}, {"h", h}, {"adam/step", h}, {"hh", h}}).ok());
  EXPECT_EQ(Output({"run", Path("step.mw"), "--inputs", Path("more")}),
            fmt::format("adam/step of {0} is not used: it is neither an input nor a variable\n"
                        "hh of {0} is not used: it is neither an input nor a variable\n{1}",
                        Path("more"), Output({"run", Path("step.mw"), "--inputs", Path("in")})));
}

TEST_F(MeshworkTest, RunWritesNoTwoTensorsOfOneName) {
  const auto program = [&](std::string_view returned) {
    return File("f.mw", fmt::format("mesh []\nfunc f(var %w: f32[]) {{\n  %v = cos %w\n  %n = neg %v\n"
                                    "  update %w = %v\n  return w=%{}\n}}\n",
                                    returned));
  };
  EXPECT_EQ(Run({"run", program("n")}).code, 0);
  ExpectFails(
      Run({"run", program("n"), "--outputs", Path("out")}), 2,
      "meshwork run: --outputs: an output and an updated variable are both called \"w\"; the file has "
      "room for one. Rename the output.");
  // The new value of the variable, once.
  ASSERT_EQ(Run({"run", program("v"), "--outputs", Path("out")}).code, 0);
  const auto written = ReadSafetensors(Path("out"));
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_EQ(written->size(), 1u);
  EXPECT_EQ(written->begin()->first, "w");
}

// Every command that compiles takes the budgets.
TEST_F(MeshworkTest, RefusesBudgetsThatNothingFits) {
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"h", Tensor::From({8, 12}, Ramp(96))}}).ok());
  const std::string gathers = File("gathers.mw", R"(mesh [x=2]
func f(%a: f32[8,8] {x,_}) {
  %0 = cholesky %a : f32[8,8] {x,_}
  return %0
}
)");
  ASSERT_TRUE(WriteSafetensors(Path("a"), {{"a", Tensor::From({8, 8}, Ramp(64))}}).ok());
  for (const char* command : {"compile", "explain", "run"}) {
    std::vector<std::string> memory = {command, Path("step.mw"), "--memory-budget", "16"};
    std::vector<std::string> replication = {command, gathers, "--replication-budget", "0"};
    std::vector<std::string> enough = {command, gathers, "--replication-budget", "1KiB"};
    if (command == std::string_view("run"))
      for (auto* args : {&memory, &replication, &enough})
        args->insert(args->end(), {"--inputs", Path(args == &memory ? "in" : "a")});
    EXPECT_EQ(Run(memory).code, 2) << Run(memory).err;
    EXPECT_THAT(Run(memory).err, HasSubstr("memory budget"));
    EXPECT_EQ(Run(replication).code, 2) << Run(replication).err;
    EXPECT_THAT(Run(replication).err, HasSubstr("would be gathered whole on every device"));
    EXPECT_EQ(Run(enough).code, 0) << Run(enough).err;
  }
}

TEST_F(MeshworkTest, RefusesProgramsThatComputeNothing) {
  const std::string program = File("f.mw", "mesh []\nfunc f(%x: f32[4]) {\n  %0 = neg %x\n}\n");
  for (const char* command : {"compile", "explain", "run"})
    ExpectFails(
        Run({command, program}), 2,
        fmt::format("meshwork {}: $/f.mw: f returns nothing and updates no variable, so that nothing of it "
                    "is computed; end it with return %value, or update %variable = %value.",
                    command));
  EXPECT_EQ(Run({"fmt", program}).code, 0);
}

TEST_F(MeshworkTest, OpsTellsOfCompositesToo) {
  EXPECT_EQ(
      Output({"ops", "--op", "softmax"}),
      "softmax: no op of its own. In C++ Softmax(x, dim) (ops/ops.h) writes it; for %x: f32[4,6] that is\n"
      "  %0 = reduce_max %x dims=[1] keep_dims=true : f32[4,1]\n"
      "  %1 = stop_gradient %0 : f32[4,1]\n"
      "  %2 = sub %x, %1 : f32[4,6]\n"
      "  %3 = exp %2 : f32[4,6]\n"
      "  %4 = reduce_sum %3 dims=[1] keep_dims=true : f32[4,1]\n"
      "  %5 = div %3, %4 : f32[4,6]\n");
  EXPECT_EQ(Output({"ops", "--op", "layernorm"}), Output({"ops", "--op", "layer_norm"}));
}

TEST_F(MeshworkTest, FilesThatAreReplacedKeepTheirPermissions) {
  const std::string program = File("f.mw", "mesh []\nfunc f(%x: f32[]) { return %x }\n");
  ASSERT_EQ(chmod(program.c_str(), 0600), 0);
  EXPECT_EQ(Run({"fmt", "--in-place", program}).code, 0);
  struct stat info {};
  ASSERT_EQ(stat(program.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_TRUE(WriteSafetensors(Path("x"), {{"x", Tensor::From({}, std::vector<float>{1})}}).ok());
  File("out", "old");
  ASSERT_EQ(chmod(Path("out").c_str(), 0620), 0);
  EXPECT_EQ(Run({"run", program, "--inputs", Path("x"), "--outputs", Path("out")}).code, 0);
  ASSERT_EQ(stat(Path("out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0620u);
}

TEST_F(MeshworkTest, RunSaysWhichVariablesStartAtZero) {
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"h", Tensor::From({8, 12}, Ramp(96))}}).ok());
  EXPECT_EQ(Output({"run", Path("step.mw"), "--inputs", Path("in")}),
            "step on mesh [batch=2, model=4], 8 devices\n"
            "var w was zero, for no tensor is given\n"
            "y: f32[8,4] 0, 0, 0, 0, 0, 0, 0, 0, …\n"
            "loss: f32[] 0\n"
            "var w: f32[12,4] 0, 0, 0, 0, 0, 0, 0, 0, …\n");
}

TEST_F(MeshworkTest, RunNamesOutputsByPositionAndReadsEveryDtype) {
  const std::string program = File("f.mw", R"(mesh []
func f(%a: bool[2], %b: i64[]) {
  %c = constant value=1.5 dtype=bf16 shape=[3]
  %d = constant value=0.1 dtype=f64 shape=[]
  return %c, %d, %a, b=%b
}
)");
  Tensor a(Type{BOOL, {2}});
  a.mutable_values<bool>()[0] = true;
  a.mutable_values<bool>()[1] = false;
  ASSERT_TRUE(
      WriteSafetensors(Path("in"), {{"a", a}, {"b", Tensor::From({}, std::vector<int64_t>{-7})}}).ok());
  EXPECT_EQ(Output({"run", program, "--inputs", Path("in")}),
            "f on mesh [], 1 device\n0: bf16[3] 1.5, 1.5, 1.5\n1: f64[] 0.1\n2: bool[2] true, false\nb: "
            "i64[] -7\n");
}

TEST_F(MeshworkTest, RunRefusesInputsThatDoNotFit) {
  const std::string step = Path("step.mw");
  const Tensor h = Tensor::From({8, 12}, Ramp(96));
  ASSERT_TRUE(WriteSafetensors(Path("good"), {{"h", h}}).ok());
  ASSERT_TRUE(WriteSafetensors(Path("none"), {{"w", Tensor::From({12, 4}, Ramp(48))}}).ok());
  ASSERT_TRUE(WriteSafetensors(Path("long"), {{"h", h}, {"ww", h}}).ok());
  ASSERT_TRUE(WriteSafetensors(Path("shape"), {{"h", Tensor::From({12, 8}, Ramp(96))}}).ok());
  const int64_t files = NumFiles();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--inputs is missing; the input %h: f32[8,12] needs a tensor."},
      {{"--inputs", Path("no")},
       "--inputs: $/no: cannot be read: No such file or directory; check the path."},
      {{"--inputs", step},
       "--inputs: $/step.mw: its header would have 7017271364146128237 bytes; at most "
       "100000000 are allowed, so this is not a safetensors file."},
      {{"--inputs", Path("none")}, "--inputs: $/none has no tensor \"h\"; the input %h: f32[8,12] needs it."},
      {{"--inputs", Path("long")},
       "--inputs: $/long: tensor \"ww\" is neither an input nor a variable of step; did you mean \"w\"?"},
      {{"--inputs", Path("shape")},
       "--inputs: $/shape: tensor \"h\" is f32[12,8]; the program's is "
       "f32[8,12]."},
      {{"--inputs", Path("good"), "--outputs", Path("no/out")},
       "--outputs: $/no/out: cannot be written: No such file or directory; its directory must exist, be "
       "writable and have room. Nothing was changed."},
  };
  for (auto [args, message] : cases) {
    args.insert(args.begin(), {"run", step});
    ExpectFails(Run(args), 2, "meshwork run: " + message);
  }
  const std::string large = File("large.mw", "mesh [x=5000]\nfunc f(var %x: f32[]) {\n  return %x\n}\n");
  ExpectFails(Run({"run", large}), 2,
              "meshwork run: Executor: mesh [x=5000] has 5000 devices; one process runs at most 4096 virtual "
              "ones. Compile, verify and simulate the program instead, or run it on a smaller mesh.");
  EXPECT_EQ(NumFiles(), files + 1);
}

// ---- relayout.

TEST_F(MeshworkTest, RelayoutPrintsThePlan) {
  const std::vector<std::string> question = {"relayout",  "--mesh",  "batch=2,model=4",
                                             "--shape",   "[8, 12]", "--from",
                                             "{batch,_}", "--to",    "{_,model}"};
  EXPECT_EQ(Output(question),
            "f32[8,12] on mesh [batch=2, model=4]: {batch,_} -> {_,model}\n"
            "  1. shard_slice over (model), dim 1: f32[8,12] {batch,model}, 0 elements, 0 B on the wire per "
            "device\n"
            "  2. all_gather over (batch), dim 0: f32[8,12] {_,model}, 12 elements, 48 B on the wire per "
            "device\n"
            "2 steps, 12 elements, 48 B on the wire per device\n");
  std::vector<std::string> as_json = question;
  as_json.insert(as_json.end(), {"--json", "--dtype", "f64"});
  const std::string expected = R"json({
    "mesh": "[batch=2, model=4]", "type": "f64[8,12]", "from": "{batch,_}", "to": "{_,model}", "steps": [
    {"op": "shard_slice", "axes": "(model)", "dim": 1, "type": "f64[8,12]", "layout": "{batch,model}",
     "wire_elements_per_device": 0, "wire_bytes_per_device": 0},
    {"op": "all_gather", "axes": "(batch)", "dim": 0, "type": "f64[8,12]", "layout": "{_,model}",
     "wire_elements_per_device": 12, "wire_bytes_per_device": 96}],
    "wire_elements_per_device": 12, "wire_bytes_per_device": 96})json";
  EXPECT_EQ(json::parse(Output(as_json)), json::parse(expected));
  EXPECT_EQ(Output({"relayout", "--mesh=x=8", "--shape=16", "--from={x:(1)2|max:x:(2)4}", "--to={x:(1)2}"}),
            "f32[16] on mesh [x=2*4]: {x:(1)2 | max:x:(2)4} -> {x:(1)2}\n"
            "  1. all_reduce over (x:(2)4): f32[16] {x:(1)2}, 12 elements, 48 B on the wire per device\n"
            "1 step, 12 elements, 48 B on the wire per device\n");
  EXPECT_EQ(Output({"relayout", "--mesh", "[]", "--shape", "[]", "--from", "{}", "--to", "{}"}),
            "f32[] on mesh []: {} -> {}\n0 steps, 0 elements, 0 B on the wire per device\n");
}

TEST_F(MeshworkTest, RelayoutRefusesWhatIsNoQuestion) {
  auto relayout = [](const std::string& mesh, const std::string& shape, const std::string& from,
                     const std::string& to) {
    return Run({"relayout", "--mesh", mesh, "--shape", shape, "--from", from, "--to", to});
  };
  const std::string head = "meshwork relayout: ";
  ExpectFails(Run({"relayout", "--mesh", "x=2"}), 2, head + "--shape is missing. See --help.");
  ExpectFails(relayout("x=0", "4", "{x}", "{_}"), 2,
              head + "--mesh: Mesh: axis \"x\" has size 0 in [x=0]; sizes are at least 1.");
  for (const char* shape : {"4x4", "[4", "4]", "4,", ",4", "[", "four"})
    ExpectFails(
        relayout("x=2", shape, "{x}", "{_}"), 2,
        head + fmt::format("--shape: \"{}\" is not a list of sizes; write for example 128,700.", shape));
  ExpectFails(relayout("x=2", "4", "{y}", "{_}"), 2,
              head + "--from: Layout {y}: mesh [x=2] has no axis \"y\".");
  EXPECT_EQ(relayout("x=2", "-4", "{x}", "{_}").code, 2);
  EXPECT_EQ(relayout("x=2", "4", "{x}", "{_,_}").code, 2);
  EXPECT_EQ(relayout("x=2", "4", "{x}", "{?}").code, 2);
  EXPECT_EQ(relayout("x=2", "4", "{_}", "{_|sum:x}").code, 2);
  ExpectFails(
      relayout("x=2", "4", "{_|and:x}", "{_}"), 2,
      head +
          "--from: layout {_ | and:x}: and combines bools, not f32[4]; sum, max, min and prod combine "
          "numbers.");
}

// ---- fmt.

TEST_F(MeshworkTest, FmtWritesTheCanonicalForm) {
  const std::string loose = "mesh [batch=2,model=4] func f(%x:f32[4]) {\n %7 = neg %x return %7 }";
  const std::string tidy =
      "mesh [batch=2, model=4]\nfunc f(%x: f32[4]) {\n  %0 = neg %x : f32[4]\n  return %0\n}\n";
  const std::string path = File("loose.mw", loose);
  EXPECT_EQ(Output({"fmt", path}), tidy);
  ExpectFails(Run({"fmt", "--check", path}), 1, "meshwork fmt: $/loose.mw is not in its canonical form.");
  EXPECT_EQ(Contents(path), loose);
  EXPECT_EQ(Output({"fmt", "--in-place", path}), "");
  EXPECT_EQ(Contents(path), tidy);
  EXPECT_EQ(Output({"fmt", "--check", path}), "");
}

TEST_F(MeshworkTest, FmtLosesNoCommentUnasked) {
  const std::string commented = "// what for\nmesh []\nfunc f(%x: f32[4]) {  // why\n  return %x\n}\n";
  const std::string path = File("commented.mw", commented);
  EXPECT_EQ(Output({"fmt", "--check", path}), "");
  EXPECT_EQ(Output({"fmt", path}), commented);
  EXPECT_EQ(Output({"fmt", "--in-place", path}), "");
  EXPECT_EQ(Contents(path), commented);

  const std::string loose = "// what for\nmesh []\nfunc f(%x: f32[4]) { return %x } // why";
  File("commented.mw", loose);
  const Finished printed = Run({"fmt", path});
  EXPECT_EQ(printed.out, "mesh []\nfunc f(%x: f32[4]) {\n  return %x\n}\n");
  EXPECT_EQ(printed.err, fmt::format("meshwork fmt: 2 comments in {} left out.\n", path));
  EXPECT_EQ(printed.code, 0);
  ExpectFails(Run({"fmt", "--in-place", path}), 2,
              "meshwork fmt: $/commented.mw would lose 2 comments; take them out, or print the text and keep "
              "both.");
  EXPECT_EQ(Contents(path), loose);
}

}  // namespace
}  // namespace meshwork
