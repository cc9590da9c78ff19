// Tensors as images: PNG files, and many small images as one.
//
//   Tensor digits = …;                                                       // f32[32,28,28]
//   MESHWORK_ASSIGN_OR_RETURN(Tensor grid, ImageGrid(digits, /*columns=*/8));   // f32[112,224]
//   MESHWORK_ASSIGN_OR_RETURN(std::vector<Image> images, ImagesOf(grid));
//   MESHWORK_RETURN_IF_ERROR(WriteFileAtomically("digits.png", EncodePng(images[0])));
//
// The other way, images of files as tensors: train/data/decode_image.h.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// 8 bits per channel, row by row, the channels of a pixel side by side.
struct Image {
  int64_t height = 0, width = 0;
  int64_t channels = 1;     // 1: grey; 2: grey and alpha; 3: RGB; 4: RGBA
  std::string pixels = {};  // height · width · channels bytes
};

// images: [h,w], [h,w,c] or [n,h,w,c] of u8, real numbers or bools, c of 1, 2, 3 or 4. u8 stays as it is. Other values
// are clamped to [0,1] and scaled to 0 to 255, to the nearest; NaN becomes 0. Errors: another shape or dtype; an image
// without pixels, or of more than 2^30 levels.
absl::StatusOr<std::vector<Image>> ImagesOf(const Tensor& images);

// The bytes of a PNG file (RFC 2083). REQUIRES: `image` has the form that ImagesOf makes.
std::string EncodePng(const Image& image);

// Images side by side, in rows of `columns`; the last row is filled up with 0. images: [n,h,w] or [n,h,w,c], n > 0 ->
// [r·h, columns·w] or [r·h, columns·w, c], r = ⌈n/columns⌉. Errors: another shape; columns < 1.
absl::StatusOr<Tensor> ImageGrid(const Tensor& images, int64_t columns);

}  // namespace meshwork
