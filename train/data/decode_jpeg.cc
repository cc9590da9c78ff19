// JPEG (ITU T.81), read by libjpeg.
#include <stdio.h>  // jpeglib.h needs it
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>

#include "meshwork/base/status.h"
#include "meshwork/train/data/image_decoder.h"

namespace meshwork::internal {
namespace {

// A scan is a pass over all pixels. It takes a few bytes if it changes no pixel, so thousands of scans in a small file
// take hours. Encoders make about ten.
constexpr int kMostScans = 500;

// libjpeg's notes of what is wrong. It knows `manager`, the first member.
struct JpegErrors {
  jpeg_error_mgr manager = {};
  std::jmp_buf back = {};
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void JumpBack(j_common_ptr jpeg) {
  std::longjmp(reinterpret_cast<JpegErrors*>(jpeg->err)->back, 1);
}

[[noreturn]] void OnJpegError(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, reinterpret_cast<JpegErrors*>(jpeg->err)->message);
  JumpBack(jpeg);
}

// `level` -1: a warning; others are traces. libjpeg goes on after warnings, and makes up pixels that are not there.
void OnJpegMessage(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:      // an unknown transform in an Adobe marker: libjpeg knows the usual one
    case JWRN_EXTRANEOUS_DATA:  // bytes in front of a marker, which cameras leave there
    case JWRN_JFIF_MAJOR:       // a version of JFIF that does not exist
    case JWRN_NOT_SEQUENTIAL:   // parameters of progressive scans, which do not count
    case JWRN_TOO_MUCH_DATA:    // behind the last row
      return;
    default: OnJpegError(jpeg);
  }
}

void CountScans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  snprintf(reinterpret_cast<JpegErrors*>(jpeg->err)->message, JMSG_LENGTH_MAX, "it has more than %d scans",
           kMostScans);
  JumpBack(jpeg);
}

// Adobe's programs write CMYK the other way round: 255 is no ink.
void CmykToRgb(const uint8_t* cmyk, int64_t pixels, bool inverted, uint8_t* rgb) {
  const int flip = inverted ? 0 : 255;
  for (int64_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c)
      rgb[c] = static_cast<uint8_t>(((cmyk[c] ^ flip) * (cmyk[3] ^ flip) + 127) / 255);
}

class JpegDecoder : public ImageDecoder {
 public:
  JpegDecoder(std::string_view bytes, bool grey) : bytes_(bytes), grey_(grey) {
    jpeg_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = OnJpegError;
    errors_.manager.emit_message = OnJpegMessage;
    progress_.progress_monitor = CountScans;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&jpeg_); }

  absl::StatusOr<ImageHeader> ReadHeader() override {
    if (!TryHeader()) return Failed();
    if (!ChooseColors())
      return InvalidArgument(
          "the JPEG has {} of no known meaning; grey, RGB, YCbCr, CMYK and YCCK are read: convert it.",
          Count(jpeg_.num_components, "channel"));
    channels_ = jpeg_.out_color_space == JCS_GRAYSCALE ? 1 : 3;
    return ImageHeader{jpeg_.image_height, jpeg_.image_width, channels_};
  }
  absl::Status ReadPixels(uint8_t* pixels) override {
    return TryPixels(pixels) ? absl::OkStatus() : Failed();
  }

 private:
  // These two are jumped back into.
  bool TryHeader() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool TryPixels(uint8_t* pixels) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    const bool is_cmyk = jpeg_.out_color_space == JCS_CMYK;
    // libjpeg frees it.
    JSAMPARRAY cmyk = is_cmyk ? jpeg_.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&jpeg_), JPOOL_IMAGE,
                                                        4 * jpeg_.output_width, 1)
                              : nullptr;
    const size_t row_bytes = static_cast<size_t>(jpeg_.output_width) * static_cast<size_t>(channels_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = pixels + jpeg_.output_scanline * row_bytes;
      jpeg_read_scanlines(&jpeg_, is_cmyk ? cmyk : &row, 1);
      if (is_cmyk) CmykToRgb(cmyk[0], jpeg_.output_width, jpeg_.saw_Adobe_marker != FALSE, row);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  // False: the channels have no known meaning.
  bool ChooseColors() {
    switch (jpeg_.jpeg_color_space) {
      case JCS_GRAYSCALE: jpeg_.out_color_space = JCS_GRAYSCALE; return true;
      case JCS_RGB:
      case JCS_YCbCr: jpeg_.out_color_space = grey_ ? JCS_GRAYSCALE : JCS_RGB; return true;
      case JCS_CMYK:
      case JCS_YCCK: jpeg_.out_color_space = JCS_CMYK; return true;
      default: return false;
    }
  }
  absl::Status Failed() const {
    return InvalidArgument(
        "the JPEG cannot be read: {}; it is damaged, cut off or of a rare kind: fetch or save it again.",
        errors_.message);
  }

  const std::string_view bytes_;
  const bool grey_;
  JpegErrors errors_;
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct jpeg_ = {};
  int64_t channels_ = 0;  // of the pixels
};

}  // namespace

std::unique_ptr<ImageDecoder> MakeJpegDecoder(std::string_view bytes, bool grey) {
  return std::make_unique<JpegDecoder>(bytes, grey);
}

}  // namespace meshwork::internal
