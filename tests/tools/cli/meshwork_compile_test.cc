// The commands compile, explain and verify of the program meshwork.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/plan/memory_report.h"
#include "meshwork/ir/program.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/topology.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/storage/safetensors.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_compile_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Program Compiled() { return Compile(ParseGraph(kStep).value()).value(); }

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
  // 96 B over four devices: two times two messages; 64 B over two: one message, where a sum of 4 B takes two.
  EXPECT_NEAR(explained["list"][0]["seconds"].get<double>(), 4e-6 + 96 / 2e10, 1e-15);
  EXPECT_NEAR(explained["list"][1]["seconds"].get<double>(), 1e-5 + 64 / 1e9, 1e-15);
  EXPECT_NEAR(explained["seconds"].get<double>(), 1.4e-5 + 96 / 2e10 + 64e-9, 1e-15);
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

// ---- Options of every command that compiles.

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
  // The certificate is for the program with these layouts of its state.
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

// ---- Kernels ahead of a run.

// "2 kernels for sm_90 in DIR, 1 of them compiled now": both numbers, or why there is no NVRTC.
struct KernelCounts {
  int kernels = -1, compiled = -1;
  std::string no_compiler;
};

KernelCounts CountsOf(const Finished& finished, std::string_view middle) {
  if (finished.code != 0 && (finished.err.find("no libnvrtc.so") != std::string::npos ||
                             finished.err.find("this build of meshwork has none") != std::string::npos))
    return {.no_compiler = finished.err};
  EXPECT_EQ(finished.code, 0) << finished.err;
  const std::string head = "step on mesh [batch=2, model=4]: ";
  KernelCounts counts;
  if (finished.out.starts_with(head)) {
    counts.kernels = std::atoi(finished.out.c_str() + head.size());
    if (const size_t at = finished.out.find(", ", head.size()); at != std::string::npos)
      counts.compiled = std::atoi(finished.out.c_str() + at + 2);
  }
  EXPECT_EQ(finished.out, fmt::format("{}{} kernels for {}, {} of them compiled now\n", head, counts.kernels,
                                      middle, counts.compiled));
  return counts;
}

// Uses this machine's NVRTC, which needs no GPU.
TEST_F(MeshworkTest, CompileMakesKernelsAheadOfARun) {
  const std::string codes = Path("codes"), here = " in " + codes;
  const auto compile = [&](const std::string& arch) {
    return CountsOf(Run({"compile", Path("step.mw"), "--devices=cuda", "--arch", arch, "--cache", codes}),
                    arch + here);
  };
  const KernelCounts first = compile("sm_90");
  if (!first.no_compiler.empty()) GTEST_SKIP() << first.no_compiler;
  EXPECT_GT(first.kernels, 1);
  EXPECT_GT(first.compiled, 1);
  const KernelCounts again = compile("sm_90"), other = compile("sm_80");
  EXPECT_EQ(again.kernels, first.kernels);
  EXPECT_EQ(again.compiled, 0);
  EXPECT_EQ(other.compiled, first.compiled);
  EXPECT_EQ(
      Shell("MESHWORK_CUDA_CACHE=codes \"$0\" compile step.mw --devices=cuda --arch=sm_80").out,
      fmt::format("step on mesh [batch=2, model=4]: {} kernels for sm_80 in codes, 0 of them compiled now\n",
                  other.kernels));
  const std::string file = File("file", "");
  const Finished blocked =
      Run({"compile", Path("step.mw"), "--devices=cuda", "--arch=sm_90", "--cache", file + "/codes"});
  EXPECT_EQ(blocked.code, 2);
  EXPECT_THAT(blocked.err, HasSubstr("meshwork compile: --cache: "));
}

TEST_F(MeshworkTest, CompileRefusesFlagsThatAreNotOfKernels) {
  const std::string step = Path("step.mw");
  ExpectFails(
      Run({"compile", step, "--arch=sm_90"}), 2,
      "meshwork compile: --arch is of devices that need not be there; add --devices=cuda, tpu or pjrt:PATH, or "
      "leave it out.");
  ExpectFails(Run({"compile", step, "--devices=gpu"}), 2,
              "meshwork compile: --devices: \"gpu\" is none of cpu, cuda, pjrt:PATH and tpu.");
  ExpectFails(
      Run({"compile", step, "--devices=pjrt:a.so"}), 2,
      "meshwork compile: --arch is missing; say for which devices it compiles, by the plugin's name of a topology, as "
      "--arch=v5e:2x4.");
  ExpectFails(Run({"compile", step, "--cache=codes", "--devices=cpu"}), 2,
              "meshwork compile: --cache is of kernels for GPUs; add --devices=cuda, or leave it out.");
  ExpectFails(Run({"compile", step, "--devices=cuda", "--emit=stats"}), 2,
              "meshwork compile: --devices=cuda compiles kernels and prints no program; leave out --emit.");
  ExpectFails(Run({"compile", step, "--devices=cuda", "--passes"}), 2,
              "meshwork compile: --devices=cuda compiles kernels and prints no program; leave out --passes.");
  ExpectFails(
      Run({"compile", step, "--devices=cuda", "--arch=90"}), 2,
      "meshwork compile: --arch: \"90\" is no architecture of a GPU: that is sm_ and the compute capability without "
      "its point, as sm_90 for 9.0.");
  ExpectFails(
      Shell("MESHWORK_CUDA_CACHE=off \"$0\" compile step.mw --devices=cuda --arch=sm_90"), 2,
      "meshwork compile: --cache is missing, and the environment names no folder for machine code; say where it is to "
      "be kept, as --cache=codes.");
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
          "reshape, exchange, body, rounding, empty.");
  ExpectFails(tampered(R"("mesh")", R"("mehs")"), 2,
              head +
                  "it has the key \"mehs\"; the keys are program, global, mesh, sums, local, claims; did you "
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

}  // namespace
}  // namespace meshwork::meshwork_compile_test
