// Fills the blocks of variables from files.
//
//   FillBlocks({{.to = w, .read = [&](const Block& box) { return checkpoint.Read("w", box); }}})
//
// Of a variable, the boxes that this domain's devices hold are read, each once: a box that several devices hold is copied
// to all of them. Large boxes are read in pieces, by all cores together, so the host needs memory for a few pieces only.
//
// Thread safety: one call at a time for a variable.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/layout/layout.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// dims[d] of `block` is dim d of the result. REQUIRES: `dims` has each dim of the block once.
Block Permuted(const Block& block, const std::vector<int64_t>& dims);
// Law: Permuted(Permuted(block, dims), Inverse(dims)) == block.
std::vector<int64_t> Inverse(const std::vector<int64_t>& dims);

struct BlocksToFill {
  DTensor to;
  // The elements of a box of the variable, of its dtype. Several threads call it at once.
  std::function<absl::StatusOr<Tensor>(const Block& box)> read;
  // The dims of the variable in the order of the file, major to minor. Large boxes are cut so that the bytes of a piece
  // lie together there. Empty: the file has the variable's own order.
  std::vector<int64_t> order = {};
};

// Errors: those of `read`, the first in the order of the variables and their boxes; an error of the memory. Some
// variables are then filled, and some are as before. Throws what `read` throws.
absl::Status FillBlocks(const std::vector<BlocksToFill>& variables);

}  // namespace meshwork
