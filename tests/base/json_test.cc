#include "base/json.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::json;

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  return result.ok() ? "no error" : std::string(MessageOf(result.status()));
}

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

TEST(JsonReaderTest, ErrorsSayWhere) {
  const Json json = Json::parse(R"({"a": [[1.5], {"b": null}], "n": 9223372036854775808})");
  const JsonReader document(json, "test");
  const std::vector<JsonReader> items = document.Get("a")->Items().value();
  EXPECT_EQ(ErrorOf((*items[0].Items())[0].Integer()), "test: a[0][0] is 1.5; it must be a whole number.");
  EXPECT_EQ(ErrorOf(items[1].Get("b")->String()), "test: a[1].b is null; it must be a string.");
  EXPECT_EQ(ErrorOf(items[1].Get("c")), "test: a[1] has no \"c\".");
  EXPECT_EQ(ErrorOf(items[0].Get("c")), "test: a[0] is [1.5]; it must be an object.");
  EXPECT_EQ(ErrorOf(items[1].Items()), "test: a[1] is {\"b\":null}; it must be a list.");
  EXPECT_EQ(ErrorOf(items[0].Strings()), "test: a[0][0] is 1.5; it must be a string.");
  EXPECT_EQ(ErrorOf(document.Get("n")->Integer()),
            "test: n is 9223372036854775808; it must be a whole number.");
  EXPECT_EQ(MessageOf(items[1].ExpectKeys({"bee", "be"})),
            "test: a[1] has the key \"b\"; the keys are bee, be; did you mean \"be\"?");
  EXPECT_EQ(MessageOf(items[0].ExpectKeys({"b"})), "test: a[0] is [1.5]; it must be an object.");
}

TEST(JsonReaderTest, ErrorsShowTheBeginningOfLongValues) {
  const Json json = std::string(57, 'x') + "ää and more";
  EXPECT_EQ(ErrorOf(JsonReader(json, "test").Integer()),
            "test: it is \"" + std::string(57, 'x') + "ä…; it must be a whole number.");
  const Json longer = std::string(58, 'x') + "ää";
  EXPECT_EQ(ErrorOf(JsonReader(longer, "test").Integer()),
            "test: it is \"" + std::string(58, 'x') + "…; it must be a whole number.");
  EXPECT_EQ(ErrorOf(JsonReader(Json("\xff"), "test").Integer()),
            "test: it is \"\xEF\xBF\xBD\"; it must be a whole number.");
}

}  // namespace
}  // namespace meshwork
