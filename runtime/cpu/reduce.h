// Reductions of whole arrays, element by element: what collectives do besides moving data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "meshwork/ir/type.h"

namespace meshwork {

// to[i] = (…(a[i] op b[i]) op …) for i < count, over sources[k] + offset in order; offset in elements.
// Integers wrap; bool: sum and max are "or", min and prod are "and"; max and min of floats are NaN
// if any operand is NaN. Each element is computed by itself: cutting the array changes no bit. REQUIRES: `to`
// overlaps no source, except that to == sources[0] + offset is fine; at least one source.
void Reduce(ReduceOp op, DType dtype, std::byte* to, std::span<const std::byte* const> sources,
            int64_t offset, int64_t count);

}  // namespace meshwork
