// Which ops run on strided dims (layout/layout.h), and on blocks of a dim.
#pragma once

#include "meshwork/ir/row.h"
#include "meshwork/spmd/planner/cut.h"

namespace meshwork {

// Whether an op of this row computes each element along the letter in the same way, wherever the element
// lies, so that a device may hold any elements along it, not only one block.
inline bool MayBeStrided(const OpRow& row, const Letter& letter) {
  return !row.reads_block && !letter.whole && !letter.must_divide && !letter.windowed;
}

// Whether an op of this row can run with `cut` along the letter.
inline bool MayBeCut(const Mesh& mesh, const OpRow& row, const Letter& letter, const Cut& cut) {
  if (letter.whole) return false;
  if (cut.size() > 1) return MayBeStrided(row, letter);
  return !letter.must_divide || letter.size % mesh.GroupSize(cut[0].axes) == 0;
}

}  // namespace meshwork
