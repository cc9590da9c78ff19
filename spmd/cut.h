// How a letter of an op's rule is cut.
#pragma once

#include <vector>

#include "meshwork/ir/rule.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// As Layout::Factors(d, 1) says it of a dim.
using Cut = FactorList;
using LetterCuts = std::vector<Cut>;  // per letter of a rule

const Cut& Whole();  // by nothing
AxisSet AxesOf(const Cut& cut);

// What is exchanged along one dim lies plainly in all others.
bool AreExchangeable(const Rule& rule, const LetterCuts& cuts);

// What the reduced letters leave owed.
PartialSet ReducedBy(const Rule& rule, const LetterCuts& cuts);

// How a tensor of these letters lies; a dim without a letter is whole.
Layout LayoutOf(const Mesh& mesh, const LetterList& letters, const LetterCuts& cuts);

}  // namespace meshwork
