// Dropout, and normalization of activations. Part of ops/ops.h, which says what holds for all ops.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "meshwork/ir/dim_list.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/operand.h"

namespace meshwork {

// Norms of bf16, with their statistics and scales, are computed in f32 and rounded once. Scales, offsets and statistics
// may then be f32; the statistics that BatchNorm returns are f32.

// Real x; each element becomes 0 with probability `rate`, else x / (1 - rate). The mask is a random_bernoulli
// of x's shape: bitwise the same in every layout, new at every step if `step` is given; see RandomUniform.
// Give every dropout of a program a stream of its own. Along `whole_dims` (negative ones count from the end) all
// elements become 0, or none: with {1, 2} of [b,t,d] an example is dropped as a whole. Keras' noise_shape has size 1
// there. Errors: rate is not in [0, 1); no such dim.
Value StatelessDropout(const Operand& x, double rate, int64_t seed, int64_t stream, const Value& step = {},
                       const DimList& whole_dims = {});
// (x - mean) / sqrt(variance + epsilon) over `dims`: the mean first, then the mean of the squared deviations
// (mean(x²) - mean² would cancel). Sharded along `dims`: two all-reduces of one element per row, and two
// for the gradient, one after the other. epsilon = 0 makes constant rows NaN. Errors: as ReduceMean's;
// epsilon negative or not finite.
Value Standardize(const Operand& x, const DimList& dims, double epsilon);
// x: [..,c..], scale, offset: [c..], any number of dims -> Standardize(x, last dims) · scale + offset (Ba et
// al., arXiv 1607.06450, section 3.1).
Value LayerNorm(const Operand& x, const Operand& scale, const Operand& offset, double epsilon = 1e-5);
// x: [..,c..], scale: [c..] -> x / sqrt(mean(x²) + epsilon) · scale (Zhang and Sennrich, arXiv 1910.07467).
Value RmsNorm(const Operand& x, const Operand& scale, double epsilon = 1e-5);

// x: [..,c], scale, offset: [c] -> Standardize(x, all dims but the last) · scale + offset, over the examples
// of all devices; and the mean and (biased) variance of these, [c], for running statistics (Ioffe and
// Szegedy, arXiv 1502.03167).
struct BatchNormResult {
  Value y, mean, variance;
};
BatchNormResult BatchNorm(const Operand& x, const Operand& scale, const Operand& offset,
                          double epsilon = 1e-5);
// The same with given statistics: (x - mean) / sqrt(variance + epsilon) · scale + offset.
Value BatchNormInference(const Operand& x, const Operand& scale, const Operand& offset, const Operand& mean,
                         const Operand& variance, double epsilon = 1e-5);
// decay · average + (1 - decay) · value: the new value of a running statistic. No gradient flows into it.
Value MovingAverage(const Operand& average, const Operand& value, double decay = 0.99);
// x: [n, spatial…, c], scale, offset: [c] -> standardized over the spatial dims and each of `groups` runs of
// channels, · scale + offset (Wu and He, arXiv 1803.08494). Errors: groups that do not divide c.
Value GroupNorm(const Operand& x, const Operand& scale, const Operand& offset, int64_t groups,
                double epsilon = 1e-5);

// sqrt of the sum of the squares of all elements of all tensors: a scalar, f64 if a tensor is f64, else f32.
// Its gradient at 0 is NaN. Errors: a tensor that is not of floats. Without tensors the result is invalid.
Value GlobalNorm(std::span<const Value> tensors, CallSite loc = CallSite::Current());
// Every gradient times clip_norm / max(norm, clip_norm), with norm = GlobalNorm(gradients) (Pascanu et al.,
// arXiv 1211.5063, section 3.2). A norm of 0 changes nothing. If the norm is infinite (as when the squares
// overflow) or NaN, all results are NaN, as in TensorFlow, so that the failure shows.
// Errors: GlobalNorm's; clip_norm not finite or not above 0.
std::vector<Value> ClipByGlobalNorm(std::span<const Value> gradients, double clip_norm,
                                    CallSite loc = CallSite::Current());

}  // namespace meshwork
