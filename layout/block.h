// Blocks: boxes of a tensor's elements, an extent per dim.
//
//   Intersect({{0, 4}, {2, 6}}, {{3, 5}, {0, 4}})   // {{3, 1}, {2, 2}}
//   CutInto({{0, 7}, {0, 3}}, 2)                    // {{0, 3}, {0, 3}} and {{3, 4}, {0, 3}}
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/layout/layout.h"

namespace meshwork {

// The elements that two blocks have in common; if there are none, some extent has size 0.
Block Intersect(const Block& a, const Block& b);
int64_t NumElements(const Block& block);
Shape SizesOf(const Block& block);  // of its extents
// The block that is the whole tensor.
Block WholeBlock(const Shape& global);
std::string BlockToString(const Block& block);  // "[0:4,8:12]", ends excluded

// Cuts a block along the first dim that has at least `parts` rows, else along its longest dim, as evenly as whole rows
// allow. Law: `parts` blocks, which have each element of `block` once; some are empty if it is too short.
// REQUIRES: the block has dims; parts >= 1.
std::vector<Block> CutInto(const Block& block, int64_t parts);

// Cuts a block that has more than `most` elements into blocks that have at most so many: into rows of its first dim,
// and rows of the next dims where a row has more. Laws: the blocks have each element of `block` once, in order, and
// none is empty. REQUIRES: most >= 1.
std::vector<Block> CutToFit(const Block& block, int64_t most);

}  // namespace meshwork
