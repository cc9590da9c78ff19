// Names, layouts, places and updates of programs that are read, and the forms of text that the programs of JAX do not show.
#include "meshwork/stablehlo/read/read_stablehlo.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"

namespace meshwork::read_stable_hlo_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A module whose main takes %a and %b, of one type, and whose ops are `body`.
std::string Module(std::string_view body, std::string_view arg_attrs = "{}, {}",
                   std::string_view type = "tensor<4x8xf32>", std::string_view more = "") {
  return fmt::format(R"("builtin.module"() <{{sym_name = "jit_step"}}> ({{
  {3}
  "func.func"() <{{arg_attrs = [{1}], function_type = ({2}, {2}) -> {2}, sym_name = "main"}}> ({{
  ^bb0(%a: {2} loc("params['w'][0].mu"), %b: {2} loc("x")):
    {0}
  }}) : () -> ()
}}) : () -> ()
#loc = loc("/home/me/model.py":12:3 to :9)
#loc1 = loc("f"(#loc))
)",
                     body, arg_attrs, type, more);
}

std::string ReadText(const std::string& module, const ReadStableHloOptions& options = {}) {
  const absl::StatusOr<Graph> graph = ReadStableHlo(module, options);
  return graph.ok() ? PrintGraph(*graph) : std::string(MessageOf(graph.status()));
}

constexpr std::string_view kSum =
    R"(%0 = "stablehlo.add"(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> loc(#loc1)
    "func.return"(%0) : (tensor<4x8xf32>) -> ())";

TEST(ReadStableHloTest, PathsAreNames) {
  EXPECT_EQ(NameOfPath("params['params']['Dense_0']['kernel']"), "params/params/Dense_0/kernel");
  EXPECT_EQ(NameOfPath("state[0].mu['w']"), "state/0/mu/w");
  EXPECT_EQ(NameOfPath("a.b/c-d e"), "a/b/c-d_e");
  EXPECT_THAT(ReadText(Module(kSum)),
              AllOf(HasSubstr("func step(%params/w/0/mu: f32[4,8] {_,_}"), HasSubstr("%x: f32[4,8] {_,_}) {"),
                    HasSubstr("return result=%0")));
}

TEST(ReadStableHloTest, NodesHaveTheLinesOfThePythonCode) {
  const Graph graph = ReadStableHlo(Module(kSum)).value();
  EXPECT_EQ(graph.nodes().at(0).location.ToString(), "model.py:12");
  const std::string bare =
      Module(R"(%0 = "stablehlo.add"(%a, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%0) : (tensor<4x8xf32>) -> ())");
  EXPECT_EQ(ReadStableHlo(bare, {.file_name = "m.mlir"})->nodes().at(0).location.ToString(), "m.mlir:5");
}

TEST(ReadStableHloTest, DonatedArgumentsAreVariables) {
  EXPECT_THAT(ReadText(Module(kSum, "{tf.aliasing_output = 0 : i32}, {}")),
              AllOf(HasSubstr("var %params/w/0/mu"), HasSubstr("update %params/w/0/mu = %0"),
                    Not(HasSubstr("return"))));
  EXPECT_THAT(ReadText(Module(kSum), {.updates = {{"params", "result"}}}),
              HasSubstr("there is no result \"result/w/0/mu\""));
  EXPECT_THAT(ReadText(Module(kSum), {.updates = {{"x", "result"}}, .variables = {"params/*"}}),
              AllOf(HasSubstr("var %params/w/0/mu"), HasSubstr("update %x = %0")));
}

TEST(ReadStableHloTest, ShardingsOfShardyArePins) {
  constexpr std::string_view kMesh =
      R"("sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ())";
  const auto read = [&](std::string_view sharding) {
    return ReadText(Module(kSum, fmt::format("{{sdy.sharding = #sdy.sharding<@mesh, {}>}}, {{}}", sharding),
                           "tensor<4x8xf32>", kMesh));
  };
  EXPECT_THAT(read(R"([{"x"}, {"y"}])"),
              AllOf(HasSubstr("mesh [x=2, y=4]"), HasSubstr("mu: f32[4,8] {x,y}")));
  EXPECT_THAT(read(R"([{"y", "x"}, {?}])"), HasSubstr("{(y,x),?}"));
  EXPECT_THAT(read(R"([{}, {"y":(2)2}p1], replicated={"x"})"), HasSubstr("{_,y:(2)2}"));
  EXPECT_THAT(read(R"([{"z"}, {}])"),
              HasSubstr("module:3:3: Layout {z,_}: mesh [x=2, y=4] has no axis \"z\""));
}

TEST(ReadStableHloTest, ShardingsOfGspmdArePins) {
  const auto read = [&](std::string_view sharding, std::string_view mesh) {
    return ReadText(Module(kSum, fmt::format("{{mhlo.sharding = \"{}\"}}, {{}}", sharding)),
                    {.mesh = Mesh::Parse(mesh).value()});
  };
  EXPECT_THAT(read("{devices=[2,4]<=[8]}", "x=2,y=4"), HasSubstr("mu: f32[4,8] {x,y}"));
  EXPECT_THAT(read("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "x=2,y=4"),
              HasSubstr("mu: f32[4,8] {_,y}"));
  EXPECT_THAT(read("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "x=2,y=4"),
              HasSubstr("mu: f32[4,8] {x,_}"));
  EXPECT_THAT(read("{devices=[4,2]<=[2,4]T(1,0)}", "x=2,y=4"), HasSubstr("mu: f32[4,8] {y,x}"));
  EXPECT_THAT(read("{devices=[8,1]<=[8]}", "x=2,y=4"), HasSubstr("mu: f32[4,8] {(x,y),_}"));
  EXPECT_THAT(read("{devices=[8,1]<=[2,4]T(1,0)}", "x=2,y=4"), HasSubstr("mu: f32[4,8] {(y,x),_}"));
  EXPECT_THAT(read("{devices=[1,2]1,0}", "x=2"), HasSubstr("gives the devices no such tiles"));
  EXPECT_THAT(read("{replicated}", "x=2"), HasSubstr("mu: f32[4,8] {_,_}"));
}

TEST(ReadStableHloTest, AConstraintIsAPinOrARelayout) {
  constexpr std::string_view kMesh =
      R"("sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ())";
  constexpr std::string_view kConstrained =
      R"(%0 = "stablehlo.tanh"(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = "sdy.sharding_constraint"(%1) <{sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"(%2) : (tensor<4x8xf32>) -> ())";
  EXPECT_THAT(ReadText(Module(kConstrained, "{}, {}", "tensor<4x8xf32>", kMesh)),
              AllOf(HasSubstr("%0 = tanh %params/w/0/mu : f32[4,8] {x,_}"),
                    HasSubstr("%1 = relayout %0 {_,x} : f32[4,8]")));
}

// The elements of a constant, added to %a.
std::string ReadConstant(std::string_view dense, std::string_view type) {
  return ReadText(Module(fmt::format(R"(%0 = "stablehlo.constant"() <{{value = dense<{0}> : {1}}}> : () -> {1}
    "func.return"(%0) : ({1}) -> ())",
                                     dense, type)));
}

TEST(ReadStableHloTest, ConstantsAreWrittenInSeveralWays) {
  EXPECT_THAT(ReadConstant("2.5", "tensor<3xf32>"), HasSubstr("constant value=2.5 shape=[3]"));
  EXPECT_THAT(ReadConstant("0x7F800000", "tensor<f32>"), HasSubstr("value=inf"));
  EXPECT_THAT(ReadConstant("[[1, -2], [3, 4]]", "tensor<2x2xi32>"), HasSubstr("bits=[1,-2,3,4]"));
  EXPECT_THAT(ReadConstant("\"0x01000000FEFFFFFF\"", "tensor<2xi32>"), HasSubstr("bits=[1,-2]"));
  EXPECT_THAT(ReadConstant("\"0x0000803F000000C0\"", "tensor<2xf32>"),
              HasSubstr("bits=[1065353216,-1073741824]"));
  EXPECT_THAT(ReadConstant("[true, false]", "tensor<2xi1>"), HasSubstr("bits=[1,0]"));
  EXPECT_THAT(ReadConstant("\"0x02\"", "tensor<2xi1>"), HasSubstr("bits=[0,1]"));
  EXPECT_THAT(ReadConstant("4294967295", "tensor<ui32>"), HasSubstr("value=-1 dtype=i32"));
  EXPECT_THAT(ReadConstant("9223372036854775807", "tensor<i64>"), HasSubstr("bits=[9223372036854775807]"));
  EXPECT_THAT(ReadConstant("", "tensor<0xf32>"), HasSubstr("shape=[0]"));
}

TEST(ReadStableHloTest, ThePageListsTheOps) {
  const std::string page = ReadFile(fmt::format("{}/../docs/from-jax.md", MESHWORK_TEST_DIR)).value();
  for (const std::string& op : OpsOfStableHlo())
    EXPECT_NE(page.find(fmt::format("`{}`", op)), std::string::npos) << op;
}

// A program that grows as it is called: 2^40 ops.
TEST(ReadStableHloTest, CallsOfCallsEnd) {
  std::string functions;
  for (int i = 0; i < 40; ++i)
    functions +=
        fmt::format(R"("func.func"() <{{function_type = (tensor<f32>) -> tensor<f32>, sym_name = "f{}"}}> ({{
  ^bb0(%a: tensor<f32>):
    %0 = "func.call"(%a) <{{callee = @f{}}}> : (tensor<f32>) -> tensor<f32>
    %1 = "func.call"(%0) <{{callee = @f{}}}> : (tensor<f32>) -> tensor<f32>
    "func.return"(%1) : (tensor<f32>) -> ()
  }}) : () -> ()
)",
                    i, i + 1, i + 1);
  functions += R"("func.func"() <{function_type = (tensor<f32>) -> tensor<f32>, sym_name = "f40"}> ({
  ^bb0(%a: tensor<f32>):
    "func.return"(%a) : (tensor<f32>) -> ()
  }) : () -> ())";
  EXPECT_THAT(ReadText(Module(R"(%0 = "func.call"(%a) <{callee = @f0}> : (tensor<f32>) -> tensor<f32>
    "func.return"(%0) : (tensor<f32>) -> ())",
                              "{}, {}", "tensor<f32>", functions)),
              HasSubstr("the module becomes more than 300000 ops"));
}

}  // namespace
}  // namespace meshwork::read_stable_hlo_test
