#include "meshwork/train/log/images.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostLevels = int64_t{1}
                                << 30;  // of an image: a chunk of a PNG file holds less than 2^31 bytes

uint8_t ByteOf(double level) {
  // NaN compares false.
  return level > 0 ? static_cast<uint8_t>(std::lround(std::min(level, 1.0) * 255)) : 0;
}

void AppendBigEndian(std::string& out, uint32_t number) {
  for (int shift : {24, 16, 8, 0}) out += static_cast<char>(number >> shift);
}

// A chunk of a PNG file: its length, its type and data, and their checksum.
void AppendChunk(std::string& png, std::string_view type, std::string_view data) {
  AppendBigEndian(png, static_cast<uint32_t>(data.size()));
  const size_t begin = png.size();
  png += type;
  png += data;
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(png.data() + begin), png.size() - begin);
  AppendBigEndian(png, static_cast<uint32_t>(crc));
}

std::string Compressed(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int result =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), Z_DEFAULT_COMPRESSION);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  MESHWORK_CHECK(result == Z_OK, "zlib: {}", zError(result));
  out.resize(size);
  return out;
}

// [h,w] and [h,w,c] as [1,h,w,c].
absl::StatusOr<Shape> ShapeOfImages(const Tensor& images) {
  MESHWORK_RETURN_IF_ERROR(images.status());
  Shape shape = images.shape();
  if (shape.size() == 2) shape.push_back(1);
  if (shape.size() == 3) shape.insert(shape.begin(), 1);
  const auto refuse = [&](std::string_view rule) {
    return InvalidArgument("images: got {}; {}.", images.type().ToString(), rule);
  };
  if (shape.size() != 4) return refuse("the shape of images is [h,w], [h,w,c] or [n,h,w,c]");
  if (shape[3] < 1 || shape[3] > 4)
    return refuse("they have 1 channel (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)");
  if (shape[1] < 1 || shape[2] < 1) return refuse("an image has at least one pixel");
  if (shape[1] > kMostLevels / shape[2] / shape[3]) return refuse("an image has at most 2^30 levels");
  if (!IsReal(images.dtype()) && images.dtype() != BOOL && images.dtype() != U8)
    return refuse("their levels are u8, or real numbers from 0 to 1; cast and divide by the largest level");
  return shape;
}

}  // namespace

absl::StatusOr<std::vector<Image>> ImagesOf(const Tensor& images) {
  MESHWORK_ASSIGN_OR_RETURN(const Shape shape, ShapeOfImages(images));
  std::vector<Image> result(static_cast<size_t>(shape[0]), {shape[1], shape[2], shape[3], ""});
  const auto bytes = static_cast<size_t>(shape[1] * shape[2] * shape[3]);
  DispatchAny(images.dtype(), [&](auto zero) {
    const auto levels = images.values<decltype(zero)>();
    constexpr double kOne = std::is_same_v<decltype(zero), uint8_t> ? 255 : 1;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i].pixels.resize(bytes);
      for (size_t p = 0; p < bytes; ++p)
        result[i].pixels[p] = static_cast<char>(ByteOf(static_cast<double>(levels[i * bytes + p]) / kOne));
    }
  });
  return result;
}

std::string EncodePng(const Image& image) {
  constexpr std::string_view kColorTypes("\0\4\2\6", 4);  // per number of channels
  std::string png = "\x89PNG\r\n\x1a\n";
  std::string header;
  AppendBigEndian(header, static_cast<uint32_t>(image.width));
  AppendBigEndian(header, static_cast<uint32_t>(image.height));
  header += '\x08';  // bits per channel
  header += kColorTypes[static_cast<size_t>(image.channels - 1)];
  header.append(3, '\0');  // the only compression, the only set of filters, not interlaced
  AppendChunk(png, "IHDR", header);

  const auto row = static_cast<size_t>(image.width * image.channels);
  std::string filtered;
  filtered.reserve((row + 1) * static_cast<size_t>(image.height));
  for (size_t y = 0; y < static_cast<size_t>(image.height); ++y) {
    filtered += '\0';  // no filter
    filtered.append(image.pixels, y * row, row);
  }
  AppendChunk(png, "IDAT", Compressed(filtered));
  AppendChunk(png, "IEND", "");
  return png;
}

absl::StatusOr<Tensor> ImageGrid(const Tensor& images, int64_t columns) {
  MESHWORK_RETURN_IF_ERROR(images.status());
  Shape shape = images.shape();
  if (columns < 1 || shape.size() < 3 || shape.size() > 4 || shape[0] < 1)
    return InvalidArgument(
        "ImageGrid: got {} and {}; it takes one image or more, [n,h,w] or [n,h,w,c], and one column or more.",
        images.type().ToString(), Count(columns, "column"));
  const int64_t n = shape[0], h = shape[1], w = shape[2];
  const int64_t row_bytes = w * (shape.size() == 4 ? shape[3] : 1) * DTypeSize(images.dtype());
  shape.erase(shape.begin());
  shape[0] = (n + columns - 1) / columns * h;
  shape[1] = columns * w;
  Tensor grid = Tensor::Zeros({images.dtype(), shape});
  MESHWORK_RETURN_IF_ERROR(grid.status());
  const auto* from = static_cast<const std::byte*>(images.raw());
  auto* to = static_cast<std::byte*>(grid.raw());
  for (int64_t i = 0; i < n && row_bytes > 0; ++i)
    for (int64_t y = 0; y < h; ++y)
      std::memcpy(to + ((i / columns * h + y) * columns + i % columns) * row_bytes,
                  from + (i * h + y) * row_bytes, static_cast<size_t>(row_bytes));
  return grid;
}

}  // namespace meshwork
