#include "meshwork/base/shared_text.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::shared_text_test {
namespace {

constexpr std::string_view kLong = "a text that is too long to lie in a std::string itself";

TEST(SharedTextTest, CopiesShareTheText) {
  const SharedText a(kLong);
  const SharedText b = a;
  EXPECT_EQ(&a.str(), &b.str());
  EXPECT_EQ(a.str(), kLong);
  SharedText c = a;
  c = "another";
  EXPECT_EQ(a, kLong);
  EXPECT_EQ(c, "another");
}

TEST(SharedTextTest, OutlivesTheTextItWasCopiedFrom) {
  SharedText copy;
  {
    const SharedText text(kLong);
    copy = text;
  }
  EXPECT_EQ(copy.str(), kLong);
}

TEST(SharedTextTest, IsEmptyWhenMadeOfNothingAndWhenMovedFrom) {
  const SharedText of_nothing[] = {{}, "", std::string(), std::string_view()};
  for (const SharedText& text : of_nothing) {
    EXPECT_TRUE(text.empty());
    EXPECT_EQ(text, "");
    EXPECT_EQ(text, SharedText());
    EXPECT_STREQ(text.c_str(), "");
  }
  SharedText from(kLong);
  const SharedText to = std::move(from);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_FALSE(to.empty());
}

TEST(SharedTextTest, ComparesTexts) {
  const std::vector<std::string> texts = {"", "a", "b", std::string("a\0b", 3), std::string(kLong)};
  for (const std::string& x : texts) {
    for (const std::string& y : texts) {
      EXPECT_EQ(SharedText(x) == SharedText(y), x == y);
      EXPECT_EQ(SharedText(x) == y, x == y);
      EXPECT_EQ(std::string_view(x) == SharedText(y), x == y);
      EXPECT_EQ(SharedText(x) != SharedText(y), x != y);
    }
  }
}

TEST(SharedTextTest, ReadsAsStdTexts) {
  const SharedText text = "model.cc";
  std::string s = text;
  s = text;
  s += text;
  EXPECT_EQ(s, "model.ccmodel.cc");
  const std::string_view view = text;
  EXPECT_EQ(view.data(), text.c_str());
  std::vector<std::string> list;
  list.push_back(text);
  EXPECT_EQ(list[0], "model.cc");
  EXPECT_EQ(fmt::format("{}:{:>9}", text, text), "model.cc: model.cc");
}

}  // namespace
}  // namespace meshwork::shared_text_test
