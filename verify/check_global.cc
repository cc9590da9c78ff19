#include "meshwork/verify/check_global.h"

#include <string>

#include "meshwork/base/status.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/control/check_manual.h"

namespace meshwork {
namespace {

std::string NameOf(const ValueInfo& info) {
  return info.name.empty() ? info.type.ToString() : fmt::format("%{}: {}", info.name, info.type.ToString());
}

}  // namespace

absl::Status CheckGlobal(const Graph& graph) {
  if (IsLocal(graph))
    return InvalidArgument("\"{}\" is a local program, compiled already; hand it to the executor.",
                           graph.name);
  for (const Node& node : graph.nodes()) {
    if (IsDeviceOp(node))
      return InvalidArgument(
          "{}: exists only in a manual region; in a global program ask for a layout with relayout.",
          graph.Describe(node.row->name, node.location));
    if (IsManual(node)) {  // otherwise checked when it was built
      if (absl::Status status = CheckManualIsGlobal(node); !status.ok())
        return Annotate(status, fmt::format("{}: ", graph.Describe(node.row->name, node.location)));
      continue;
    }
    for (const auto& region : node.regions) MESHWORK_RETURN_IF_ERROR(CheckGlobal(*region));
  }
  for (const ValueInfo& info : graph.values()) {
    if (info.layout.has_value() && info.layout->is_partial())
      return InvalidArgument(
          "{} is pinned as {}; only whole values can be asked for. Leave the layout out: what is owed stays "
          "so as long as the ops that read it allow.",
          graph.Describe(NameOf(info), info.location), info.layout->ToString());
  }
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.row->name != "relayout" || !node.attrs.Get<LayoutPin>("layout").layout.is_partial()) continue;
    return InvalidArgument(
        "{}: layout {} is partial; only whole values can be asked for. Leave the relayout out: what is owed "
        "stays so as long as the ops that read it allow.",
        graph.Describe(static_cast<int>(n)), node.attrs.Get<LayoutPin>("layout").ToString());
  }
  return absl::OkStatus();
}

}  // namespace meshwork
