// Images of all kinds, written by libpng and libjpeg, compared with the written levels; cut off at each byte, changed
// at random, and much larger than their files.
#include "meshwork/train/data/decode_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "meshwork/train/log/images.h"
#include "support/image_bytes.h"

namespace meshwork::decode_image_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Red, green, blue and alpha, from 0 to 1.
using Color = std::array<double, 4>;

std::string Of(const Tensor& image) {
  const auto levels = image.values<uint8_t>();
  return {levels.begin(), levels.end()};
}

// ---- PNG.

Color ColorOf(const PngKind& kind, const uint16_t* samples) {
  const double most = (1 << kind.bits) - 1;
  if (kind.type == PNG_COLOR_TYPE_PALETTE) {
    const png_color& c = kind.palette[samples[0]];
    const bool has_alpha = samples[0] < kind.palette_alpha.size();
    return {c.red / 255.0, c.green / 255.0, c.blue / 255.0,
            has_alpha ? kind.palette_alpha[samples[0]] / 255.0 : 1};
  }
  const bool color = (kind.type & PNG_COLOR_MASK_COLOR) != 0;
  double alpha = 1;
  if ((kind.type & PNG_COLOR_MASK_ALPHA) != 0) alpha = samples[color ? 3 : 1] / most;
  if (const auto& t = kind.transparent; t.has_value())
    alpha = (color ? samples[0] == t->red && samples[1] == t->green && samples[2] == t->blue
                   : samples[0] == t->gray)
                ? 0
                : 1;
  return {samples[0] / most, samples[color ? 1 : 0] / most, samples[color ? 2 : 0] / most, alpha};
}

bool HasAlpha(const PngKind& kind) {
  return (kind.type & PNG_COLOR_MASK_ALPHA) != 0 || !kind.palette_alpha.empty() ||
         kind.transparent.has_value();
}
bool HasColor(const PngKind& kind) { return (kind.type & PNG_COLOR_MASK_COLOR) != 0; }

// The levels of one pixel, of 8 bits. Colours that become grey are rounded twice, to 8 bits and then to grey.
std::vector<int> LevelsOf(const Color& color, bool has_color, int64_t channels) {
  std::vector<int> level;
  for (double c : color) level.push_back(static_cast<int>(std::lround(c * 255)));
  if (channels >= 3) return {level.begin(), level.begin() + static_cast<std::ptrdiff_t>(channels)};
  const int grey =
      has_color
          ? static_cast<int>(std::floor(0.299 * level[0] + 0.587 * level[1] + 0.114 * level[2] + 0.5 + 1e-9))
          : level[0];
  return channels == 1 ? std::vector<int>{grey} : std::vector<int>{grey, level[3]};
}

std::string Expected(const PngKind& kind, const std::vector<uint16_t>& samples, int64_t channels) {
  std::string levels;
  for (size_t i = 0; i < samples.size(); i += static_cast<size_t>(kind.samples()))
    for (int level : LevelsOf(ColorOf(kind, &samples[i]), HasColor(kind), channels))
      levels += static_cast<char>(level);
  return levels;
}

std::vector<PngKind> AllPngKinds() {
  std::vector<PngKind> kinds;
  for (int bits : {1, 2, 4, 8, 16}) kinds.push_back({PNG_COLOR_TYPE_GRAY, bits});
  for (int bits : {8, 16})
    for (int type : {PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA})
      kinds.push_back({type, bits});
  for (int bits : {1, 2, 4, 8}) {
    PngKind kind{PNG_COLOR_TYPE_PALETTE, bits};
    for (int i = 0; i < 1 << bits; ++i)
      kind.palette.push_back(
          {static_cast<png_byte>(i * 37), static_cast<png_byte>(255 - i * 11), static_cast<png_byte>(i * i)});
    kinds.push_back(kind);
    kind.palette_alpha = {0, 100};  // of the first two; the others are opaque
    kinds.push_back(kind);
  }
  for (int bits : {1, 2, 4, 8, 16}) {
    kinds.push_back({PNG_COLOR_TYPE_GRAY, bits});
    kinds.back().transparent = png_color_16{.gray = 1};
  }
  for (int bits : {8, 16}) {
    kinds.push_back({PNG_COLOR_TYPE_RGB, bits});
    kinds.back().transparent = png_color_16{.red = 1, .green = 0, .blue = 1};
  }
  const size_t plain = kinds.size();
  for (size_t i = 0; i < plain; ++i) {
    kinds.push_back(kinds[i]);
    kinds.back().interlaced = true;
  }
  return kinds;
}

std::vector<uint16_t> RandomSamples(const PngKind& kind, int pixels, std::mt19937& random) {
  std::vector<uint16_t> samples;
  for (int i = 0; i < pixels * kind.samples(); ++i)
    samples.push_back(static_cast<uint16_t>(random() % (1u << kind.bits)));
  if (!kind.transparent.has_value()) return samples;
  // One pixel is transparent, another differs from it in a bit of the lower byte.
  const png_color_16& t = *kind.transparent;
  samples[0] = HasColor(kind) ? t.red : t.gray;
  if (HasColor(kind)) samples[1] = t.green, samples[2] = t.blue;
  for (int c = 0; c < kind.samples() && pixels > 1; ++c)
    samples[static_cast<size_t>(kind.samples() + c)] = samples[static_cast<size_t>(c)] ^ 1;
  return samples;
}

TEST(DecodePngTest, AllKinds) {
  std::mt19937 random(7);
  int tried = 0;
  for (const PngKind& kind : AllPngKinds()) {
    for (const auto& [height, width] : {std::pair(1, 1), std::pair(5, 7), std::pair(17, 33)}) {
      SCOPED_TRACE(fmt::format("type {} of {} bits, interlaced {}, alpha {}: {} x {}", kind.type, kind.bits,
                               kind.interlaced, HasAlpha(kind), height, width));
      const std::vector<uint16_t> samples = RandomSamples(kind, height * width, random);
      const std::string file = PngBytes(kind, height, width, samples);
      const int64_t stored = (HasColor(kind) ? 3 : 1) + (HasAlpha(kind) ? 1 : 0);
      for (int64_t channels = 0; channels <= 4; ++channels, ++tried) {
        const absl::StatusOr<Tensor> image = DecodeImage(file, {.channels = channels});
        ASSERT_TRUE(image.ok()) << image.status();
        const int64_t have = channels == 0 ? stored : channels;
        ASSERT_EQ(image->type(), (Type{U8, {height, width, have}}));
        ASSERT_EQ(Of(*image), Expected(kind, samples, have)) << have << " channels";
      }
    }
  }
  EXPECT_EQ(tried, 52 * 3 * 5);
}

TEST(DecodePngTest, ReadsWhatEncodePngWrites) {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    Image image{.height = 11, .width = 6, .channels = channels};
    for (int64_t i = 0; i < 66 * channels; ++i) image.pixels += static_cast<char>(i * 37 % 256);
    const Tensor read = DecodeImage(EncodePng(image)).value();
    EXPECT_EQ(read.shape(), Shape({11, 6, channels}));
    EXPECT_EQ(Of(read), image.pixels);
  }
}

// A gamma in the file changes no level. Compressed text chunks are not unpacked.
TEST(DecodePngTest, OtherChunksDoNotCount) {
  const std::string file = PngBytes({PNG_COLOR_TYPE_GRAY, 16}, 1, 2, {1000, 60000});
  std::string with = file.substr(0, 33);  // the signature and the header
  with += std::string("\0\0\0\4gAMA\0\1\x86\xa0????", 16);
  for (int i = 0; i < 3; ++i) {
    std::string packed(compressBound(1 << 20), '\0'), text(1 << 20, 'x');
    uLongf size = packed.size();
    ASSERT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                       reinterpret_cast<const Bytef*>(text.data()), text.size()),
              Z_OK);
    const std::string body = std::string("zTXtname\0\0", 10) + packed.substr(0, size);
    for (int shift : {24, 16, 8, 0}) with += static_cast<char>((body.size() - 4) >> shift);
    with += body + "????";
  }
  with += file.substr(33);
  FixPngChecksums(with);
  EXPECT_EQ(Of(DecodeImage(with).value()), Of(DecodeImage(file).value()));
  with[45] = static_cast<char>(with[45] ^ 1);
  EXPECT_THAT(std::string(DecodeImage(with).status().message()), HasSubstr("CRC error"));
}

// ---- JPEG.

// A smooth picture, which JPEG compression preserves.
std::string Smooth(int height, int width, int channels) {
  std::string levels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        levels += static_cast<char>(
            std::lround(127.5 + 100 * std::sin(0.05 * (c + 1) * x + c) * std::cos(0.07 * y + 2 * c)));
  return levels;
}

int FarthestOf(std::string_view a, std::string_view b) {
  EXPECT_EQ(a.size(), b.size());
  int farthest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    farthest = std::max(farthest, std::abs(static_cast<uint8_t>(a[i]) - static_cast<uint8_t>(b[i])));
  return farthest;
}

TEST(DecodeJpegTest, GreyAndColors) {
  for (bool progressive : {false, true}) {
    const std::string grey = Smooth(37, 50, 1), rgb = Smooth(37, 50, 3);
    const Tensor a =
        DecodeImage(JpegBytes({.given = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .progressive = progressive},
                              37, 50, 1, grey))
            .value();
    EXPECT_EQ(a.type(), (Type{U8, {37, 50, 1}}));
    EXPECT_LE(FarthestOf(Of(a), grey), 2);
    for (J_COLOR_SPACE stored : {JCS_YCbCr, JCS_RGB}) {
      const Tensor b =
          DecodeImage(JpegBytes({.stored = stored, .progressive = progressive}, 37, 50, 3, rgb)).value();
      EXPECT_EQ(b.type(), (Type{U8, {37, 50, 3}}));
      EXPECT_LE(FarthestOf(Of(b), rgb), 4);
    }
    // With half as many rows and columns for the colours, as in most files.
    const Tensor c =
        DecodeImage(JpegBytes({.progressive = progressive, .small_colors = true}, 37, 50, 3, rgb)).value();
    EXPECT_LE(FarthestOf(Of(c), rgb), 30);
  }
}

TEST(DecodeJpegTest, OtherNumbersOfChannels) {
  const std::string levels = Smooth(20, 30, 3);
  for (J_COLOR_SPACE stored : {JCS_YCbCr, JCS_RGB}) {
    const std::string file = JpegBytes({.stored = stored}, 20, 30, 3, levels);
    for (int64_t channels = 1; channels <= 4; ++channels) {
      std::string expected;
      for (size_t i = 0; i < levels.size(); i += 3) {
        const auto level = [&](size_t c) { return static_cast<uint8_t>(levels[i + c]) / 255.0; };
        for (int l : LevelsOf({level(0), level(1), level(2), 1}, true, channels))
          expected += static_cast<char>(l);
      }
      const Tensor image = DecodeImage(file, {.channels = channels}).value();
      EXPECT_EQ(image.shape(), Shape({20, 30, channels}));
      EXPECT_LE(FarthestOf(Of(image), expected), 4) << channels;
    }
  }
  const Tensor grey = DecodeImage(JpegBytes({.given = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE}, 8, 8, 1,
                                            std::string(64, '\x64')),
                                  {.channels = 3})
                          .value();
  EXPECT_EQ(grey.shape(), Shape({8, 8, 3}));
  EXPECT_THAT(Of(grey), Each('\x64'));
}

// Ink from 0 to 1 takes away its share of the light. Adobe's files say how much light there is, instead of ink.
TEST(DecodeJpegTest, Cmyk) {
  const std::string cmyk = Smooth(24, 31, 4);
  for (J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
    for (bool adobe : {false, true}) {
      if (stored == JCS_YCCK && !adobe) continue;  // the marker says that it is YCCK
      std::string expected;
      for (size_t i = 0; i < cmyk.size(); i += 4)
        for (size_t c = 0; c < 3; ++c) {
          const auto light = [&](size_t at) {
            const double level = static_cast<uint8_t>(cmyk[at]) / 255.0;
            return adobe ? level : 1 - level;
          };
          expected += static_cast<char>(std::lround(255 * light(i + c) * light(i + 3)));
        }
      const std::string file =
          JpegBytes({.given = JCS_CMYK, .stored = stored, .adobe = adobe}, 24, 31, 4, cmyk);
      const Tensor image = DecodeImage(file).value();
      EXPECT_EQ(image.shape(), Shape({24, 31, 3}));
      EXPECT_LE(FarthestOf(Of(image), expected), 5) << adobe;
      EXPECT_EQ(DecodeImage(file, {.channels = 1}).value().shape(), Shape({24, 31, 1}));
    }
  }
}

// Some cameras leave bytes in front of the end, and some writers invent a version. The picture is whole.
TEST(DecodeJpegTest, HarmlessMistakesOfWriters) {
  const std::string file = JpegBytes({}, 16, 16, 3, Smooth(16, 16, 3));
  std::string more = file.substr(0, file.size() - 2) + std::string("\0\0\0\0", 4) + "\xff\xd9";
  EXPECT_EQ(Of(DecodeImage(more).value()), Of(DecodeImage(file).value()));
  std::string version = file;
  version[version.find("JFIF") + 5] = '\x07';
  EXPECT_EQ(Of(DecodeImage(version).value()), Of(DecodeImage(file).value()));
  EXPECT_EQ(Of(DecodeImage(file + "and more").value()), Of(DecodeImage(file).value()));
}

// ---- Damage.

std::vector<std::string> SmallFiles() {
  std::mt19937 random(3);
  std::vector<std::string> files;
  for (const PngKind& kind : AllPngKinds())
    if (kind.bits == 8 || kind.interlaced)
      files.push_back(PngBytes(kind, 4, 5, RandomSamples(kind, 20, random)));
  for (bool progressive : {false, true}) {
    files.push_back(
        JpegBytes({.progressive = progressive, .small_colors = true}, 20, 17, 3, Smooth(20, 17, 3)));
    files.push_back(JpegBytes({.given = JCS_CMYK, .stored = JCS_YCCK, .progressive = progressive}, 9, 9, 4,
                              Smooth(9, 9, 4)));
  }
  return files;
}

TEST(DamagedImagesTest, CutOffAtEachByte) {
  for (const std::string& file : SmallFiles()) {
    ASSERT_TRUE(DecodeImage(file).ok());
    for (size_t n = 0; n < file.size(); ++n) {
      const absl::StatusOr<Tensor> image = DecodeImage(file.substr(0, n));
      ASSERT_FALSE(image.ok()) << n << " of " << file.size() << " bytes";
      ASSERT_EQ(image.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(image.status().message()), StartsWith("DecodeImage: "));
    }
  }
}

TEST(DamagedImagesTest, ChangedAtRandom) {
  std::mt19937 random(11);
  int read = 0, refused = 0;
  for (const std::string& file : SmallFiles()) {
    for (int trial = 0; trial < 1000; ++trial) {
      std::string changed = file;
      for (unsigned n = random() % 4 + 1; n > 0; --n) {
        const size_t at = random() % changed.size();
        if (random() % 8 == 0) changed.erase(at, random() % 8);
        else if (random() % 8 == 0) changed.insert(at, 1, static_cast<char>(random()));
        else changed[at] = static_cast<char>(random() % 2 == 0 ? random() : changed[at] ^ 1 << random() % 8);
        if (changed.empty()) changed = "x";
      }
      if (random() % 8 != 0) FixPngChecksums(changed);
      const auto channels = static_cast<int64_t>(random() % 5);
      const absl::StatusOr<Tensor> image =
          DecodeImage(changed, {.channels = channels, .unpack = {.max_bytes = 1 << 20}});
      if (image.ok()) {
        ASSERT_EQ(image->shape().size(), 3u);
        ASSERT_LE(image->bytes(), 1 << 20);
        ASSERT_TRUE(channels == 0 || image->shape()[2] == channels);
        ++read;
      } else {
        ASSERT_THAT(std::string(image.status().message()), StartsWith("DecodeImage: "));
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

// ---- Bombs.

void SetBigEndian(std::string& file, size_t at, uint32_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<char>(number >> (8 * (bytes - 1 - i)));
}

TEST(HugeImagesTest, PngThatClaimsMoreThanItHolds) {
  std::string file = PngBytes({PNG_COLOR_TYPE_GRAY, 1}, 1, 1, {1});
  for (uint32_t size : {30'000u, 0x7fffffffu}) {
    SetBigEndian(file, 16, size, 4);
    SetBigEndian(file, 20, size, 4);
    FixPngChecksums(file);
    EXPECT_THAT(std::string(DecodeImage(file).status().message()), HasSubstr("cannot hold them"));
  }
}

TEST(HugeImagesTest, PngOfOneColor) {
  const std::string file = PngBytes({PNG_COLOR_TYPE_GRAY, 1}, 3000, 4000, std::vector<uint16_t>(12'000'000));
  EXPECT_LT(file.size(), 10'000u);
  EXPECT_EQ(DecodeImage(file, {.unpack = {.max_bytes = 12'000'000}}).value().num_elements(), 12'000'000);
  // The limit applies to the size of the result.
  for (const DecodeImageOptions& options :
       {DecodeImageOptions{.unpack = {.max_bytes = 11'999'999}},
        DecodeImageOptions{.channels = 3, .unpack = {.max_bytes = 35'999'999}}})
    EXPECT_EQ(DecodeImage(file, options).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HugeImagesTest, JpegThatClaimsMore) {
  std::string file = JpegBytes({.progressive = true}, 8, 8, 3, Smooth(8, 8, 3));
  const size_t frame = file.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  SetBigEndian(file, frame + 5, 65'500, 2);
  SetBigEndian(file, frame + 7, 65'500, 2);
  EXPECT_EQ(DecodeImage(file).status().code(), absl::StatusCode::kResourceExhausted);
  // Within the limit, decoding ends where the data end.
  SetBigEndian(file, frame + 5, 4000, 2);
  SetBigEndian(file, frame + 7, 6000, 2);
  EXPECT_EQ(DecodeImage(file).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HugeImagesTest, JpegOfManyScans) {
  EXPECT_THAT(Of(DecodeImage(JpegOfScans(500, 16, 16)).value()), Each('\x40'));
  EXPECT_THAT(std::string(DecodeImage(JpegOfScans(501, 16, 16)).status().message()),
              HasSubstr("more than 500 scans"));
}

// ---- Sizes.

// The pixel at y, x, c by the header's formula: a weighted sum over all pixels.
double At(const Tensor& image, ImageSize size, bool antialias, int64_t y, int64_t x, int64_t c) {
  const auto weight = [&](int64_t from, int64_t to, int64_t i, int64_t k) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double reach = antialias && scale > 1 ? scale : 1;
    return std::max(
        0.0, 1 - std::abs((static_cast<double>(i) + 0.5) * scale - static_cast<double>(k) - 0.5) / reach);
  };
  double sum = 0, of_weights = 0;
  for (int64_t v = 0; v < image.shape()[0]; ++v)
    for (int64_t u = 0; u < image.shape()[1]; ++u) {
      const double w =
          weight(image.shape()[0], size.height, y, v) * weight(image.shape()[1], size.width, x, u);
      sum += w * image.At({v, u, c}).value();
      of_weights += w;
    }
  return sum / of_weights;
}

TEST(ResizeImageTest, IsTheWeightedMean) {
  std::mt19937 random(5);
  for (int64_t channels = 1; channels <= 4; ++channels) {
    Tensor image(Type{U8, {9, 13, channels}});
    for (uint8_t& level : image.mutable_values<uint8_t>()) level = static_cast<uint8_t>(random());
    for (const ImageSize& size : {ImageSize{4, 5}, {1, 1}, {20, 3}, {5, 40}, {9, 26}}) {
      for (bool antialias : {false, true}) {
        const Tensor result = ResizeImage(image, size, {.antialias = antialias}).value();
        ASSERT_EQ(result.type(), (Type{U8, {size.height, size.width, channels}}));
        for (int64_t y = 0; y < size.height; ++y)
          for (int64_t x = 0; x < size.width; ++x)
            for (int64_t c = 0; c < channels; ++c)
              ASSERT_NEAR(result.At({y, x, c}).value(), At(image, size, antialias, y, x, c), 0.501);
      }
    }
  }
}

// The results of tf.image.resize: of 0, 100 to 4 pixels; of 0, 40, 80, 120 to 2, without antialias and with it.
TEST(ResizeImageTest, AsTensorFlow) {
  const auto resized = [](const std::vector<uint8_t>& levels, int64_t width, bool antialias) {
    const Tensor image = Tensor::From<uint8_t>({1, std::ssize(levels), 1}, levels);
    return ResizeImage(image, {1, width}, {.antialias = antialias}).value();
  };
  EXPECT_THAT(resized({0, 100}, 4, false).values<uint8_t>(), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(resized({0, 40, 80, 120}, 2, false).values<uint8_t>(), ElementsAre(20, 100));
  // At the edge, weights are 3/7, 3/7 and 1/7.
  EXPECT_THAT(resized({0, 40, 80, 120}, 2, true).values<uint8_t>(), ElementsAre(29, 91));
}

TEST(ResizeImageTest, OfItsSizeIsTheSame) {
  const Tensor image = Tensor::From<uint8_t>({1, 2, 1}, {3, 5});
  EXPECT_EQ(ResizeImage(image, {1, 2}).value().raw(), image.raw());
}

}  // namespace
}  // namespace meshwork::decode_image_test
