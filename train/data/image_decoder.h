// ImageDecoder: a PNG or a JPEG as the library that reads it sees it, without exceptions and jumps.
//
// libpng and libjpeg report an error by a function that must not return; ours note it and jump back (longjmp) into the
// function that called the library. A jump runs no destructors, so these functions have no objects that need any: what
// they use belongs to the decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork::internal {

// Pixels are decoded into this form: 8 bits per channel, row by row, the channels of a pixel side by side.
struct ImageHeader {
  int64_t height = 0, width = 0;
  int64_t channels = 0;  // 1: grey; 2: grey and alpha; 3: RGB; 4: RGBA
};

class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  // Called once, first. Takes no memory that grows with what the header claims.
  virtual absl::StatusOr<ImageHeader> ReadHeader() = 0;
  // Called once. `pixels`: height · width · channels bytes.
  virtual absl::Status ReadPixels(uint8_t* pixels) = 0;
};

// `bytes` must outlive the decoder.
std::unique_ptr<ImageDecoder> MakePngDecoder(std::string_view bytes);
// `grey`: colours are not wanted, and need not be computed.
std::unique_ptr<ImageDecoder> MakeJpegDecoder(std::string_view bytes, bool grey);

}  // namespace meshwork::internal
