// The examples of docs/layouts.md.
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "layout/json.h"
#include "layout/layout.h"
#include "layout/relayout.h"
#include "mesh/json.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// The lines of the fenced blocks.
std::vector<std::string> ExampleLines() {
  std::ifstream file(MESHWORK_TEST_DIR "/../docs/layouts.md");
  EXPECT_TRUE(file.is_open());
  std::vector<std::string> lines;
  bool fenced = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) fenced = !fenced;
    else if (fenced) lines.push_back(line);
  }
  return lines;
}

Shape ReadShape(const std::string& text) {
  Shape shape;
  const std::regex number("[0-9]+");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), number); at != std::sregex_iterator(); ++at)
    shape.push_back(std::stoll(at->str()));
  return shape;
}

// "0 1 2 | 3 4 .": the buffers of all devices.
std::string Buffers(const Layout& layout, const Shape& shape) {
  const Shape local = layout.LocalShape(shape);
  std::string text;
  for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
    if (device > 0) text += " |";
    for (int64_t i = 0; i < NumElements(local); ++i) {
      Shape index(local.size());
      int64_t rest = i;
      for (size_t d = local.size(); d-- > 0; rest /= local[d]) index[d] = rest % local[d];
      text += device > 0 || i > 0 ? " " : "";
      if (!layout.IsHeld(shape, device, index)) {
        text += ".";
        continue;
      }
      int64_t element = 0;
      const Shape global = layout.GlobalIndex(shape, device, index);
      for (size_t d = 0; d < shape.size(); ++d) element = element * shape[d] + global[d];
      text += std::to_string(element);
    }
  }
  return text;
}

TEST(LayoutDocs, BuffersHoldWhatIsDrawn) {
  const std::regex example(R"(^(\{[^>]*\}) of (\[[0-9,]*\]) on (\[.*?\]) +(.*)$)");
  int count = 0;
  for (const std::string& line : ExampleLines()) {
    std::smatch match;
    if (!std::regex_match(line, match, example)) continue;
    const Layout layout = Layout::Parse(Mesh::Parse(match[3].str()).value(), match[1].str()).value();
    EXPECT_EQ(layout.ToString(), match[1]);
    EXPECT_EQ(Buffers(layout, ReadShape(match[2])), match[4]) << line;
    ++count;
  }
  EXPECT_EQ(count, 15);
}

TEST(LayoutDocs, PlansAreAsSaid) {
  const std::regex example(R"(^(\{.*\}) -> (\{.*\}) of (\[[0-9,]*\]) on (\[.*?\]) +(.*)$)");
  int count = 0;
  for (const std::string& line : ExampleLines()) {
    std::smatch match;
    if (!std::regex_match(line, match, example)) continue;
    const Mesh mesh = Mesh::Parse(match[4].str()).value();
    const RelayoutPlan plan = PlanRelayout(Layout::Parse(mesh, match[1].str()).value(),
                                           Layout::Parse(mesh, match[2].str()).value(), ReadShape(match[3]))
                                  .value();
    std::string steps;
    for (const RelayoutStep& step : plan.steps)
      steps += (steps.empty() ? "" : ", ") + std::string(RelayoutKindName(step.kind));
    EXPECT_EQ(steps, match[5]) << line;
    ++count;
  }
  EXPECT_EQ(count, 11);
}

TEST(LayoutDocs, JsonIsThatOfTheLineAbove) {
  const std::vector<std::string> lines = ExampleLines();
  Mesh mesh;
  int count = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!lines[i].starts_with("{\"")) continue;
    const nlohmann::json json = nlohmann::json::parse(lines[i]);
    if (lines[i - 1].starts_with("[")) {
      mesh = Mesh::Parse(lines[i - 1]).value();
      EXPECT_EQ(ToJson(mesh), json);
      EXPECT_EQ(MeshFromJson(json).value(), mesh);
    } else {
      const LayoutPin pin = LayoutPin::Parse(mesh, lines[i - 1]).value();
      EXPECT_EQ(ToJson(pin), json);
      EXPECT_EQ(LayoutPinFromJson(mesh, json).value(), pin);
    }
    ++count;
  }
  EXPECT_EQ(count, 3);
}

TEST(LayoutDocs, TheCppExamplesGiveTheTextBesideThem) {
  const Mesh mesh = Mesh::Parse("batch=4,model=8").value();
  EXPECT_EQ(Layout::Create(mesh, {"batch", UNSHARDED})->ToString(), "{batch,_}");
  EXPECT_EQ(Layout::Create(mesh, {{"batch", "model"}, UNSHARDED})->ToString(), "{(batch,model),_}");
  EXPECT_EQ(Layout::Create(mesh, {"model:(2)4", UNSHARDED})->ToString(), "{model:(2)4,_}");
  EXPECT_EQ(Layout::Create(mesh, {DimSpec::Factors({{8, {"batch"}}, {4}}), UNSHARDED})->ToString(),
            "{8@batch*4,_}");
  EXPECT_EQ(Layout::Parse(mesh, "{_,_ | sum:model}")->ToString(), "{_,_ | sum:model}");
  EXPECT_EQ(LayoutPin::Create(mesh, {"batch", OPEN, MATCH})->ToString(), "{batch,?,MATCH}");
}

}  // namespace
}  // namespace meshwork
