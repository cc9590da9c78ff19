// The command run of the program meshwork.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/session/session.h"
#include "meshwork/storage/safetensors.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_run_test {
namespace {

using ::testing::HasSubstr;

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

TEST_F(MeshworkTest, RunLeavesOutTensorsThatTheProgramDoesNotHave) {
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}}).ok());
  ASSERT_TRUE(WriteSafetensors(Path("more"), {{"w", w}, {"h", h}, {"adam/step", h}, {"hh", h}}).ok());
  EXPECT_EQ(Output({"run", Path("step.mw"), "--inputs", Path("more")}),
            fmt::format("adam/step of {0} is not used: it is neither an input nor a variable\n"
                        "hh of {0} is not used: it is neither an input nor a variable\n{1}",
                        Path("more"), Output({"run", Path("step.mw"), "--inputs", Path("in")})));
}

// Names from a file are printed on one line, without control characters.
TEST_F(MeshworkTest, RunPrintsNoControlCharactersOfNames) {
  const std::string hostile = "w\x1b[31m\nFAKE LINE: ok\x7f";
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}, {hostile, h}}).ok());
  const std::string out = Output({"run", Path("step.mw"), "--inputs", Path("in")});
  EXPECT_THAT(out, testing::StartsWith(R"("w\u001b[31m\nFAKE LINE: ok\u007f" of )"));
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  // A name that is nearly one of the program's inputs, which is missing.
  ASSERT_TRUE(WriteSafetensors(Path("near"), {{"w", w}, {"h\x1b", h}}).ok());
  const Finished near = Run({"run", Path("step.mw"), "--inputs", Path("near")});
  EXPECT_EQ(near.code, 2);
  EXPECT_EQ(near.err.find('\x1b'), std::string::npos) << near.err;
  EXPECT_EQ(std::count(near.err.begin(), near.err.end(), '\n'), 1) << near.err;
}

TEST_F(MeshworkTest, RunRunsManySteps) {
  const std::string halves =
      File("halves.mw",
           "mesh [x=2]\nfunc step(%a: f32[2] {x}, var %w: f32[2] {x}) {\n  %h = constant value=0.5 shape=[]\n"
           "  %n = mul %w, %h\n  %s = add %n, %a\n  update %w = %s\n"
           "  %sum = reduce_sum %s dims=[0]\n  return sum=%sum, w=%s\n}\n");
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"a", Tensor::From<float>({2}, {1, 2})}}).ok());
  EXPECT_EQ(Output({"run", halves, "--inputs", Path("in"), "--steps", "3", "--outputs", Path("out")}),
            "step on mesh [x=2], 2 devices\n"
            "var w was zero, for no tensor is given\n"
            "step 1 of 3: sum 3\n"
            "step 2 of 3: sum 4.5\n"
            "step 3 of 3: sum 5.25\n"
            "sum: f32[] 5.25\n"
            "w: f32[2] 1.75, 3.5\n"
            "var w: f32[2] 1.75, 3.5\n");
  EXPECT_THAT(ReadSafetensors(Path("out")).value()[1].second.values<float>(),
              testing::ElementsAre(1.75f, 3.5f));
  // A line for each twentieth part of them, and for the last.
  const std::string many = Output({"run", halves, "--inputs", Path("in"), "--steps", "1001"});
  EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), 2 + 20 + 3);
  EXPECT_THAT(many, testing::HasSubstr("step 1001 of 1001: sum 6\n"));
  EXPECT_EQ(Run({"run", halves, "--steps", "0"}).code, 2);
}

TEST_F(MeshworkTest, RunsOnAnotherMeshAndWithOtherLayouts) {
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}}).ok());
  const std::string here = Output({"run", Path("step.mw"), "--inputs", Path("in")});
  const std::string there = Output(
      {"run", Path("step.mw"), "--inputs", Path("in"), "--mesh", "batch=3", "--layout", "w={_,batch}"});
  EXPECT_EQ(there.substr(0, there.find('\n')), "step on mesh [batch=3], 3 devices");
  EXPECT_EQ(there.substr(there.find('\n')), here.substr(here.find('\n')));
  EXPECT_THAT(Output({"compile", Path("step.mw"), "--mesh", "batch=2", "--layout", "*={_,batch}"}),
              testing::HasSubstr("var %w: f32[12,2] of f32[12,4] {_,batch}"));
  EXPECT_THAT(Output({"explain", Path("step.mw"), "--mesh", "batch=1"}), testing::HasSubstr("[batch=1]"));
  const auto expect_refuses = [&](const std::vector<std::string>& args, std::string_view message) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, testing::HasSubstr(std::string(message)));
  };
  expect_refuses({"run", Path("step.mw"), "--mesh", "batch=0"}, "--mesh: ");
  expect_refuses({"run", Path("step.mw"), "--devices", "gpu"},
                 "meshwork run: --devices: Devices: \"gpu\" is none of ");
  // Each GPU has a thread. The first error is shown, with its GPU's name.
  const Finished gpus = Run({"run", Path("step.mw"), "--devices", "cuda:90,92"});
  EXPECT_EQ(gpus.code, 2);
  EXPECT_THAT(gpus.err, testing::ContainsRegex("meshwork run: GPU 9[02]: --inputs is missing"));
  expect_refuses({"run", Path("step.mw"), "--layout", "w"}, "--layout: \"w\" is no name and layout");
  expect_refuses({"run", Path("step.mw"), "--layout", "w={bach,_}"}, "--layout: \"w\": ");
  expect_refuses({"run", Path("step.mw"), "--layout", "v={batch,_}"}, "\"v\"");
}

// A program that drops half of its inputs while it trains, and counts its steps.
constexpr std::string_view kDropout = R"(mesh [x=2]
func f(%x: f32[8,2] {x,_}, %t: f32[8], var %w: f32[2] {_}, var %steps: f32[]) {
  %mask = random_bernoulli seed=7 p=0.5 shape=[8,2]
  %zero = constant value=0 shape=[8,2]
  %dropped = select %mask, %x, %zero
  %seen = when_training %dropped, %x
  %weighted = mul %seen, %w
  %y = reduce_sum %weighted dims=[1]
  %e = sub %y, %t
  %loss = reduce_sum %e dims=[0]
  %one = constant value=1 shape=[]
  %n = add %steps, %one
  update %steps = %n
  return y=%y, loss=%loss, n=%n
}
)";

TEST_F(MeshworkTest, RunPredictsAsASessionDoes) {
  const std::string file = File("dropout.mw", kDropout);
  Session session = Session::Create(ParseGraph(kDropout).value()).value();
  const Tensor w = Tensor::From<float>({2}, {2, 1});
  ASSERT_TRUE(session.Set("w", w).ok());
  for (const int64_t rows : {8, 3, 19}) {
    SCOPED_TRACE(rows);
    const Tensor x = Tensor::From({rows, 2}, Ramp(2 * rows));
    ASSERT_TRUE(WriteSafetensors(Path("in"), {{"x", x}, {"w", w}}).ok());
    const Finished finished =
        Run({"run", file, "--predict", "--return", "y", "--inputs", Path("in"), "--outputs", Path("out")});
    EXPECT_EQ(finished.err, "");
    EXPECT_EQ(finished.code, 0);
    const auto written = ReadSafetensors(Path("out")).value();
    ASSERT_EQ(written.size(), 1u) << "no variable is updated";
    EXPECT_EQ(written[0].first, "y");
    ASSERT_EQ(written[0].second.shape(), (Shape{rows}));
    for (int64_t i = 0; i < rows; ++i)
      EXPECT_EQ(written[0].second.values<float>()[i], static_cast<float>(2 * (2 * i % 5) + (2 * i + 1) % 5));
    EXPECT_EQ(written[0].second.values<float>().size(),
              session.Predict({{"x", x}}, {"y"})->Get("y")->values<float>().size());
  }
  // All outputs, for as many rows as the program takes. A training step drops some.
  const Tensor x = Tensor::From({8, 2}, Ramp(16));
  ASSERT_TRUE(WriteSafetensors(Path("all"), {{"x", x}, {"t", Tensor::Zeros({F32, {8}})}, {"w", w}}).ok());
  EXPECT_EQ(Output({"run", file, "--predict", "--inputs", Path("all")}),
            "f on mesh [x=2], 2 devices\n"
            "var steps was zero, for no tensor is given\n"
            "y: f32[8] 1, 7, 8, 4, 10, 1, 7, 8\n"
            "loss: f32[] 46\n"
            "n: f32[] 1\n");
  EXPECT_THAT(Output({"run", file, "--inputs", Path("all")}), testing::Not(HasSubstr("loss: f32[] 46\n")));
}

TEST_F(MeshworkTest, RunStartsFromACheckpoint) {
  const std::string file = File("dropout.mw", kDropout);
  Session session = Session::Create(ParseGraph(kDropout).value()).value();
  ASSERT_TRUE(session.Set("w", Tensor::From<float>({2}, {2, 1})).ok());
  ASSERT_TRUE(session.Set("steps", Tensor::From<float>({}, {41})).ok());
  ASSERT_TRUE(session.Save(Path("checkpoints"), {.step = 41}).ok());
  const Tensor x = Tensor::From({8, 2}, Ramp(16));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"x", x}, {"t", Tensor::Zeros({F32, {8}})}}).ok());
  EXPECT_THAT(Output({"run", file, "--inputs", Path("in"), "--checkpoint", Path("checkpoints")}),
              HasSubstr("var steps: f32[] 42\n"));
  EXPECT_EQ(Output({"run", file, "--inputs", Path("in"), "--checkpoint", Path("checkpoints"), "--predict",
                    "--return", "n", "--return", "y"}),
            "f on mesh [x=2], 2 devices\n"
            "y: f32[8] 1, 7, 8, 4, 10, 1, 7, 8\n"
            "n: f32[] 42\n");
  // --inputs takes precedence over the checkpoint.
  ASSERT_TRUE(WriteSafetensors(Path("w"), {{"x", x}, {"w", Tensor::From<float>({2}, {0, 1})}}).ok());
  EXPECT_THAT(Output({"run", file, "--inputs", Path("w"), "--checkpoint", Path("checkpoints"), "--predict",
                      "--return", "y"}),
              HasSubstr("y: f32[8] 1, 3, 0, 2, 4, 1, 3, 0\n"));
}

TEST_F(MeshworkTest, RunRefusesPredictionsThatAreNone) {
  const std::string file = File("dropout.mw", kDropout);
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"x", Tensor::From({8, 2}, Ramp(16))}}).ok());
  const auto fails = [&](std::vector<std::string> args, std::string_view message) {
    args.insert(args.begin(), {"run", file, "--inputs", Path("in")});
    ExpectFails(Run(args), 2, message);
  };
  fails({"--return", "y"},
        "meshwork run: --return chooses the outputs of a prediction; give --predict as well.");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--steps", "2"}, {"--profile"}, {"--trace", Path("trace")}}) {
    std::vector<std::string> args = {"--predict"};
    args.insert(args.end(), flags.begin(), flags.end());
    fails(args,
          "meshwork run: --predict runs no step of training; leave out --steps, --profile and --trace.");
  }
  EXPECT_THAT(Run({"run", file, "--inputs", Path("in"), "--predict", "--return", "loss"}).err,
              HasSubstr("\"t\""));
  EXPECT_THAT(Run({"run", file, "--inputs", Path("in"), "--predict", "--return", "x"}).err,
              HasSubstr("there is no output \"x\""));
  EXPECT_THAT(Run({"run", file, "--inputs", Path("in"), "--predict", "--checkpoint", Path("none")}).err,
              HasSubstr("meshwork run: --checkpoint: "));
}

TEST_F(MeshworkTest, RunSaysWhereTheTimeWent) {
  const Tensor h = Tensor::From({8, 12}, Ramp(96)), w = Tensor::From({12, 4}, Ramp(48));
  ASSERT_TRUE(WriteSafetensors(Path("in"), {{"w", w}, {"h", h}}).ok());
  const std::string out = Output({"run", Path("step.mw"), "--inputs", Path("in"), "--steps", "4", "--profile",
                                  "--trace", Path("trace")});
  EXPECT_THAT(out, testing::HasSubstr("4 steps"));
  EXPECT_THAT(out, testing::HasSubstr("matmul"));
  const auto trace = nlohmann::json::parse(ReadFile(Path("trace")).value());
  EXPECT_FALSE(trace.at("traceEvents").empty());
  EXPECT_THAT(Run({"run", Path("step.mw"), "--inputs", Path("in"), "--trace", Path("none/trace")}).err,
              testing::HasSubstr("--trace: "));
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
  // The file has the variable's new value, once.
  ASSERT_EQ(Run({"run", program("v"), "--outputs", Path("out")}).code, 0);
  const auto written = ReadSafetensors(Path("out"));
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_EQ(written->size(), 1u);
  EXPECT_EQ(written->begin()->first, "w");
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

}  // namespace
}  // namespace meshwork::meshwork_run_test
