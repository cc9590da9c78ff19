// CopyStrided: elements that lie strided, as in a transposed or sliced array, into dense row-major memory.
//
//   // A [2,3] matrix of floats that lies column by column:
//   CopyStrided(columns, {2, 3}, /*strides=*/{1, 2}, sizeof(float), rows);
#pragma once

#include <cstdint>

#include "meshwork/layout/layout.h"

namespace meshwork {

// Copies element [i, j, …] from `from` + (i * strides[0] + j * strides[1] + …) * size to its place in the dense tensor
// `to` of `shape`. Strides are in elements and may be 0 or negative. `size`: bytes of an element. Neither side needs to
// be aligned; they do not overlap. Thread-safe on different `to`.
// REQUIRES: a stride per dim; size is 1, 2, 4 or 8.
void CopyStrided(const void* from, const Shape& shape, const Shape& strides, int64_t size, void* to);

}  // namespace meshwork
