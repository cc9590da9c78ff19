// The program meshwork as a shell sees it: its arguments, and the commands ops, relayout and fmt.
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/version.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/runtime/transport/gloo.h"
#include "meshwork/storage/safetensors.h"
#include "support/golden.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_test {
namespace {

using nlohmann::json;

// ---- The command line.

TEST_F(MeshworkTest, HelpListsCommandsAndFlags) {
  std::string all;
  for (const char* command :
       {"", "compile", "explain", "report", "verify", "run", "save", "predict", "plan", "simulate",
        "relayout", "ops", "devices", "fmt", "checkpoint", "supervise", "rendezvous"}) {
    std::vector<std::string> args = {"--help"};
    if (*command != '\0') args.insert(args.begin(), command);
    all += fmt::format("$ meshwork {}\n{}\n", fmt::join(args, " "), Output(args));
  }
  ExpectGolden("tools/cli/meshwork_help.txt", all);
}

TEST_F(MeshworkTest, SaysItsVersion) { EXPECT_EQ(Output({"--version"}), "meshwork " MESHWORK_VERSION "\n"); }

// The test cannot know which machine this is.
TEST_F(MeshworkTest, ListsDevices) {
  const json devices = json::parse(Output({"devices", "--json"}));
  EXPECT_GE(devices.at("cpu").at("cores"), 1);
  EXPECT_GT(devices.at("cpu").at("memory_bytes"), int64_t{1} << 20);
  EXPECT_EQ(devices.contains("no_gpus"), devices.at("gpus").empty());
  EXPECT_EQ(devices.contains("driver"), !devices.at("gpus").empty());
  const std::string table = Output({"devices"});
  EXPECT_TRUE(table.starts_with("CPU: ")) << table;
  if (devices.contains("no_gpus")) {
    EXPECT_TRUE(table.ends_with(fmt::format("\nno GPUs: {}\n", devices.at("no_gpus").get<std::string>())))
        << table;
  }
  for (const json& gpu : devices.at("gpus")) {
    EXPECT_NE(table.find(gpu.at("name").get<std::string>()), std::string::npos) << table;
    EXPECT_LE(gpu.at("free_bytes"), gpu.at("memory_bytes"));
  }
}

TEST_F(MeshworkTest, RefusesArgumentsThatAreWrong) {
  const std::string step = Path("step.mw");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "meshwork: a command is missing. See --help."},
      {{"compil", step}, "meshwork: there is no command \"compil\"; did you mean \"compile\"? See --help."},
      {{"--emit=local"}, "meshwork: there is no command \"--emit=local\". See --help."},
      {{"compile"}, "meshwork compile: FILE is missing. See --help."},
      {{"compile", step, step}, "meshwork compile: \"$/step.mw\" is one argument too many. See --help."},
      {{"compile", step, "--emit=locl"},
       "meshwork compile: --emit: \"locl\" is not one of global, propagated, search, local, stats, memory, "
       "explain, certificate, stablehlo, shardy; did you mean \"local\"?"},
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
      {{"rendezvous"}, "meshwork rendezvous: --address is missing. See --help."},
  };
  for (const auto& [args, message] : cases) ExpectFails(Run(args), 2, message);
}

TEST_F(MeshworkTest, RefusesProgramsThatAreNone) {
  const std::string wrong = File("wrong.mw", "mesh [x=2]\nfunc f(%x: f32[4] {y}) {\n}\n");
  const std::string error =
      "$/wrong.mw:2:19: Layout {y}: mesh [x=2] has no axis \"y\"; "
      "name another, or add the axis to the mesh: y=1 shards nothing.\n"
      "  func f(%x: f32[4] {y}) {\n                    ^";
  for (const char* command : {"compile", "explain", "report", "run", "fmt"}) {
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

// ---- ops.

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

// ---- rendezvous.

TEST_F(MeshworkTest, ServesUntilItIsEnded) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  // It prints where it listens. A second one at that address is refused. SIGTERM and SIGINT end both cleanly.
  for (const char* signal : {"TERM", "INT"}) {
    const std::string command = fmt::format(
        "rm -f said; MESHWORK_TOKEN=secret env --default-signal=INT $0 rendezvous --address 127.0.0.1:0 > said & id=$!; "
        "while ! grep -qs listens said; do sleep 0.01; done; "
        "port=$(sed 's/.*://' said); $0 rendezvous --address 127.0.0.1:$port; echo refused $?; "
        "kill -{} $id; wait $id; echo ended $?; sed \"s/$port/PORT/\" said",
        signal);
    const Finished finished = Shell(command);
    EXPECT_EQ(finished.out, "refused 2\nended 0\nmeshwork rendezvous: listens at 127.0.0.1:PORT\n");
    EXPECT_THAT(finished.err,
                testing::ContainsRegex("meshwork rendezvous: Rendezvous: the address .* is taken; "));
  }
}

TEST_F(MeshworkTest, ServesTheRendezvousByTlsAsTheEnvironmentSays) {
  if (!HasGloo()) GTEST_SKIP() << "this build has no gRPC";
  const Finished finished = Shell(
      "MESHWORK_TLS_CERTIFICATE=none.pem MESHWORK_TLS_KEY=none.key $0 rendezvous --address 127.0.0.1:0");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(
      finished.err,
      "meshwork rendezvous: Rendezvous: TLS none.pem: cannot be read: No such file or directory; check the "
      "path, and who may read it.\n");
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
              head +
                  "--mesh: Mesh: axis \"x\" has size 0 in [x=0]; "
                  "sizes are at least 1, and an axis of size 1 shards nothing.");
  for (const char* shape : {"4x4", "[4", "4]", "4,", ",4", "[", "four"})
    ExpectFails(
        relayout("x=2", shape, "{x}", "{_}"), 2,
        head + fmt::format("--shape: \"{}\" is not a list of sizes; write for example 128,700.", shape));
  ExpectFails(relayout("x=2", "4", "{y}", "{_}"), 2,
              head +
                  "--from: Layout {y}: mesh [x=2] has no axis \"y\"; "
                  "name another, or add the axis to the mesh: y=1 shards nothing.");
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
}  // namespace meshwork::meshwork_test
