#include "meshwork/layout/json.h"

#include <string>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/layout.h"
#include "nlohmann/json.hpp"

namespace meshwork::json_test {
namespace {

TEST(LayoutJsonTest, WritesDimsFactorsAndPartials) {
  const Mesh mesh = Mesh::Parse("batch=4,model=2*2,x=2").value();
  struct Case {
    const char *text, *json;
  };
  const Case kCases[] = {
      {"{}", R"({"dims": []})"},
      {"{_,(x,batch)}", R"({"dims": [[], ["x", "batch"]]})"},
      {"{batch,_,8@x*4 | sum:model}", R"({"dims": [["batch"], [],
          [{"size": 8, "axes": ["x"]}, {"size": 4, "axes": []}]], "partial": {"op": "sum", "axes": ["model"]}})"},
      {"{model:(2)2 | and:(model:(1)2,x)}",
       R"({"dims": [["model:(2)2"]], "partial": {"op": "and", "axes": ["model:(1)2", "x"]}})"},
  };
  for (const Case& c : kCases) {
    const Layout layout = Layout::Parse(mesh, c.text).value();
    EXPECT_EQ(ToJson(layout), nlohmann::json::parse(c.json)) << c.text;
    EXPECT_EQ(LayoutFromJson(mesh, nlohmann::json::parse(c.json)).value(), layout) << c.text;
  }
}

TEST(LayoutJsonTest, WritesPins) {
  const Mesh mesh = Mesh::Parse("batch=4,model=4").value();
  const LayoutPin pin = LayoutPin::Parse(mesh, "{batch,?,MATCH,_}").value();
  const nlohmann::json json = nlohmann::json::parse(R"({"dims": [["batch"], "?", "MATCH", []]})");
  EXPECT_EQ(ToJson(pin), json);
  EXPECT_EQ(LayoutPinFromJson(mesh, json).value(), pin);
  EXPECT_EQ(
      MessageOf(LayoutFromJson(mesh, json).status()),
      "Layout {batch,?,MATCH,_}: ? and MATCH leave a dim to the compiler; here every dim has to be said.");
}

TEST(LayoutJsonTest, FactorsMayLeaveOutTheirAxes) {
  const Mesh mesh = Mesh::Parse("x=2").value();
  EXPECT_EQ(
      LayoutFromJson(mesh, nlohmann::json::parse(R"({"dims": [[{"size": 3}, {"size": 4, "axes": ["x"]}]]})"))
          .value(),
      Layout::Parse(mesh, "{3*4@x}").value());
}

TEST(LayoutJsonTest, CutsTheMeshForSubAxes) {
  const absl::StatusOr<Layout> layout =
      LayoutFromJson(Mesh::Parse("m=8").value(), nlohmann::json::parse(R"({"dims": [["m:(2)4"]]})"));
  EXPECT_EQ(layout->mesh(), Mesh::Parse("m=2*4").value());
}

}  // namespace
}  // namespace meshwork::json_test
