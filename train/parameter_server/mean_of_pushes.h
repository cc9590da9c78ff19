// The mean of several pushes of the same values. Only this room uses it. Pure function; thread-safe.
#pragma once

#include <vector>

#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

// Of each piece: real numbers are added in double, in the order given, and divided by how many pushes there are; bools are
// joined by "and". Where pushes have some rows, the mean has those that any of them has. REQUIRES: one push or more, of the
// same pieces, each once, of real numbers and bools; rows with numbers are real, and of a piece with dims.
std::vector<PieceGradient> MeanOfPushes(const std::vector<const PushRequest*>& pushes);

}  // namespace meshwork
