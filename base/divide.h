// Quotients of whole numbers, rounded.
#pragma once

#include <cstdint>

namespace meshwork {

// a/b rounded up, also of negative a. REQUIRES: b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace meshwork
