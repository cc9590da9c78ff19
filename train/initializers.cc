#include "meshwork/train/initializers.h"

#include <cmath>

#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

struct Fans {
  double in = 1, out = 1;
};

// The last two dims; a vector's size counts for both.
Fans FansOf(const Shape& shape) {
  if (shape.empty()) return {};
  const auto out = static_cast<double>(shape.back());
  return {shape.size() > 1 ? static_cast<double>(shape[shape.size() - 2]) : out, out};
}

}  // namespace

Initializer Filled(double value, const Shape& shape, DType dtype) {
  return {{dtype, shape},
          [value](Graph& graph, const Type& type, int64_t, int64_t) { return Constant(graph, value, type); }};
}

Initializer Zeros(const Shape& shape, DType dtype) { return Filled(0, shape, dtype); }

Initializer UniformRandom(const Shape& shape, double low, double high, DType dtype) {
  return {{dtype, shape}, [low, high](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            return RandomUniform(graph, type, seed, stream, low, high);
          }};
}

Initializer NormalRandom(const Shape& shape, double mean, double stddev, DType dtype) {
  return {{dtype, shape}, [mean, stddev](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            return RandomNormal(graph, type, seed, stream, mean, stddev);
          }};
}

Initializer GlorotUniform(const Shape& shape, DType dtype) {
  const Fans fans = FansOf(shape);
  const double limit = std::sqrt(6 / std::max(fans.in + fans.out, 1.0));
  return UniformRandom(shape, -limit, limit, dtype);
}

Initializer HeNormal(const Shape& shape, DType dtype) {
  return NormalRandom(shape, 0, std::sqrt(2 / std::max(FansOf(shape).in, 1.0)), dtype);
}

}  // namespace meshwork
