// Helpers for OpRow::stack: a KernelSpec whose operands and results have additional leading dims, along which
// the instances of coalesced devices lie.
//
//   add f32[16,700], f32[700], of 8 devices, which share the second operand
//   ->  add f32[8,16,700], f32[1,1,700] -> f32[8,16,700]
#pragma once

#include <optional>
#include <vector>

#include "meshwork/ir/kernel.h"

namespace meshwork {

bool IsReduced(const StackDims& dims);

// `spec` with `dims` in front; where an operand does not vary along a dim, the dim has size 1. In global
// shapes the leading dims have size 1, so that counts of global elements stay as before. Operands with fewer
// dims than `rank` get dims of size 1 in between. The attributes are those of `spec`.
KernelSpec Stacked(const KernelSpec& spec, const StackDims& dims, size_t rank = 0);

// OpRow::stack of rows whose operands broadcast.
std::optional<KernelSpec> StackBroadcast(const KernelSpec& spec, const StackDims& dims);

// The numbers that `dims` have after `leading` dims were put in front. with_leading: the leading dims come
// first, in order.
std::vector<int64_t> BehindLeading(const std::vector<int64_t>& dims, size_t leading, bool with_leading);

}  // namespace meshwork
