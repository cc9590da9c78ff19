#include "meshwork/base/debug.h"

#include "gtest/gtest.h"

namespace meshwork::debug_test {
namespace {

TEST(DebugTest, IsThatOfTheBuildOfTheTests) {
#ifdef NDEBUG
  EXPECT_FALSE(kDebugBuild);
#else
  EXPECT_TRUE(kDebugBuild);
#endif
}

}  // namespace
}  // namespace meshwork::debug_test
