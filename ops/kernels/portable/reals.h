// Functions of reals, by one name for f32 and f64. Exp, Expm1, Log, Log1p, Log1pOfUnit, Tanh, Erf and Erfc are those of
// vector_math.h, and CUDA's on a GPU. A portable source.
#pragma once

#include "meshwork/ops/kernels/portable/host.h"

namespace meshwork::portable {

MESHWORK_REAL(Exp2, exp2)
MESHWORK_REAL(Log2, log2)
MESHWORK_REAL(Log10, log10)
MESHWORK_REAL(Sqrt, sqrt)
MESHWORK_REAL(Cbrt, cbrt)
MESHWORK_REAL(Sin, sin)
MESHWORK_REAL(Cos, cos)
MESHWORK_REAL(Tan, tan)
MESHWORK_REAL(Asin, asin)
MESHWORK_REAL(Acos, acos)
MESHWORK_REAL(Atan, atan)
MESHWORK_REAL(Sinh, sinh)
MESHWORK_REAL(Cosh, cosh)
MESHWORK_REAL(Asinh, asinh)
MESHWORK_REAL(Acosh, acosh)
MESHWORK_REAL(Atanh, atanh)
MESHWORK_REAL(Floor, floor)
MESHWORK_REAL(Ceil, ceil)
MESHWORK_REAL(Nearest, nearbyint)  // halves to the even one
MESHWORK_REAL(NearestAway, round)  // halves away from 0
MESHWORK_REAL(Trunc, trunc)
MESHWORK_REAL(Fabs, fabs)
MESHWORK_REALS(Atan2, atan2)
MESHWORK_REALS(Hypot, hypot)
MESHWORK_REALS(CopySign, copysign)
MESHWORK_REALS(Fmod, fmod)
MESHWORK_REALS(Pow, pow)

}  // namespace meshwork::portable
