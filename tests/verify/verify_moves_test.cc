// Moves that a local program writes differently from the global one: the same elements are accepted,
// whichever op the exchange is named after, and other elements are not; fills are compared bit by bit.
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"

namespace meshwork::verify_moves_test {
namespace {

// Nodes of a global and of a local program on %x: f32[8] {x} and %e: f32[0] on 2 devices.
std::string VerifiedMoves(std::string_view global, std::string_view local) {
  const auto parse = [](const std::string& text) {
    absl::StatusOr<Graph> graph = ParseGraph(text);
    EXPECT_TRUE(graph.ok()) << MessageOf(graph.status()) << "\n" << text;
    return *std::move(graph);
  };
  const absl::StatusOr<Proof> proof =
      Verify(parse(fmt::format("mesh [x=2] func f(%x: f32[8] {{x}}, %e: f32[0] {{x}}) {{ {} return y=%y }}",
                               global)),
             parse(fmt::format(
                 "mesh [x=2] func f(%x: f32[4] of f32[8] {{x}}, %e: f32[0] of f32[0] {{x}}) {{ {} return "
                 "y=%y }}",
                 local)));
  return std::string(MessageOf(proof.status()));
}

struct Pair {
  std::string_view global, local;
};

TEST(VerifyMovesTest, AcceptsTheSameElementsHoweverTheyAreSpelled) {
  constexpr Pair kPairs[] = {
      {"%y = slice %x start=[0] limit=[7] stride=[2]",
       "%y = exchange %x offset=[0] stride=[2] : f32[2] of f32[4] {x}"},
      {"%y = pad %x low=[-1] high=[-1]", "%y = exchange %x offset=[1] value=3 : f32[3] of f32[6] {x}"},
      {"%y = slice %x start=[3] limit=[4] stride=[9223372036854775807]",
       "%y = exchange %x offset=[3] : f32[1] of f32[1] {x}"},
      {"%y = slice %x start=[3] limit=[4]", "%y = exchange %x offset=[3] stride=[5] : f32[1] of f32[1] {x}"},
      {"%y = roll %x shift=-7 dim=0", "%y = exchange %x, %x offset=[-1,7] : f32[4] of f32[8] {x}"},
      {"%y = roll %x shift=1 dim=0", "%y = exchange %x, %x offset=[7,-1] : f32[4] of f32[8] {x}"},
      {"%y = pad %x low=[1] high=[1] value=nan",
       "%y = exchange %x offset=[-1] value=nan : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1] value=-0",
       "%y = exchange %x offset=[-1] value=-0 : f32[5] of f32[10] {x}"},
      {"%y = concat %e, %x dim=0", "%y = exchange %e, %x offset=[0,0] : f32[4] of f32[8] {x}"},
      {"%y = concat %x, %e dim=0", "%y = exchange %x, %e offset=[0,-8] : f32[4] of f32[8] {x}"},
      {"%y = concat %e, %x dim=0", "%y = exchange %x offset=[0] : f32[4] of f32[8] {x}"},
      // Chains.
      {"%a = slice %x start=[1] limit=[8] %y = slice %a start=[1] limit=[7] stride=[3]",
       "%y = exchange %x offset=[2] stride=[3] : f32[1] of f32[2] {x}"},
      {"%a = roll %x shift=3 dim=0 %y = roll %a shift=-2 dim=0",
       "%y = exchange %x, %x offset=[-1,7] : f32[4] of f32[8] {x}"},
      {"%a = pad %x low=[1] high=[2] value=nan %y = pad %a low=[1] high=[0] value=nan",
       "%y = exchange %x offset=[-2] value=nan : f32[6] of f32[12] {x}"},
      // A move without an effect is the tensor itself.
      {"%a = reverse %x dims=[0] %b = reverse %a dims=[0] %y = neg %b", "%y = neg %x : f32[4] of f32[8] {x}"},
      {"%y = slice %x start=[0] limit=[8]", "%y = exchange %x offset=[0] : f32[4] of f32[8] {x}"},
      {"%a = pad %x low=[2] high=[0] value=5 %b = pad %a low=[-2] high=[0] %y = neg %b",
       "%y = neg %x : f32[4] of f32[8] {x}"},
  };
  for (const Pair& pair : kPairs) EXPECT_EQ(VerifiedMoves(pair.global, pair.local), "") << pair.global;
}

TEST(VerifyMovesTest, RejectsOtherElements) {
  constexpr Pair kPairs[] = {
      {"%y = pad %x low=[1] high=[1]", "%y = exchange %x offset=[-1] value=-0 : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1] value=-0", "%y = exchange %x offset=[-1] : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1] value=nan", "%y = exchange %x offset=[-1] : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1]", "%y = exchange %x offset=[-1] value=nan : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1] value=inf",
       "%y = exchange %x offset=[-1] value=-inf : f32[5] of f32[10] {x}"},
      {"%y = pad %x low=[1] high=[1]", "%y = exchange %x offset=[-2] : f32[5] of f32[10] {x}"},
      {"%y = slice %x start=[0] limit=[7] stride=[2]", "%y = exchange %x offset=[0] : f32[2] of f32[4] {x}"},
      {"%y = slice %x start=[0] limit=[7] stride=[2]",
       "%y = exchange %x offset=[1] stride=[2] : f32[2] of f32[4] {x}"},
      {"%y = roll %x shift=1 dim=0", "%y = exchange %x, %x offset=[1,-7] : f32[4] of f32[8] {x}"},
      {"%y = roll %x shift=4 dim=0", "%y = exchange %x offset=[0] : f32[4] of f32[8] {x}"},
      {"%y = concat %e, %x dim=0", "%y = exchange %x offset=[1] : f32[4] of f32[8] {x}"},
      // A chain whose steps fill with two values is not one that fills with one of them.
      {"%a = pad %x low=[1] high=[0] value=1 %y = pad %a low=[1] high=[0] value=2",
       "%y = exchange %x offset=[-2] value=2 : f32[5] of f32[10] {x}"},
      {"%a = pad %x low=[1] high=[0] %y = pad %a low=[1] high=[0] value=-0",
       "%y = exchange %x offset=[-2] : f32[5] of f32[10] {x}"},
      // Cropped elements are lost.
      {"%a = pad %x low=[-1] high=[0] %b = pad %a low=[1] high=[0] %y = neg %b",
       "%y = neg %x : f32[4] of f32[8] {x}"},
  };
  for (const Pair& pair : kPairs) EXPECT_NE(VerifiedMoves(pair.global, pair.local), "") << pair.global;
}

// A pending sum may pass a padding whose fill times n equals the fill.
TEST(VerifyMovesTest, FillsWhatIsOwedWithWhatReducesToItself) {
  const auto verified = [](std::string_view value, std::string_view reduce, std::string_view op,
                           std::string_view dtype = "f32") {
    const std::string global = fmt::format(
        "mesh [x=2,y=2] func f(%x: {2}[4,8] {{x,y}}) {{ %s = {0} %x dims=[0] %y = pad %s low=[1] high=[1] "
        "value={1} return y=%y }}",
        reduce, value, dtype);
    const std::string local = fmt::format(
        "mesh [x=2,y=2] func f(%x: {3}[2,4] of {3}[4,8] {{x,y}}) {{ %s = {0} %x dims=[0] : {3}[4] of {3}[8] "
        "{{y "
        "| {2}:x}} %p = exchange %s offset=[-1] value={1} : {3}[5] of {3}[10] {{y | {2}:x}} %y = all_reduce "
        "%p "
        "axes=(x) op={2} : {3}[5] of {3}[10] {{y}} return y=%y }}",
        reduce, value, op, dtype);
    return std::string(MessageOf(Verify(ParseGraph(global).value(), ParseGraph(local).value()).status()));
  };
  EXPECT_EQ(verified("0", "reduce_sum", "sum"), "");
  EXPECT_EQ(verified("-0", "reduce_sum", "sum"), "");
  EXPECT_NE(verified("0.75", "reduce_sum", "sum"), "");
  EXPECT_NE(verified("nan", "reduce_sum", "sum"), "");
  EXPECT_EQ(verified("0", "reduce_prod", "prod", "i32"), "");
  EXPECT_EQ(verified("1", "reduce_prod", "prod", "i32"), "");
  EXPECT_NE(verified("2", "reduce_prod", "prod", "i32"), "");
  EXPECT_EQ(verified("0.75", "reduce_max", "max"), "");
}

// All NaN among attributes are equal.
TEST(VerifyMovesTest, TakesEveryNanForOne) {
  Graph graph(Mesh::Parse("x=2").value());
  const Value x = graph.Input("x", F32, {4}, {"x"});
  graph.Output("a", Pad(x, {1}, {1}, std::nan("1")));
  graph.Output("b", Neg(Pad(x, {1}, {1}, -std::nan("2"))));
  const absl::StatusOr<Program> program = Compile(graph);
  ASSERT_TRUE(program.ok()) << program.status();
  int exchanges = 0;
  for (const Node& node : program->body.nodes()) exchanges += node.row->name == "exchange";
  EXPECT_EQ(exchanges, 1) << PrintGraph(program->body);
  EXPECT_TRUE(
      Verify(ParseGraph(PrintGraph(graph)).value(), ParseGraph(PrintGraph(program->body)).value()).ok());
}

}  // namespace
}  // namespace meshwork::verify_moves_test
