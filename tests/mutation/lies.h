// Wrong layouts that a value could be claimed to have.
#pragma once

#include <vector>

#include "meshwork/layout/layout.h"

namespace meshwork {

// Other layouts with blocks of the same shape: axes in another order, on another dim, another axis, a pending
// reduction that is added or removed. `global` is the shape of the whole.
std::vector<Layout> Lies(const Layout& layout, const Shape& global);

}  // namespace meshwork
