#include "meshwork/ir/missing_axes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <variant>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

// "model" of "model:(2)4".
std::string WholeAxis(const std::string& name) { return name.substr(0, name.find(':')); }

void AddAxes(const Mesh& mesh, const AxisList& axes, std::set<std::string>& named) {
  for (const std::string& name : mesh.NamesOf(axes)) named.insert(WholeAxis(name));
}

// The axes that layouts, and ops of manual regions, name in the program and in its bodies.
void AddNamed(const Graph& graph, std::set<std::string>& named) {
  const auto add = [&](const Layout& layout) {
    AddAxes(layout.mesh(), layout.ShardedAxes().ToList(), named);
  };
  for (const ValueInfo& info : graph.values())
    if (info.layout.has_value()) add(*info.layout);
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, value] : node.attrs.entries()) {
      if (const auto* pin = std::get_if<LayoutPin>(&value)) add(pin->layout);
      if (const auto* axes = std::get_if<AxisList>(&value)) AddAxes(graph.mesh(), *axes, named);
    }
    for (const auto& region : node.regions) AddNamed(*region, named);
  }
}

}  // namespace

std::vector<std::string> AxesNamedBy(const LayoutSpec& spec) {
  std::vector<std::string> axes;
  const auto add = [&](const std::vector<std::string>& names) {
    std::transform(names.begin(), names.end(), std::back_inserter(axes), WholeAxis);
  };
  for (const DimSpec& dim : spec) {
    add(dim.axes());
    for (const FactorSpec& factor : dim.factors()) add(factor.axes);
  }
  return axes;
}

absl::Status CheckMissingAxes(const Graph& graph, const std::vector<std::string>& asked) {
  const Mesh& mesh = graph.mesh();
  std::vector<std::string> missing;
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(missing),
               [&](const std::string& axis) { return !mesh.Cut(axis).ok(); });
  if (missing.empty()) return absl::OkStatus();
  std::set<std::string> named(asked.begin(), asked.end());
  AddNamed(graph, named);
  for (int i = 0; i < mesh.num_axes(); ++i) {
    const std::string idle = WholeAxis(mesh.NamesOf({i})[0]);
    if (mesh.axis(i).size == 1 || named.contains(idle)) continue;
    for (const std::string& axis : missing)
      if (const std::string hint = DidYouMean(axis, {idle}); !hint.empty())
        return InvalidArgument("mesh {} has no axis \"{}\"{} No layout names the mesh's \"{}\".",
                               mesh.ToString(), axis, hint, idle);
  }
  return absl::OkStatus();
}

}  // namespace meshwork
