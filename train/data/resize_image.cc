// ResizeImage.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/train/data/decode_image.h"

namespace meshwork {
namespace {

// The pixels begin, begin + 1, … of a row or a column that a pixel of the result is made of.
struct PixelWeights {
  int64_t begin = 0;
  std::vector<float> weights;  // their sum is 1
};

// A pixel's weight falls from 1 at the center to 0 at a distance of one pixel of the image; with `antialias`, of one
// pixel of the result if that is larger.
std::vector<PixelWeights> WeightsOf(int64_t from, int64_t to, bool antialias) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = antialias ? std::max(scale, 1.0) : 1.0;
  std::vector<PixelWeights> result(static_cast<size_t>(to));
  for (size_t i = 0; i < result.size(); ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<int64_t>(0, static_cast<int64_t>(std::floor(center - reach)));
    const auto end = std::min(from, static_cast<int64_t>(std::ceil(center + reach)));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - center) / reach));
      sum += weights.back();
    }
    result[i].begin = begin;
    for (double weight : weights) result[i].weights.push_back(static_cast<float>(weight / sum));
  }
  return result;
}

// row = the weighted sum of rows of `image`, whose rows have row.size() levels.
void MixRows(const uint8_t* image, const PixelWeights& rows, std::vector<float>& row) {
  std::fill(row.begin(), row.end(), 0.0f);
  const uint8_t* from = image + static_cast<size_t>(rows.begin) * row.size();
  for (float weight : rows.weights) {
    if (weight != 0)
      for (size_t i = 0; i < row.size(); ++i) row[i] += weight * static_cast<float>(from[i]);
    from += row.size();
  }
}

// One pixel for each of `columns`.
void MixColumns(const std::vector<float>& row, const std::vector<PixelWeights>& columns, size_t channels,
                uint8_t* to) {
  for (const PixelWeights& column : columns)
    for (size_t c = 0; c < channels; ++c) {
      const float* from = row.data() + static_cast<size_t>(column.begin) * channels + c;
      float sum = 0;
      for (float weight : column.weights) {
        sum += weight * *from;
        from += channels;
      }
      *to++ = static_cast<uint8_t>(std::lround(std::min(sum, 255.0f)));
    }
}

}  // namespace

absl::StatusOr<Tensor> ResizeImage(const Tensor& image, ImageSize size, const ResizeImageOptions& options) {
  MESHWORK_RETURN_IF_ERROR(image.status());
  const Shape& shape = image.shape();
  if (image.dtype() != U8 || shape.size() != 3 || image.num_elements() == 0 || size.height < 1 ||
      size.width < 1)
    return InvalidArgument(
        "ResizeImage: got {} and a size of {} x {}; an image is u8[height,width,channels] of at least one "
        "pixel, before and after.",
        image.type().ToString(), size.height, size.width);
  if (shape[0] == size.height && shape[1] == size.width) return image;
  Tensor result(Type{U8, {size.height, size.width, shape[2]}});
  MESHWORK_RETURN_IF_ERROR(result.status());
  const std::vector<PixelWeights> rows = WeightsOf(shape[0], size.height, options.antialias);
  const std::vector<PixelWeights> columns = WeightsOf(shape[1], size.width, options.antialias);
  const auto channels = static_cast<size_t>(shape[2]);
  std::vector<float> row(static_cast<size_t>(shape[1]) * channels);
  uint8_t* to = result.mutable_values<uint8_t>().data();
  for (const PixelWeights& mix : rows) {
    MixRows(image.values<uint8_t>().data(), mix, row);
    MixColumns(row, columns, channels, to);
    to += columns.size() * channels;
  }
  return result;
}

}  // namespace meshwork
