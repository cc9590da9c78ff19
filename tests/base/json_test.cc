#include "meshwork/base/json.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace meshwork::json_test {
namespace {

using Json = nlohmann::json;

TEST(JsonReaderTest, ReadsWhatIsThere) {
  const Json json =
      Json::parse(R"({"a": [1, -2, 9223372036854775807], "b": {"c": ["x", "y"]}, "d": "text"})");
  const JsonReader document(json, "test");
  EXPECT_TRUE(document.IsObject());
  EXPECT_TRUE(document.ExpectKeys({"a", "b", "d", "e"}).ok());
  EXPECT_TRUE(document.Has("b"));
  EXPECT_FALSE(document.Has("e"));
  const std::vector<JsonReader> items = document.Get("a")->Items().value();
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].Integer().value(), 1);
  EXPECT_EQ(items[1].Integer().value(), -2);
  EXPECT_EQ(items[2].Integer().value(), INT64_MAX);
  EXPECT_EQ(document.Get("b")->Get("c")->Strings().value(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(document.Get("d")->String().value(), "text");
  EXPECT_TRUE(document.Get("d")->IsString());
  EXPECT_TRUE(document.Get("a")->IsList());
}

}  // namespace
}  // namespace meshwork::json_test
