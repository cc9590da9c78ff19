// The identity of a reduction: the value that changes nothing. It stands in padding, and on devices that have
// no part of a result.
#pragma once

#include <limits>

#include "meshwork/ir/kernel.h"
#include "meshwork/layout/layout.h"

namespace meshwork {

// The identity of `op` for elements of type T. Law: Reduce(op) of the identity and x is x, bit by bit except
// for NaNs. For sums of reals it is -0, because 0 + -0 would turn -0 into 0.
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
