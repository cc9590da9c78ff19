// A libFuzzer target: any bytes, decoded as an image, give an error that names the place, or an image within the limit.
// A second decoding gives the same image, and a limit that is a byte lower refuses it.
//
// --prepare writes the initial corpus.
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/decode_image.h"
#include "support/image_bytes.h"

namespace meshwork {
namespace {

constexpr int64_t kMostBytes = 1 << 22;

std::string_view LevelsOf(const Tensor& image) {
  return {static_cast<const char*>(image.raw()), static_cast<size_t>(image.bytes())};
}

void TryImage(std::string_view bytes, int64_t channels) {
  const auto decode = [&](int64_t most) {
    return DecodeImage(bytes, {.channels = channels, .unpack = {.max_bytes = most}});
  };
  const absl::StatusOr<Tensor> image = decode(kMostBytes);
  if (!image.ok()) {
    if (!MessageOf(image.status()).starts_with("DecodeImage: "))
      Finding("an error that does not say where", MessageOf(image.status()));
    return;
  }
  const Shape& shape = image->shape();
  if (image->dtype() != U8 || shape.size() != 3 || image->bytes() < 1 || image->bytes() > kMostBytes ||
      (channels != 0 && shape[2] != channels))
    Finding("an image of another type", image->type().ToString());
  if (LevelsOf(*image) != LevelsOf(decode(image->bytes() * 4).value()))
    Finding("an image that changes", image->type().ToString());
  if (decode(image->bytes() - 1).ok() && image->bytes() > 1)
    Finding("an image above its limit", image->type().ToString());
}

}  // namespace

void Try(std::string_view text) {
  std::string file(text);
  FixPngChecksums(file);  // a mutation need not guess them
  const auto channels = static_cast<int64_t>(text.size() % 5);
  TryImage(file, channels);
  if (file != text) TryImage(text, channels);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  const auto sample = [&](std::string_view name, const std::string& bytes) {
    std::ofstream(folder / "samples" / name, std::ios::binary) << bytes;
  };
  for (bool interlaced : {false, true}) {
    for (int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_GRAY_ALPHA})
      for (int bits : {8, 16})
        sample(fmt::format("png_{}_{}_{}", type, bits, interlaced),
               PngBytes({type, bits, interlaced}, 5, 7, std::vector<uint16_t>(105, 3)));
    PngKind palette{
        PNG_COLOR_TYPE_PALETTE, 2, interlaced, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {0, 0, 0}}, {9, 0}};
    sample(fmt::format("png_palette_{}", interlaced), PngBytes(palette, 5, 7, std::vector<uint16_t>(35, 3)));
  }
  for (bool progressive : {false, true}) {
    const std::string levels(17 * 19 * 4, 'x');
    sample(fmt::format("jpeg_{}", progressive),
           JpegBytes({.progressive = progressive, .small_colors = true}, 17, 19, 3, levels));
    sample(fmt::format("jpeg_cmyk_{}", progressive),
           JpegBytes({.given = JCS_CMYK, .stored = JCS_YCCK, .progressive = progressive}, 17, 19, 4, levels));
  }
}

}  // namespace meshwork
