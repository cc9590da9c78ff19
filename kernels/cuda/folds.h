// Reductions, as expressions that fold elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/kernel.h"
#include "meshwork/ir/row.h"

namespace meshwork::cuda {

// How values of one type are folded.
struct Fold {
  std::string type;      // of what is folded
  std::string identity;  // an expression
  std::string combined;  // of a and b
  std::string element;   // of `at`, the element's place in a0, and `j`, its number among those folded
  std::string result;    // of `all`, to be stored
};

// Of the reductions to sums, means, products, the largest and smallest, all and any; nullopt for other rows.
std::optional<Fold> FoldOf(const OpRow& row, const KernelSpec& spec);
// Per dim of the operand of such a row.
std::vector<bool> ReducedDims(const KernelSpec& spec);

}  // namespace meshwork::cuda
