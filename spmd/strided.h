// Which ops run on strided dims (layout/layout.h).
#pragma once

#include "ops/row.h"

namespace meshwork {

// Whether an op of this row computes each element along the letter alike, wherever it lies, so that a device
// may hold any elements of it, and not one block.
inline bool MayBeStrided(const OpRow& row, const Letter& letter) {
  return !row.reads_block && !letter.whole && !letter.must_divide;
}

}  // namespace meshwork
