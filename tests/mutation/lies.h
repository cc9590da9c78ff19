// Layouts that a value could be said to have, and has not.
#pragma once

#include <vector>

#include "meshwork/layout/layout.h"

namespace meshwork {

// Those that cut blocks of the same shape, and are others: axes in another order, on another dim, another
// axis, a reduction owed that is not or not owed that is. `global` is the shape of the whole.
std::vector<Layout> Lies(const Layout& layout, const Shape& global);

}  // namespace meshwork
