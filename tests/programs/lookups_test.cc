// Lookups whose indices are cut by their layout, and have the same bits on every device.
#include <gtest/gtest.h>

#include <string_view>

#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "support/program_trial.h"

namespace meshwork::lookups_test {
namespace {

// As token types that are all alike: a constant does not vary over the axis that cuts it, but what is looked up does.
constexpr std::string_view kConstantIndices = R"(mesh [batch=4]
func f(%t: f32[3,2] {_,_}, %g: f32[8,2] {batch,_}, %u: f32[5,8] {_,batch}) {
  %i = constant value=1 dtype=i32 shape=[8] : i32[8] {batch}
  %y = gather %t, %i dim=0 : f32[8,2] {batch,_}
  %d = scatter_add %g, %i shape=[3,2] dim=0 : f32[3,2] {_,_}
  %e = scatter_add %u, %i shape=[5,3] dim=1 : f32[5,3] {_,_}
  return y=%y, d=%d, e=%e
})";

TEST(LookupProgramsTest, ConstantIndicesAreThoseOfEachDevice) {
  const RandomProgram program = WithFeeds(ParseGraph(kConstantIndices).value());
  const Expected expected = ExpectedOf(program);
  CpuBackend backend(2);
  for (const bool share : {true, false})
    for (const bool coalesce : {true, false})
      EXPECT_EQ(TryProgram(program, expected, backend, {}, {.share = share, .coalesce = coalesce}).error(),
                "")
          << "share " << share << ", coalesce " << coalesce;
}

}  // namespace
}  // namespace meshwork::lookups_test
