// Initial values of variables. Random values are keyed by (seed, variable name, global element index):
// bitwise the same on every mesh and in every layout.
#pragma once

#include "meshwork/ir/graph.h"

namespace meshwork {

Initializer Zeros(const Shape& shape, DType dtype = F32);
Initializer Filled(double value, const Shape& shape, DType dtype = F32);
Initializer UniformRandom(const Shape& shape, double low, double high, DType dtype = F32);
Initializer NormalRandom(const Shape& shape, double mean, double stddev, DType dtype = F32);

// shape: [.., fan_in, fan_out]. Uniform in ±sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010).
Initializer GlorotUniform(const Shape& shape, DType dtype = F32);
// shape: [.., fan_in, fan_out]. Normal with variance 2 / fan_in (He et al., arXiv 1502.01852).
Initializer HeNormal(const Shape& shape, DType dtype = F32);

}  // namespace meshwork
