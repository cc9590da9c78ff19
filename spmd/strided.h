// Which ops run on strided dims (layout/layout.h), and on blocks of a dim.
#pragma once

#include "meshwork/ir/row.h"
#include "meshwork/spmd/cut.h"

namespace meshwork {

// Whether an op of this row computes each element along the letter alike, wherever it lies, so that a device
// may hold any elements of it, and not one block.
inline bool MayBeStrided(const OpRow& row, const Letter& letter) {
  return !row.reads_block && !letter.whole && !letter.must_divide && !letter.windowed;
}

// Whether an op of this row can be cut so along the letter.
inline bool MayBeCut(const Mesh& mesh, const OpRow& row, const Letter& letter, const Cut& cut) {
  if (letter.whole) return false;
  if (cut.size() > 1) return MayBeStrided(row, letter);
  return !letter.must_divide || letter.size % mesh.GroupSize(cut[0].axes) == 0;
}

}  // namespace meshwork
