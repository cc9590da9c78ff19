// The sizes of attention, for its rows and their kernels.
#pragma once

#include <cstdint>

#include "meshwork/ir/attrs.h"
#include "meshwork/ir/type.h"

namespace meshwork {

// q: [b,s,h,g,d], k: [b,t,h,d], v: [b,t,h,e], of one device: g heads of queries share a head of keys. g is 1 for q: [b,s,h,d].
struct AttentionSizes {
  int64_t b, s, t, h, g, d, e;
  bool causal;    // query i sees keys 0 to i, counted in the whole sequence
  bool has_seen;  // the last operand holds how many keys each query sees
  double scale;
};

// The sizes for blocks of q, k and v.
AttentionSizes AttentionSizesOf(const Type& q, const Type& k, const Type& v, bool has_seen,
                                const Attrs& attrs);

}  // namespace meshwork
