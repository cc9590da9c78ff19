// PNG (RFC 2083), read by libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <new>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/image_decoder.h"

namespace meshwork::internal {
namespace {

constexpr int64_t kMostOfDeflate = 1032;  // bytes of one: 258 bytes in two bits

// Shared by libpng's functions and ours.
struct PngSource {
  std::string_view rest;  // of the file
  char error[200] = "", warning[200] = "";
};

template <size_t n>
void CopyPngText(png_const_charp from, char (&to)[n]) {
  std::strncpy(to, from, n - 1);
  to[n - 1] = '\0';
}

[[noreturn]] void OnPngError(png_structp png, png_const_charp message) {
  CopyPngText(message, static_cast<PngSource*>(png_get_error_ptr(png))->error);
  png_longjmp(png, 1);
}

// Errors may say less than the warning in front of them.
void OnPngWarning(png_structp png, png_const_charp message) {
  CopyPngText(message, static_cast<PngSource*>(png_get_error_ptr(png))->warning);
}

void ReadPngBytes(png_structp png, png_bytep to, size_t n) {
  std::string_view& rest = static_cast<PngSource*>(png_get_io_ptr(png))->rest;
  if (n > rest.size()) png_error(png, "the file ends too early");
  std::memcpy(to, rest.data(), n);
  rest.remove_prefix(n);
}

class PngDecoder : public ImageDecoder {
 public:
  explicit PngDecoder(std::string_view bytes) : size_(std::ssize(bytes)), source_{bytes} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, OnPngError, OnPngWarning);
    if (png_ == nullptr) throw std::bad_alloc();
    info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    throw std::bad_alloc();
  }
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  absl::StatusOr<ImageHeader> ReadHeader() override {
    if (!TryHeader()) return Failed();
    const int type = png_get_color_type(png_, info_);
    const bool has_alpha =
        (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const ImageHeader header = {png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                                ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (has_alpha ? 1 : 0)};
    const int bits = png_get_channels(png_, info_) * png_get_bit_depth(png_, info_);
    if (SaturatedProduct(SaturatedProduct(header.height, header.width), bits) / 8 > kMostOfDeflate * size_)
      return InvalidArgument(
          "the PNG says that it has {} x {} pixels of {}, and {} cannot hold them; it is damaged or cut off, "
          "fetch or save it again.",
          header.height, header.width, Count(bits, "bit"), Count(size_, "byte"));
    height_ = header.height;
    row_bytes_ = static_cast<size_t>(header.width * header.channels);
    return header;
  }
  absl::Status ReadPixels(uint8_t* pixels) override {
    return TryPixels(pixels) ? absl::OkStatus() : Failed();
  }

 private:
  // These two are jumped back into.
  bool TryHeader() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &source_, ReadPngBytes);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // DecodeImage has limits of its own
    // A wrong checksum is an error in all chunks.
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    // Skips what is not needed for pixels, such as texts, which may unpack to any length.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }
  bool TryPixels(uint8_t* pixels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);    // palettes, transparent colours, less than 8 bits
    png_set_scale_16(png_);  // to the nearest of 8 bits
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes_) png_error(png_, "its rows have another size");
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t y = 0; y < height_; ++y)
        png_read_row(png_, pixels + static_cast<size_t>(y) * row_bytes_, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  absl::Status Failed() const {
    const std::string cause = source_.warning[0] == '\0' ? "" : fmt::format(" ({})", source_.warning);
    return InvalidArgument("the PNG cannot be read: {}{}; it is damaged or cut off, fetch or save it again.",
                           source_.error, cause);
  }

  const int64_t size_;
  PngSource source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int64_t height_ = 0;
  size_t row_bytes_ = 0;  // of the pixels
};

}  // namespace

std::unique_ptr<ImageDecoder> MakePngDecoder(std::string_view bytes) {
  return std::make_unique<PngDecoder>(bytes);
}

}  // namespace meshwork::internal
