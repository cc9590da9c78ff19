#include "meshwork/ir/attrs.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace meshwork::attrs_test {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<int64_t>;

std::vector<std::string> NamesOf(const Attrs& attrs) {
  std::vector<std::string> names;
  for (const auto& [name, value] : attrs.entries()) names.push_back(name);
  return names;
}

TEST(AttrsTest, SetReplacesInPlaceAndAddsAtTheEnd) {
  Attrs attrs = {{"dims", Ints{0, 1}}, {"keep_dims", true}};
  attrs.Set("dims", Ints{2});
  attrs.Set("scale", 0.5);
  EXPECT_THAT(NamesOf(attrs), ElementsAre("dims", "keep_dims", "scale"));
  EXPECT_THAT(attrs.Get<Ints>("dims"), ElementsAre(2));
  EXPECT_EQ(attrs.Get<bool>("keep_dims"), true);
  EXPECT_EQ(attrs.Get<double>("scale"), 0.5);
  EXPECT_EQ(attrs.Find("other"), nullptr);
}

TEST(AttrsTest, CopiesShareWhatTheyHoldUntilOneIsSet) {
  const Attrs attrs = {{"dims", Ints{0, 1}}, {"keep_dims", true}};
  Attrs copy = attrs;
  EXPECT_EQ(copy.Find("dims"), attrs.Find("dims"));
  copy.Set("dims", Ints{2});
  EXPECT_THAT(attrs.Get<Ints>("dims"), ElementsAre(0, 1));
  EXPECT_THAT(copy.Get<Ints>("dims"), ElementsAre(2));
  EXPECT_FALSE(copy == attrs);
  copy.Set("dims", Ints{0, 1});
  EXPECT_TRUE(copy == attrs);
}

TEST(AttrsTest, SetTakesAValueAndANameOfItsOwn) {
  Attrs attrs = {{"a", Ints{1, 2, 3}}};
  attrs.Set("b", *attrs.Find("a"));
  attrs.Set(attrs.entries()[0].first, Ints{4});
  EXPECT_THAT(attrs.Get<Ints>("a"), ElementsAre(4));
  EXPECT_THAT(attrs.Get<Ints>("b"), ElementsAre(1, 2, 3));
}

TEST(AttrsTest, NoneAreEqualHoweverTheyAreMade) {
  Attrs moved = {{"a", int64_t{1}}};
  const Attrs taken = std::move(moved);
  for (const Attrs& none : {Attrs(), Attrs(Attrs::Entries()), moved}) {  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(none.entries().empty());
    EXPECT_EQ(none.Find("a"), nullptr);
    EXPECT_TRUE(none == Attrs());
    EXPECT_FALSE(none == taken);
  }
}

TEST(AttrsTest, AreComparedByNameOrderAndBits) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE((Attrs{{"v", nan}}) == (Attrs{{"v", nan}}));
  EXPECT_FALSE((Attrs{{"v", 0.0}}) == (Attrs{{"v", -0.0}}));
  EXPECT_FALSE((Attrs{{"v", 0.0}}) == (Attrs{{"w", 0.0}}));
  EXPECT_FALSE((Attrs{{"v", 0.0}, {"w", 0.0}}) == (Attrs{{"w", 0.0}, {"v", 0.0}}));
}

}  // namespace
}  // namespace meshwork::attrs_test
