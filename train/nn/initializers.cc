#include "meshwork/train/nn/initializers.h"

#include <algorithm>
#include <cmath>

#include "meshwork/ops/ops.h"

namespace meshwork {
namespace {

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

Initializer TruncatedNormalRandom(const Shape& shape, double mean, double stddev, DType dtype) {
  return {{dtype, shape}, [mean, stddev](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            return RandomTruncatedNormal(graph, type, seed, stream, mean, stddev);
          }};
}

Fans FansOfFilter(const Shape& filter, int64_t groups) {
  Fans fans = FansOf(filter);
  for (size_t d = 0; d + 2 < filter.size(); ++d) {
    fans.in *= static_cast<double>(filter[d]);
    fans.out *= static_cast<double>(filter[d]);
  }
  fans.out /= static_cast<double>(std::max<int64_t>(groups, 1));
  return fans;
}

namespace {

// Numbers with mean 0 and variance scale / fan.
Initializer UniformOf(const Shape& shape, double scale, double fan, DType dtype) {
  const double limit = std::sqrt(3 * scale / std::max(fan, 1.0));
  return UniformRandom(shape, -limit, limit, dtype);
}
Initializer NormalOf(const Shape& shape, double scale, double fan, DType dtype) {
  return NormalRandom(shape, 0, std::sqrt(scale / std::max(fan, 1.0)), dtype);
}

double InOf(const Shape& shape, const std::optional<Fans>& fans) { return fans.value_or(FansOf(shape)).in; }
double SumOf(const Shape& shape, const std::optional<Fans>& given) {
  const Fans fans = given.value_or(FansOf(shape));
  return fans.in + fans.out;
}

}  // namespace

Initializer GlorotUniform(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return UniformOf(shape, 2, SumOf(shape, fans), dtype);
}
Initializer GlorotNormal(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return NormalOf(shape, 2, SumOf(shape, fans), dtype);
}
Initializer HeUniform(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return UniformOf(shape, 2, InOf(shape, fans), dtype);
}
Initializer HeNormal(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return NormalOf(shape, 2, InOf(shape, fans), dtype);
}
Initializer LecunUniform(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return UniformOf(shape, 1, InOf(shape, fans), dtype);
}
Initializer LecunNormal(const Shape& shape, DType dtype, std::optional<Fans> fans) {
  return NormalOf(shape, 1, InOf(shape, fans), dtype);
}

Initializer Orthogonal(const Shape& shape, double gain, DType dtype) {
  return {{dtype, shape}, [gain](Graph& graph, const Type& type, int64_t seed, int64_t stream) {
            const int64_t columns = type.rank() == 0 ? 1 : type.shape.back();
            const int64_t rows = columns == 0 ? 0 : type.num_elements() / columns;
            const bool is_wide = columns > rows;
            const Shape tall = {std::max(rows, columns), std::min(rows, columns)};
            const DType exact = type.dtype == F64 ? F64 : F32;  // QR takes no bf16
            const QrResult qr = Qr(RandomNormal(graph, {exact, tall}, seed, stream, 0, 1));
            // LAPACK chooses the signs. With those of r's diagonal, all orthogonal matrices are equally likely
            // (Mezzadri, Notices of the AMS 54, 2007).
            const Value signs = Sign(Einsum("ii->i", {qr.r}));
            const Value q = Mul(Mul(qr.q, signs), gain);
            return InDType(Reshape(is_wide ? Transpose(q, {1, 0}) : q, type.shape), type.dtype);
          }};
}

LayerInitializer Zeros() { return Filled(0); }
LayerInitializer Filled(double value) {
  return [value](const Shape& shape, DType dtype) { return Filled(value, shape, dtype); };
}
LayerInitializer UniformRandom(double low, double high) {
  return [low, high](const Shape& shape, DType dtype) { return UniformRandom(shape, low, high, dtype); };
}
LayerInitializer NormalRandom(double mean, double stddev) {
  return [mean, stddev](const Shape& shape, DType dtype) { return NormalRandom(shape, mean, stddev, dtype); };
}
LayerInitializer TruncatedNormalRandom(double mean, double stddev) {
  return [mean, stddev](const Shape& shape, DType dtype) {
    return TruncatedNormalRandom(shape, mean, stddev, dtype);
  };
}

namespace {

using OfFans = Initializer (*)(const Shape& shape, DType dtype, std::optional<Fans> fans);

}  // namespace

LayerInitializer GlorotUniform() { return static_cast<OfFans>(GlorotUniform); }
LayerInitializer GlorotNormal() { return static_cast<OfFans>(GlorotNormal); }
LayerInitializer HeUniform() { return static_cast<OfFans>(HeUniform); }
LayerInitializer HeNormal() { return static_cast<OfFans>(HeNormal); }
LayerInitializer LecunUniform() { return static_cast<OfFans>(LecunUniform); }
LayerInitializer LecunNormal() { return static_cast<OfFans>(LecunNormal); }

LayerInitializer Orthogonal() {
  return [](const Shape& shape, DType dtype) { return Orthogonal(shape, 1, dtype); };
}

}  // namespace meshwork
