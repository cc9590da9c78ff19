#include "meshwork/spmd/gather_in_program.h"

#include "meshwork/spmd/planner/cut.h"

namespace meshwork {

std::string GatherInProgram::NameOf(ValueId id) const {
  const ValueInfo& info = global_.value(id);
  if (!info.name.empty()) return "%" + info.name;
  return "the result of " + global_.Describe(info.node);
}

std::optional<ValueId> GatherInProgram::Root(ValueId id) const {
  std::optional<ValueId> root;
  for (int d = 0; d < LayoutOf(id).rank(); ++d) {
    if (AxesOf(LayoutOf(id), d).empty()) continue;
    const ValueId decides = DecidedBy({id, d});
    if (decides == kNoValue || (root.has_value() && *root != decides)) return std::nullopt;
    root = decides;
  }
  return root;
}

ValueId GatherInProgram::DecidedBy(Origin at) const {
  // Dims that a relayout matches may have been laid out for the relayout: a ring.
  for (size_t steps = 0; steps < global_.values().size(); ++steps) {
    const Origin& from = propagated_.origins[at.value][at.dim];
    if (from.value == kNoValue || from == at) return from.value;
    at = from;
  }
  return kNoValue;
}

}  // namespace meshwork
