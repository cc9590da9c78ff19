// Mutants of the results of a program: outputs and updates of other values, reads on the wrong side of an
// update.
#pragma once

#include "mutation/mutant_writer.h"

namespace meshwork {

// All of them. `writer` stands at any node afterwards.
void OtherResults(MutantWriter& writer);

}  // namespace meshwork
