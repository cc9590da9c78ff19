// How a letter of an op's rule is cut.
#pragma once

#include <vector>

#include "meshwork/ir/rule.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// The factors that cut a letter, as Layout::Factors(d, 1) gives them for a dim.
using Cut = FactorList;
using LetterCuts = std::vector<Cut>;  // per letter of a rule

const Cut& Whole();  // not cut
AxisSet AxesOf(const Cut& cut);
// The axes of more than one device, in the order of the mesh.
AxisList AxesThatCut(const Mesh& mesh);

// The axes that cut dim d, major to minor.
AxisList AxesOf(const Layout& layout, int d);

// Whether an exchange can bring the windows of the rule: a tensor exchanged along one dim is strided in no
// dim.
bool AreExchangeable(const Rule& rule, const LetterCuts& cuts);

// The reductions that the reduced letters leave owed.
PartialSet ReducedBy(const Rule& rule, const LetterCuts& cuts);

// The layout of a tensor with these letters; a dim without a letter is whole.
Layout LayoutOf(const Mesh& mesh, const LetterList& letters, const LetterCuts& cuts);

}  // namespace meshwork
