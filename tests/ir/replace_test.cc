#include "meshwork/ir/replace.h"

#include <vector>

#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/ops.h"

namespace meshwork::replace_test {
namespace {

// y = a + 0, of which nodes, an update, an output and a pin are kept; and what the product before it gave goes into it.
TEST(ReplaceInPlaceTest, ReadersOfAValueReadTheOther) {
  Graph g(Mesh::Parse("x=2").value());
  const Value x = g.Input("x", F32, {4, 4}, {"x", UNSHARDED});
  const Variable w = g.Var("w", {{F32, {4, 4}}, {}}, {UNSHARDED, UNSHARDED});
  const Value h = MatMul(x, w);
  g.Pin(h, {"x", UNSHARDED});
  const Value y = MatMul(h, w);
  g.Output("h", h);
  g.Output("y", Neg(y));
  g.Update(w, y);
  const size_t first = g.nodes().size();
  // Those of y read h as it is afterwards.
  const Value other_h = h + Relu(MatMul(x, x)), other_y = Exp(h) * y;
  const std::vector<Replacement> replacements = {{h.id(), other_h.id()}, {y.id(), other_y.id()}};
  ReplaceInPlace(g, first, replacements);
  EXPECT_EQ(PrintGraph(g), R"(mesh [x=2]
func step(%x: f32[4,4] {x,_},
     var %w: f32[4,4] {_,_}) {
  %0 = matmul %x, %w : f32[4,4]
  %1 = matmul %x, %x : f32[4,4]
  %2 = relu %1 : f32[4,4]
  %3 = add %0, %2 : f32[4,4] {x,_}
  %4 = matmul %3, %w : f32[4,4]
  %5 = exp %3 : f32[4,4]
  %6 = mul %5, %4 : f32[4,4]
  %7 = neg %6 : f32[4,4]
  update %w = %6
  return h=%3, y=%7
}
)");
  for (size_t n = 0; n < g.nodes().size(); ++n)
    for (const ValueId id : g.nodes()[n].results) EXPECT_EQ(g.value(id).node, static_cast<int>(n));
  // The handle of y is that of what took its place.
  g.Output("z", Abs(y));
  EXPECT_NE(PrintGraph(g).find("%8 = abs %6"), std::string::npos) << PrintGraph(g);
  EXPECT_TRUE(g.status().ok()) << g.status();
}

}  // namespace
}  // namespace meshwork::replace_test
