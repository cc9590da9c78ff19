// Initial values of variables. Random values are keyed by (seed, variable name, global element index):
// bitwise the same on every mesh and in every layout.
//
//   Variable w = g.Var("w", HeNormal({64, 128}));                       // of a shape
//   Dense dense(g, "dense", 128, {.kernel_initializer = HeNormal()});   // of the shape that the layer knows
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "meshwork/ir/graph.h"

namespace meshwork {

Initializer Zeros(const Shape& shape, DType dtype = F32);
Initializer Filled(double value, const Shape& shape, DType dtype = F32);
Initializer UniformRandom(const Shape& shape, double low, double high, DType dtype = F32);
Initializer NormalRandom(const Shape& shape, double mean, double stddev, DType dtype = F32);

// Normal, but never further than 2 stddev from the mean.
Initializer TruncatedNormalRandom(const Shape& shape, double mean, double stddev, DType dtype = F32);

// The number of inputs that an output is a sum of, and of outputs that an input goes into.
struct Fans {
  double in = 1, out = 1;
};
// The fans of a filter [spatial…, inputs / groups, filters] (ops/convolution.h): each position of the filter counts.
Fans FansOfFilter(const Shape& filter, int64_t groups = 1);

// Without `fans`, shape is [.., fan_in, fan_out]: the dims before are a stack of such matrices. Both fans of a vector
// are its size. Filters need theirs:
//
//   HeNormal({3, 3, 64, 128}, F32, FansOfFilter({3, 3, 64, 128}))

// Glorot and Bengio, AISTATS 2010: uniform in ±sqrt(6 / (in + out)); normal with variance 2 / (in + out).
Initializer GlorotUniform(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});
Initializer GlorotNormal(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});
// He et al., arXiv 1502.01852: uniform in ±sqrt(6 / in); normal with variance 2 / in.
Initializer HeUniform(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});
Initializer HeNormal(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});
// LeCun et al., Efficient BackProp, 1998, section 4.6: uniform in ±sqrt(3 / in); normal with variance 1 / in.
Initializer LecunUniform(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});
Initializer LecunNormal(const Shape& shape, DType dtype = F32, std::optional<Fans> fans = {});

// shape: [a.., b], taken as a matrix [a · .., b]: its columns are orthogonal and of length `gain`; if it has more
// columns than rows, its rows are (Saxe et al., arXiv 1312.6120). Every device makes the whole matrix, by QR. A vector
// is one row.
Initializer Orthogonal(const Shape& shape, double gain = 1, DType dtype = F32);

// The initial value of a layer's variable, as an option of the layer. The layer knows the shape, the dtype and the
// fans. It is one of the functions below, or a function of the user's,
//
//   {.kernel_initializer = [](const Shape& shape, DType dtype) { return Orthogonal(shape, /*gain=*/2, dtype); }}
//
// or an Initializer, which must then have the variable's type.
class LayerInitializer {
 public:
  LayerInitializer(Initializer initializer)  // NOLINT(google-explicit-constructor)
      : make_([initializer = std::move(initializer)](const Shape&, DType, const std::optional<Fans>&) {
          return initializer;
        }),
        has_type_(true) {}
  template <std::invocable<const Shape&, DType> Function>
  LayerInitializer(Function function)  // NOLINT(google-explicit-constructor)
      : make_([function = std::move(function)](const Shape& shape, DType dtype, const std::optional<Fans>&) {
          return function(shape, dtype);
        }) {}
  template <std::invocable<const Shape&, DType, std::optional<Fans>> Function>
  LayerInitializer(Function function)  // NOLINT(google-explicit-constructor)
      : make_(std::move(function)) {}

  // `fans`: of a filter; nothing: those of the last two dims.
  Initializer For(const Shape& shape, DType dtype, const std::optional<Fans>& fans = {}) const {
    return make_(shape, dtype, fans);
  }
  // Whether it is an Initializer, and so has that one's type.
  bool has_type() const { return has_type_; }

 private:
  std::function<Initializer(const Shape& shape, DType dtype, const std::optional<Fans>& fans)> make_;
  bool has_type_ = false;
};

// The initializers above, for layers.
LayerInitializer Zeros();
LayerInitializer Filled(double value);
LayerInitializer UniformRandom(double low, double high);
LayerInitializer NormalRandom(double mean, double stddev);
LayerInitializer TruncatedNormalRandom(double mean, double stddev);
LayerInitializer GlorotUniform();
LayerInitializer GlorotNormal();
LayerInitializer HeUniform();
LayerInitializer HeNormal();
LayerInitializer LecunUniform();
LayerInitializer LecunNormal();
LayerInitializer Orthogonal();

}  // namespace meshwork
