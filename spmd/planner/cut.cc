#include "meshwork/spmd/planner/cut.h"

namespace meshwork {

const Cut& Whole() {
  static const auto* whole = new Cut{{1, {}}};
  return *whole;
}

AxisSet AxesOf(const Cut& cut) {
  AxisSet axes;
  for (const Factor& factor : cut) axes = axes.Union(AxisSet(factor.axes));
  return axes;
}

AxisList AxesOf(const Layout& layout, int d) {
  if (!layout.IsStrided(d)) return layout.dim(d);
  AxisList axes;
  for (const Factor& factor : layout.Factors(d, 0))
    axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
  return axes;
}

bool AreExchangeable(const Rule& rule, const LetterCuts& cuts) {
  bool is_exchanged = false, is_strided = false;
  for (size_t l = 0; l < cuts.size(); ++l) {
    is_exchanged |= rule.letters[l].windowed && !AxesOf(cuts[l]).empty();
    is_strided |= cuts[l].size() > 1;
  }
  return !is_exchanged || !is_strided;
}

AxisList AxesThatCut(const Mesh& mesh) {
  AxisList axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis)
    if (mesh.axis(axis).size > 1) axes.push_back(axis);
  return axes;
}

PartialSet ReducedBy(const Rule& rule, const LetterCuts& cuts) {
  PartialSet partials;
  for (size_t l = 0; l < rule.letters.size(); ++l)
    if (rule.letters[l].reduced)
      for (int axis : AxesOf(cuts[l]).ToList()) partials.push_back({axis, rule.reduce});
  return partials;
}

Layout LayoutOf(const Mesh& mesh, const LetterList& letters, const LetterCuts& cuts) {
  std::vector<FactorList> dims;
  for (int letter : letters) dims.push_back(letter == kNoLetter ? Whole() : cuts[letter]);
  return Layout::Strided(mesh, dims);
}

}  // namespace meshwork
