// The picture of the house (docs/architecture.md): folders, their rooms, and their includes, from the sources.
#pragma once

#include "meshwork/base/svg.h"

namespace meshwork::docs {

Svg DrawHouse();

}  // namespace meshwork::docs
