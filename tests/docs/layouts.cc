#include "docs/layouts.h"

#include <regex>

#include "docs/page.h"
#include "fmt/format.h"
#include "meshwork/layout/json.h"
#include "meshwork/layout/layout.h"
#include "meshwork/layout/relayout.h"
#include "meshwork/mesh/json.h"
#include "nlohmann/json.hpp"

namespace meshwork::docs {
namespace {

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

std::string Steps(const RelayoutPlan& plan) {
  std::string steps;
  for (const RelayoutStep& step : plan.steps)
    steps += (steps.empty() ? "" : ", ") + std::string(RelayoutKindName(step.kind));
  return steps.empty() ? "-" : steps;
}

template <typename T>
std::string Differ(const T& is, const T& says) {
  return is == says ? "" : fmt::format("is {}, not {}", is, says);
}

class Checker {
 public:
  std::string Check(const std::string& line) {
    static const std::regex buffers(R"(^(\{[^>]*\}) of (\[[0-9,]*\]) on (\[.*?\]) +(.*)$)"),
        plan(R"(^(\{.*\}) -> (\{.*\}) of (\[[0-9,]*\]) on (\[.*?\]) +(.*)$)");
    std::smatch match;
    if (std::regex_match(line, match, plan)) {
      const Mesh mesh = Mesh::Parse(match[4].str()).value();
      return Differ(Steps(PlanRelayout(Layout::Parse(mesh, match[1].str()).value(),
                                       Layout::Parse(mesh, match[2].str()).value(), ReadShape(match[3]))
                              .value()),
                    match[5].str());
    }
    if (std::regex_match(line, match, buffers)) {
      const Layout layout = Layout::Parse(Mesh::Parse(match[3].str()).value(), match[1].str()).value();
      return Differ(layout.ToString(), match[1].str()) +
             Differ(Buffers(layout, ReadShape(match[2])), match[4].str());
    }
    if (line.starts_with("{\"")) return CheckJson(nlohmann::json::parse(line));
    said_ = line;
    return "";
  }

 private:
  std::string CheckJson(const nlohmann::json& json) {
    if (said_.starts_with("[")) {
      mesh_ = Mesh::Parse(said_).value();
      if (MeshFromJson(json).value() != mesh_) return "reads as another mesh";
      return Differ(ToJson(mesh_).dump(), json.dump());
    }
    const LayoutPin pin = LayoutPin::Parse(mesh_, said_).value();
    if (LayoutPinFromJson(mesh_, json).value() != pin) return "reads as another layout";
    return Differ(ToJson(pin).dump(), json.dump());
  }

  Mesh mesh_;
  std::string said_;  // the last line that is none of the other forms
};

}  // namespace

std::string CheckLayouts(std::string_view text) {
  Checker checker;
  std::string wrong;
  for (const std::string& line : Lines(text)) {
    const std::string error = line.empty() ? "" : checker.Check(line);
    if (!error.empty()) wrong += fmt::format("{}\n  {}\n", line, error);
  }
  return wrong;
}

}  // namespace meshwork::docs
