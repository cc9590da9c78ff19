// Random names.
#include "meshwork/base/random_name.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::random_name_test {
namespace {

TEST(RandomNameTest, HasSixteenDigitsAndIsAnotherEachTime) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    const std::string name = RandomName();
    EXPECT_THAT(name, testing::MatchesRegex("[0-9a-f]{16}"));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace meshwork::random_name_test
