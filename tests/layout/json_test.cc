#include "layout/json.h"

#include <string>

#include "base/status.h"
#include "gtest/gtest.h"
#include "layout/layout.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

std::string ErrorOf(const Mesh& mesh, const char* json) {
  const absl::StatusOr<Layout> layout = LayoutFromJson(mesh, nlohmann::json::parse(json));
  return layout.ok() ? "no error: " + layout->ToString() : std::string(MessageOf(layout.status()));
}

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

TEST(LayoutJsonTest, RejectsOtherJson) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4").value();
  struct Case {
    const char *json, *error;
  };
  const Case kCases[] = {
      {R"("{batch}")", "layout JSON: it is \"{batch}\"; it must be an object."},
      {"{}", "layout JSON: it has no \"dims\"."},
      {R"({"dims": [], "partials": {}})",
       "layout JSON: it has the key \"partials\"; the keys are dims, partial; did you mean \"partial\"?"},
      {R"({"dims": [], "mesh": "a=2"})", "layout JSON: it has the key \"mesh\"; the keys are dims, partial."},
      {R"({"dims": "batch"})", "layout JSON: dims is \"batch\"; it must be a list."},
      {R"({"dims": [[], "batch"]})",
       "layout JSON: dims[1] is \"batch\"; it must be a list of axes or factors, \"?\" or \"MATCH\"."},
      {R"({"dims": [null]})",
       "layout JSON: dims[0] is null; it must be a list of axes or factors, \"?\" or \"MATCH\"."},
      {R"({"dims": [["batch", 2]]})", "layout JSON: dims[0][1] is 2; it must be a string."},
      {R"({"dims": [["batch", {"size": 2}]]})",
       "layout JSON: dims[0][1] is {\"size\":2}; it must be a string."},
      {R"({"dims": [[{"size": 2}, "batch"]]})",
       "layout JSON: dims[0][1] is \"batch\"; it must be an object."},
      {R"({"dims": [[{"size": 2}, {"axes": []}]]})", "layout JSON: dims[0][1] has no \"size\"."},
      {R"({"dims": [[{"size": 2}, {"size": 2, "axis": []}]]})",
       "layout JSON: dims[0][1] has the key \"axis\"; the keys are size, axes; did you mean \"axes\"?"},
      {R"({"dims": [[{"size": 2.0}, {"size": 2}]]})",
       "layout JSON: dims[0][0].size is 2.0; it must be a whole number."},
      {R"({"dims": [[{"size": 2, "axes": "batch"}]]})",
       "layout JSON: dims[0][0].axes is \"batch\"; it must be a list."},
      {R"({"dims": [[]], "partial": ["model"]})",
       "layout JSON: partial is [\"model\"]; it must be an object."},
      {R"({"dims": [[]], "partial": {"axes": ["model"]}})", "layout JSON: partial has no \"op\"."},
      {R"({"dims": [[]], "partial": {"op": "sum"}})", "layout JSON: partial has no \"axes\"."},
      {R"({"dims": [[]], "partial": {"op": "mean", "axes": ["model"]}})",
       "layout JSON: partial.op: unknown reduction \"mean\"; one of sum, max, min, prod, and, or."},
      {R"({"dims": [[]], "partial": {"op": "sum", "axes": []}})",
       "layout JSON: partial.axes is []; it must be a list of one axis or more."},
      // What the text form finds wrong, too.
      {R"({"dims": [["batch"], ["modle"]]})",
       "Layout {batch,modle}: mesh [batch=2, model=4] has no axis \"modle\"; did you mean \"model\"?"},
      {R"({"dims": [["batch"]], "partial": {"op": "max", "axes": ["batch"]}})",
       "Layout {batch | max:batch}: axis \"batch\" appears twice; an axis shards one dim, once."},
      {R"({"dims": [[{"size": 8, "axes": ["batch"]}]]})",
       "Layout {8@batch}: a dim of one factor, {8@batch}, is a plain one; write its axes only."},
      {R"({"dims": [[{"size": 0, "axes": ["batch"]}, {"size": 2}]]})",
       "Layout {0@batch*2}: a factor of 0 elements; sizes are at least 1."},
      {R"({"dims": [["model:(3)2"]]})",
       "Layout {model:(3)2}: mesh [batch=2, model=4]: \"model:(3)2\" is no sub-axis of model=4; (3) times 2 "
       "must divide 4."},
  };
  for (const Case& c : kCases) EXPECT_EQ(ErrorOf(mesh, c.json), c.error);
}

}  // namespace
}  // namespace meshwork
