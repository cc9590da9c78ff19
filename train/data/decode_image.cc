#include "meshwork/train/data/decode_image.h"

#include <algorithm>
#include <memory>
#include <span>

#include "fmt/ranges.h"
#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/image_decoder.h"

namespace meshwork {
namespace {

constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n", kJpegStart = "\xff\xd8\xff";

struct OtherImageKind {
  std::string_view start, name;
};
constexpr OtherImageKind kOtherKinds[] = {
    {"GIF8", "GIF"}, {"BM", "BMP"}, {"RIFF", "WebP"}, {{"II*\0", 4}, "TIFF"}, {{"MM\0*", 4}, "TIFF"}};

absl::Status NoImage(std::string_view bytes) {
  for (const OtherImageKind& kind : kOtherKinds)
    if (bytes.starts_with(kind.start))
      return InvalidArgument("is a {} file; PNG and JPEG files are read: convert it.", kind.name);
  if (bytes.empty()) return InvalidArgument("is empty; a PNG or a JPEG file is wanted.");
  const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
  return InvalidArgument(
      "starts with {:02x}; a PNG file starts with {:02x}, a JPEG file with ff d8 ff.",
      fmt::join(std::span(begin, std::min(bytes.size(), kPngStart.size())), " "),
      fmt::join(std::span(reinterpret_cast<const uint8_t*>(kPngStart.data()), kPngStart.size()), " "));
}

uint8_t GreyOf(const uint8_t* rgb) {
  return static_cast<uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

Tensor WithChannels(const Tensor& image, int64_t channels) {
  const int64_t has = image.shape()[2];
  Tensor result(Type{U8, {image.shape()[0], image.shape()[1], channels}});
  if (!result.valid()) return result;
  const uint8_t* from = image.values<uint8_t>().data();
  for (uint8_t *to = result.mutable_values<uint8_t>().data(), *end = to + result.num_elements(); to != end;
       from += has, to += channels) {
    if (channels <= 2) to[0] = has <= 2 ? from[0] : GreyOf(from);
    else
      for (int c = 0; c < 3; ++c) to[c] = from[has <= 2 ? 0 : c];
    if (channels % 2 == 0) to[channels - 1] = has % 2 == 0 ? from[has - 1] : 255;
  }
  return result;
}

absl::StatusOr<Tensor> Decode(std::string_view bytes, const DecodeImageOptions& options) {
  if (options.channels < 0 || options.channels > 4)
    return InvalidArgument(
        "{} are wanted; there are 1 (grey), 2 (grey, alpha), 3 (RGB), 4 (RGBA), and 0 for those of the image.",
        Count(options.channels, "channel"));
  std::unique_ptr<internal::ImageDecoder> decoder;
  if (bytes.starts_with(kPngStart)) decoder = internal::MakePngDecoder(bytes);
  else if (bytes.starts_with(kJpegStart))
    decoder = internal::MakeJpegDecoder(bytes, options.channels == 1 || options.channels == 2);
  else return NoImage(bytes);

  MESHWORK_ASSIGN_OR_RETURN(const internal::ImageHeader header, decoder->ReadHeader());
  const int64_t pixels = SaturatedProduct(header.height, header.width);
  MESHWORK_RETURN_IF_ERROR(
      CheckUnpacks(fmt::format("an image of {} x {} pixels", header.height, header.width), std::ssize(bytes),
                   SaturatedProduct(pixels, std::max(header.channels, options.channels)), options.unpack));
  Tensor image(Type{U8, {header.height, header.width, header.channels}});
  MESHWORK_RETURN_IF_ERROR(image.status());
  MESHWORK_RETURN_IF_ERROR(decoder->ReadPixels(image.mutable_values<uint8_t>().data()));
  if (options.channels != 0 && options.channels != header.channels)
    image = WithChannels(image, options.channels);
  MESHWORK_RETURN_IF_ERROR(image.status());
  return image;
}

}  // namespace

absl::StatusOr<Tensor> DecodeImage(std::string_view bytes, const DecodeImageOptions& options) {
  absl::StatusOr<Tensor> image = Decode(bytes, options);
  if (!image.ok()) return Annotate(image.status(), "DecodeImage: ");
  return image;
}

}  // namespace meshwork
