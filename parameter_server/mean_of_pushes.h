// The mean of several pushes of the same values. Only this room uses it. Pure function; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwork/parameter_server/store.h"

namespace meshwork {

// By PieceRows::piece. Real numbers are added in double, in the order given, and divided by how many there are; bools are
// joined by "and". REQUIRES: one push or more, of the same pieces, whole, of real numbers and bools.
std::map<std::string, Tensor> MeanOfPushes(const std::vector<const PushRequest*>& pushes);

}  // namespace meshwork
