#include "meshwork/ops/kernels/philox.h"

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "meshwork/ops/kernels/portable/philox.h"

#ifdef __FAST_MATH__
#error "philox.cc: random values must be bitwise the same everywhere; compile without -ffast-math."
#endif
static_assert(FLT_EVAL_METHOD == 0,
              "random values need float and double arithmetic without excess precision");

namespace meshwork {

using portable::PhiloxAt;

template <typename T>
void FillUniform(uint64_t seed, uint64_t stream, uint64_t first_index, T low, T high, std::span<T> out) {
  const T range = high - low, last = std::nextafter(high, low);
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = portable::UniformWithin(PhiloxAt(seed, stream, first_index + j), low, range, last);
}
template void FillUniform(uint64_t, uint64_t, uint64_t, float, float, std::span<float>);
template void FillUniform(uint64_t, uint64_t, uint64_t, double, double, std::span<double>);

template <typename T>
void FillNormal(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev, std::span<T> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = mean + stddev * static_cast<T>(portable::NormalOf(PhiloxAt(seed, stream, first_index + j)));
}
template void FillNormal(uint64_t, uint64_t, uint64_t, float, float, std::span<float>);
template void FillNormal(uint64_t, uint64_t, uint64_t, double, double, std::span<double>);

template <typename T>
void FillTruncatedNormal(uint64_t seed, uint64_t stream, uint64_t first_index, T mean, T stddev,
                         std::span<T> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] =
        mean + stddev * static_cast<T>(portable::TruncatedNormalOf(PhiloxAt(seed, stream, first_index + j)));
}
template void FillTruncatedNormal(uint64_t, uint64_t, uint64_t, float, float, std::span<float>);
template void FillTruncatedNormal(uint64_t, uint64_t, uint64_t, double, double, std::span<double>);

void FillBernoulli(uint64_t seed, uint64_t stream, uint64_t first_index, double p, std::span<uint8_t> out) {
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = portable::UniformOf(PhiloxAt(seed, stream, first_index + j), double{}) < p ? 1 : 0;
}

void FillInt(uint64_t seed, uint64_t stream, uint64_t first_index, int64_t low, int64_t high,
             std::span<int64_t> out) {
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  for (size_t j = 0; j < out.size(); ++j)
    out[j] = portable::WholeOf(PhiloxAt(seed, stream, first_index + j), low, range);
}

}  // namespace meshwork
