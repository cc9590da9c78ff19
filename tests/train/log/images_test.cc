#include "meshwork/train/log/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork::images_test {
namespace {

using ::testing::ElementsAre;

uint32_t BigEndian(std::string_view bytes) {
  uint32_t number = 0;
  for (char c : bytes.substr(0, 4)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

// An independent PNG reader: it checks the chunks' checksums and returns the chunk types and the image.
struct DecodedPng {
  std::vector<std::string> types;
  std::string header;
  Image image;
};

DecodedPng Decode(std::string_view png) {
  DecodedPng result;
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n\x1a\n"));
  png.remove_prefix(8);
  std::string compressed;
  while (!png.empty()) {
    const uint32_t size = BigEndian(png);
    const std::string_view body = png.substr(4, 4 + size);  // type and data
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    EXPECT_EQ(BigEndian(png.substr(8 + size)), crc);
    result.types.emplace_back(body.substr(0, 4));
    if (result.types.back() == "IHDR") result.header = body.substr(4);
    if (result.types.back() == "IDAT") compressed += body.substr(4);
    png.remove_prefix(12 + size);
  }
  const int64_t channels[] = {1, 0, 3, 0, 2, 0, 4};  // by color type
  Image& image = result.image;
  image.width = BigEndian(result.header);
  image.height = BigEndian(std::string_view(result.header).substr(4));
  image.channels = channels[static_cast<size_t>(result.header[9])];
  const auto row = static_cast<size_t>(image.width * image.channels);
  std::string filtered((row + 1) * static_cast<size_t>(image.height) + 1, '\0');
  uLongf size = filtered.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(filtered.data()), &size,
                       reinterpret_cast<const Bytef*>(compressed.data()), compressed.size()),
            Z_OK);
  EXPECT_EQ(size, filtered.size() - 1);
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
    EXPECT_EQ(filtered[y * (row + 1)], 0);
    image.pixels += filtered.substr(y * (row + 1) + 1, row);
  }
  return result;
}

TEST(PngTest, HoldsTheImage) {
  for (int64_t channels = 1; channels <= 4; ++channels) {
    Image image{.height = 5, .width = 7, .channels = channels};
    for (int64_t i = 0; i < 35 * channels; ++i) image.pixels += static_cast<char>(i * 37 % 256);
    const DecodedPng read = Decode(EncodePng(image));
    EXPECT_THAT(read.types, ElementsAre("IHDR", "IDAT", "IEND"));
    EXPECT_EQ(read.header[8], 8);
    EXPECT_EQ(read.header.substr(10), std::string(3, '\0'));
    EXPECT_EQ(read.image.height, 5);
    EXPECT_EQ(read.image.width, 7);
    EXPECT_EQ(read.image.channels, channels);
    EXPECT_EQ(read.image.pixels, image.pixels);
  }
}

TEST(ImagesTest, LevelsAreRoundedAndClipped) {
  const auto image =
      ImagesOf(Tensor::From<double>({1, 8}, {0, 1, 0.5, 0.001, 0.002, -3, 7, std::nan("")})).value();
  ASSERT_EQ(image.size(), 1u);
  EXPECT_EQ(image[0].pixels, std::string("\0\xff\x80\0\x01\0\xff\0", 8));
  EXPECT_EQ(ImagesOf(Tensor::From<bool>({1, 2}, {true, false})).value()[0].pixels, std::string("\xff\0", 2));
}

TEST(ImagesTest, TheLastDimOfThreeIsTheChannels) {
  const auto one = ImagesOf(Tensor::Zeros({F32, {4, 5, 3}})).value();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].height, 4);
  EXPECT_EQ(one[0].width, 5);
  EXPECT_EQ(one[0].channels, 3);
  const auto two = ImagesOf(Tensor::From<BFloat16>({2, 1, 1, 1}, {BFloat16(0), BFloat16(1)})).value();
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].pixels, std::string(1, '\0'));
  EXPECT_EQ(two[1].pixels, "\xff");
}

TEST(ImageGridTest, LaysImagesInRows) {
  // Three images of 1 x 2 pixels.
  const Tensor grid = ImageGrid(Tensor::From<float>({3, 1, 2}, {1, 2, 3, 4, 5, 6}), 2).value();
  EXPECT_EQ(grid.shape(), Shape({2, 4}));
  EXPECT_THAT(grid.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
}

TEST(ImageGridTest, KeepsChannels) {
  // Two images of 2 x 1 pixels of two channels, side by side.
  const Tensor grid = ImageGrid(Tensor::From<int32_t>({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), 2).value();
  EXPECT_EQ(grid.shape(), Shape({2, 2, 2}));
  EXPECT_THAT(grid.values<int32_t>(), ElementsAre(1, 2, 5, 6, 3, 4, 7, 8));
}

}  // namespace
}  // namespace meshwork::images_test
