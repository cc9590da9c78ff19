#include "meshwork/runtime/exec/backend.h"

#include "meshwork/base/status.h"

namespace meshwork {

absl::Status CheckKernels(const Graph& ordered, const Backend& backend) {
  for (size_t n = 0; n < ordered.nodes().size(); ++n) {
    const Node& node = ordered.nodes()[n];
    for (const auto& region : node.regions) MESHWORK_RETURN_IF_ERROR(CheckKernels(*region, backend));
    const bool is_computed = node.row->kind != OpKind::kCollective && node.row->kind != OpKind::kControl;
    if (is_computed && !backend.Has(*node.row))
      return InvalidArgument("Executor: {} has no {} kernel; give its row one.",
                             ordered.Describe(static_cast<int>(n)), backend.name());
  }
  return absl::OkStatus();
}

}  // namespace meshwork
