// The picture of the house (docs/architecture.md): its folders, their rooms, and what includes what, as the sources have it.
#pragma once

#include "meshwork/base/svg.h"

namespace meshwork::docs {

Svg DrawHouse();

}  // namespace meshwork::docs
