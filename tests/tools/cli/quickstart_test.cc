// examples/quickstart as a shell sees it.
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/cli/process.h"

namespace meshwork::quickstart_test {
namespace {

TEST(QuickstartTest, ExplainsItsCollectivesAndLearns) {
  const Finished finished =
      RunProcess(QUICKSTART, {}, fmt::format("{}cli-quickstart-{}", testing::TempDir(), getpid()));
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(finished.out, testing::StartsWith("step on mesh [batch=4, model=2], 2 collectives, 1668686 B "
                                                "on the wire per device:\n  1. all_reduce over "));
  std::istringstream lines(finished.out);
  std::vector<double> losses;
  int collectives = 0;
  for (std::string line; std::getline(lines, line);) {
    collectives += line.find(". all_reduce over (") != std::string::npos;
    double loss = 0;
    if (std::sscanf(line.c_str(), "loss %lf", &loss) == 1) losses.push_back(loss);
  }
  EXPECT_EQ(collectives, 2);
  ASSERT_EQ(losses.size(), 10u);
  EXPECT_GT(losses.front(), 2);
  EXPECT_LT(losses.back(), losses.front());
}

}  // namespace
}  // namespace meshwork::quickstart_test
