// examples/custom_op as a shell sees it.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/process.h"

namespace meshwork::custom_op_test {
namespace {

TEST(CustomOpTest, ChecksItsOpAndTrainsThroughIt) {
  const Finished finished =
      RunProcess(CUSTOM_OP, {}, fmt::format("{}cli-custom-op-{}", testing::TempDir(), getpid()));
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(finished.out,
              testing::MatchesRegex("swiglu: [0-9]+ placements, [0-9]+ programs and 58 slopes are right\n"
                                    "after 10 steps: (-?[0-9.]+) on 4 devices, (-?[0-9.]+) on one\n"));
}

// The example claims to be short.
TEST(CustomOpTest, IsOfFewerThanSixtyLines) {
  const std::string source = Contents(MESHWORK_TEST_DIR "/../examples/custom_op.cc");
  EXPECT_GT(std::count(source.begin(), source.end(), '\n'), 30);
  EXPECT_LT(std::count(source.begin(), source.end(), '\n'), 60);
}

}  // namespace
}  // namespace meshwork::custom_op_test
