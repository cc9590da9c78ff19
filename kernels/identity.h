// What changes nothing where a reduction meets it: what stands in padding, and on devices that have no part
// of a result.
#pragma once

#include <limits>

#include "meshwork/ir/kernel.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// The identity of `op` among elements of dtype T. Law: Reduce(op) of it and x is x, bit by bit but for NaNs.
// That of a sum of reals is -0, for -0 + 0 is 0.
template <typename T>
T IdentityOf(ReduceOp op) {
  using Limits = std::numeric_limits<Compute<T>>;
  switch (op) {
    case ReduceOp::kSum:
      if constexpr (kIsReal<T>) return T(-Compute<T>(0));
      break;
    case ReduceOp::kOr: break;
    case ReduceOp::kProd:
    case ReduceOp::kAnd: return T(1);
    case ReduceOp::kMax: return T(kIsReal<T> ? -Limits::infinity() : Limits::min());
    case ReduceOp::kMin: return T(kIsReal<T> ? Limits::infinity() : Limits::max());
  }
  return T(0);
}

}  // namespace meshwork
