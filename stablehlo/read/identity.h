// The first values of reductions.
#pragma once

#include "meshwork/stablehlo/read/reader.h"

namespace meshwork::mlir {

// Whether a value is known to change nothing where it is combined: 0 of a sum, -∞ of a maximum.
bool IsIdentity(const Bound& bound, Combiner combiner);

}  // namespace meshwork::mlir
