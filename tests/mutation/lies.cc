#include "mutation/lies.h"

#include <utility>

namespace meshwork {

std::vector<Layout> Lies(const Layout& layout, const Shape& global) {
  std::vector<Layout> lies;
  if (layout.is_strided()) {
    // The lies of the flat layout, of a tensor with the factors' shape.
    for (const Layout& flat : Lies(layout.Flat(), layout.FactorShape(global))) {
      std::vector<FactorList> dims;
      int f = 0;
      for (int d = 0; d < layout.rank(); ++d) {
        dims.push_back(layout.Factors(d, global[d]));
        for (Factor& factor : dims.back()) factor.axes = flat.dim(f++);
      }
      Layout lie = Layout::Strided(layout.mesh(), dims, flat.partials());
      if (lie != layout && lie.LocalShape(global) == layout.LocalShape(global))
        lies.push_back(std::move(lie));
    }
    return lies;
  }
  const Mesh& mesh = layout.mesh();
  const Shape local = layout.LocalShape(global);
  auto add = [&](Layout lie) {
    if (lie != layout && lie.LocalShape(global) == local) lies.push_back(std::move(lie));
  };
  const AxisSet used = layout.ShardedAxes().Union(layout.PartialAxes());
  for (int d = 0; d < layout.rank(); ++d) {
    const AxisList& axes = layout.dim(d);
    if (axes.size() > 1) add(layout.WithDim(d, AxisList(axes.rbegin(), axes.rend())));
    for (size_t i = 0; i < axes.size(); ++i) {
      for (int other = 0; other < mesh.num_axes(); ++other) {
        if (used.Contains(other) || mesh.axis(other).size != mesh.axis(axes[i]).size) continue;
        AxisList replaced = axes;
        replaced[i] = other;
        add(layout.WithDim(d, replaced));
      }
    }
    for (int e = d + 1; e < layout.rank(); ++e) {
      const AxisList a = layout.dim(d), b = layout.dim(e);
      if (a != b) add(layout.WithDim(d, {}).WithDim(e, a).WithDim(d, b));
    }
  }
  if (layout.is_partial()) add(layout.WithoutPartials());
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (used.Contains(axis) || layout.is_partial()) continue;
    add(layout.WithPartials({{axis, ReduceOp::kSum}}));
  }
  return lies;
}

}  // namespace meshwork
