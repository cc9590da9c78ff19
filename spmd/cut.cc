#include "spmd/cut.h"

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

Layout LayoutOf(const Mesh& mesh, const LetterList& letters, const LetterCuts& cuts) {
  std::vector<FactorList> dims;
  for (int8_t letter : letters) dims.push_back(letter == kNoLetter ? Whole() : cuts[letter]);
  return Layout::Strided(mesh, dims);
}

}  // namespace meshwork
