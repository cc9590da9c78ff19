// The picture of the search for layouts (docs/partitioner.md).
#pragma once

#include "meshwork/base/svg.h"

namespace meshwork::docs {

Svg DrawSearch();

}  // namespace meshwork::docs
