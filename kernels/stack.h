// What OpRow::stack is written with: a KernelSpec whose operands and results have the dims along which the
// instances of coalesced devices lie in front of their own.
//
//   add f32[16,700], f32[700], of 8 devices, which share the second operand
//   ->  add f32[8,16,700], f32[1,1,700] -> f32[8,16,700]
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/kernel.h"

namespace meshwork {

bool IsReduced(const StackDims& dims);

// `spec` with the dims in front: of an operand that does not vary along one, of size 1. The global dims in
// front are of size 1, so that what counts global elements counts as before. Operands of fewer dims than
// `rank` get dims of size 1 between. The attributes are those of `spec`.
KernelSpec Stacked(const KernelSpec& spec, const StackDims& dims, size_t rank = 0);

// OpRow::stack of rows whose operands broadcast.
std::optional<KernelSpec> StackBroadcast(const KernelSpec& spec, const StackDims& dims);

// Dims that were counted before so many others were put in front; with_leading: those come first, in order.
std::vector<int64_t> BehindLeading(const std::vector<int64_t>& dims, size_t leading, bool with_leading);

}  // namespace meshwork
