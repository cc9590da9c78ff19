// Portable sources: headers that the host's compiler includes and that kernels for GPUs contain as text (narrow_bits.h,
// ops/kernels/portable). So they name no type or function of a library; what they call, each side defines by one name.
// Their functions are marked by these macros, which the text defines as __device__.
#pragma once

#include <bit>

#define MESHWORK_PORTABLE inline
#define MESHWORK_PORTABLE_CONSTEXPR constexpr

namespace meshwork::portable {

constexpr unsigned LeadingZeros(unsigned x) { return static_cast<unsigned>(std::countl_zero(x)); }

}  // namespace meshwork::portable
