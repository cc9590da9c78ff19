// PNG and JPEG images as tensors, and their sizes.
//
//   MESHWORK_ASSIGN_OR_RETURN(std::string file, ReadFile("cat.jpg"));
//   MESHWORK_ASSIGN_OR_RETURN(Tensor image, DecodeImage(file, {.channels = 3}));         // u8[480,640,3]
//   MESHWORK_ASSIGN_OR_RETURN(Tensor small, ResizeImage(image, {.height = 96, .width = 96}));  // u8[96,96,3]
//
// A graph takes such tensors as inputs of U8 and casts them on its devices (docs/mixed-precision.md). Files of a folder
// as examples: train/data/image_folder.h. The other way, a tensor as a PNG file: train/log/images.h.
//
// Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/storage/unpack_limit.h"

namespace meshwork {

struct DecodeImageOptions {
  // The channels of the result. 1: grey; 2: grey and alpha; 3: RGB; 4: RGBA; 0: as many as the image has. Grey is 0.299
  // R + 0.587 G + 0.114 B; for a JPEG in YCbCr, it is Y. If the image has no alpha, alpha is 255. If alpha is not
  // wanted, it is dropped, and the colours do not change.
  int64_t channels = 0;
  // The bytes that the pixels may take. A small file may stand for a huge image.
  UnpackOptions unpack = {};
};

// The pixels of a PNG or a JPEG file: u8[height,width,channels]. `bytes`: the file, whose content says which it is.
//
// PNG: all kinds. Palettes become RGB, a transparent colour becomes alpha, and 1, 2, 4 and 16 bits become 8, to the
// nearest level. Gamma and colour profiles are not applied. JPEG: grey, RGB, YCbCr, CMYK and YCCK, baseline and
// progressive, of 8 bits; CMYK becomes RGB. An orientation in EXIF data is not applied. tf.io.decode_image does the
// same, but drops the low byte of 16 bits instead of rounding.
//
// Errors: the bytes are neither; they are damaged or cut off, also where libjpeg would only warn and make up pixels;
// the image takes more than `options.unpack` allows; a JPEG has more than 500 scans, which are passes over all pixels;
// a number of channels other than 0 to 4. Throws std::bad_alloc, as all tensors do, where there is no memory for the
// pixels.
absl::StatusOr<Tensor> DecodeImage(std::string_view bytes, const DecodeImageOptions& options = {});

struct ImageSize {
  int64_t height = 0, width = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

struct ResizeImageOptions {
  // If set, each pixel of a reduced image is the mean of all pixels that it covers, weighted by distance. If not, it is
  // made of the four nearest pixels alone, and fine patterns turn into coarse ones.
  bool antialias = false;
};

// image: u8[h,w,c] -> u8[height,width,c], bilinear, to the nearest level; height and width are scaled independently.
// Pixels are squares whose centers lie at 0.5, 1.5, …, as in tf.image.resize. Errors: another type; no pixels; a size
// below 1.
absl::StatusOr<Tensor> ResizeImage(const Tensor& image, ImageSize size,
                                   const ResizeImageOptions& options = {});

}  // namespace meshwork
