// Reductions, as expressions that fold elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"
#include "meshwork/ops/kernels/cuda/text.h"

namespace meshwork::cuda {

// The fold of values of one type, as expressions.
struct Fold {
  std::string type;      // of what is folded
  std::string identity;  // an expression
  std::string combined;  // of a and b
  std::string element;   // of `at`, the element's place in a0, and `j`, its number among those folded
  std::string result;    // of `all`, to be stored
  std::optional<DType> dtype = {};  // `type` as a dtype, if it is one
};

// For the reductions to sums, means, products, the largest, the smallest, all and any; nullopt for other rows.
std::optional<Fold> FoldOf(const OpRow& row, const KernelSpec& spec);
// The number of parts into which the elements of each result are split; the parts are then folded in turn. More than
// one if there are few results of many elements. `is_run`: the elements of a result are contiguous in memory; otherwise
// neighbouring results are.
int64_t SplitsOf(int64_t results, int64_t elements, bool is_run);
// Per dim of the operand of such a row: whether it is reduced.
std::vector<bool> ReducedDims(const KernelSpec& spec);
// The dims of a dense tensor that are reduced, or those that are kept, and how many elements they have.
Walk WalkAlong(const Shape& shape, const std::vector<bool>& reduces, bool which);
int64_t SizeOf(const Walk& walk);

}  // namespace meshwork::cuda
