// Ops in bodies that take values of the program around them, and bodies that come to nothing.
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/ops/control/control_flow.h"
#include "meshwork/ops/operators.h"
#include "meshwork/ops/ops.h"

namespace meshwork::bodies_test {
namespace {

// A scan of x: f32[3,4] whose body makes of the carry h: f32[4], and of the values around it, the next one.
absl::Status InScan(const std::function<Value(const Value& outer, const Value& h)>& next) {
  Graph g(Mesh::Parse("x=2").value());
  const Value outer = g.Input("outer", F32, {4});
  const ScanResult result = Scan(g, {g.Input("h", F32, {4})}, {g.Input("x", F32, {3, 4})},
                                 [&](Graph&, const std::vector<Value>& carries, const std::vector<Value>&) {
                                   return ScanStep{.carries = {next(outer, carries[0])}};
                                 });
  g.Output("h", result.carries.at(0));
  return g.status();
}

TEST(BodiesTest, ASelectMayTakeBothBranchesFromOutside) {
  EXPECT_EQ(
      InScan([](const Value& outer, const Value& h) { return Select(Greater(h, 0.0), outer, outer * 2.0); }),
      absl::OkStatus());
}

TEST(BodiesTest, AConcatMayBeginWithAValueFromOutside) {
  EXPECT_EQ(InScan([](const Value& outer, const Value& h) {
              return SliceDim(Concat({outer, h}, 0), 0, 2, 6);
            }),
            absl::OkStatus());
  EXPECT_EQ(InScan([](const Value& outer, const Value& h) {
              return ReduceSum(Stack({outer, h}, 0), 0);
            }),
            absl::OkStatus());
}

// Nothing could read what it does, and a text has no place for it.
TEST(BodiesTest, ALoopWithoutResultsIsNone) {
  Graph g(Mesh::Parse("x=2").value());
  const Value x = g.Input("x", F32, {4});
  Scan(g, {}, {}, [](Graph&, const std::vector<Value>&, const std::vector<Value>&) { return ScanStep(); },
       {.length = 3});
  If(
      Greater(ReduceSum(x), 0.0), [](Graph&) { return std::vector<Value>(); },
      [](Graph&) { return std::vector<Value>(); });
  g.Output("y", x + 1.0);
  ASSERT_EQ(g.status(), absl::OkStatus());
  EXPECT_EQ(PrintGraph(g).find("scan"), std::string::npos);
  EXPECT_EQ(PrintGraph(g).find("= if"), std::string::npos);
}

}  // namespace
}  // namespace meshwork::bodies_test
