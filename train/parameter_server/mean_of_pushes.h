// The mean of several pushes of the same values. Only this room uses it. Pure function; thread-safe.
#pragma once

#include <vector>

#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

// The mean of each piece: real numbers are added in double, in the order given, and divided by the number of pushes;
// bools are joined by "and". If pushes have only some rows of a piece, the mean has the rows that any of them has.
// REQUIRES: one push or more, of the same pieces, each once, of real numbers and bools; a piece with given rows is
// real, and has dims.
std::vector<PieceGradient> MeanOfPushes(const std::vector<const PushRequest*>& pushes);

}  // namespace meshwork
