// PNG and JPEG files, written by libpng and libjpeg, for tests.
#pragma once

#include <stdio.h>  // jpeglib.h needs it
// clang-format off
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>
// clang-format on

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwork {

struct PngKind {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<png_byte> palette_alpha = {};
  std::optional<png_color_16> transparent = {};

  int samples() const {
    return type == PNG_COLOR_TYPE_PALETTE
               ? 1
               : ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + ((type & PNG_COLOR_MASK_ALPHA) != 0 ? 1 : 0);
  }
};

// `samples`: of each pixel kind.samples(), each of kind.bits bits.
inline std::string PngBytes(const PngKind& kind, int height, int width,
                            const std::vector<uint16_t>& samples) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(bytes), n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.bits,
               kind.type, kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, 0, 0);
  if (!kind.palette.empty())
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  if (!kind.palette_alpha.empty())
    png_set_tRNS(png, info, kind.palette_alpha.data(), static_cast<int>(kind.palette_alpha.size()), nullptr);
  if (kind.transparent.has_value()) png_set_tRNS(png, info, nullptr, 0, &*kind.transparent);
  png_write_info(png, info);

  const size_t per_row = static_cast<size_t>(width * kind.samples());
  std::vector<std::vector<png_byte>> rows;
  std::vector<png_bytep> pointers;
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    std::vector<png_byte>& row = rows.emplace_back((per_row * static_cast<size_t>(kind.bits) + 7) / 8);
    size_t bit = 0;
    for (size_t i = 0; i < per_row; ++i)
      for (int b = kind.bits; b-- > 0; ++bit)
        row[bit / 8] =
            static_cast<png_byte>(row[bit / 8] | (samples[y * per_row + i] >> b & 1) << (7 - bit % 8));
  }
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

// Computes the checksums of all chunks again, as far as the lengths of chunks are valid.
inline void FixPngChecksums(std::string& file) {
  const auto number = [&](size_t at) {
    uint32_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<uint8_t>(file[at + i]);
    return size_t{n};
  };
  for (size_t at = 8; at + 12 <= file.size() && number(at) <= file.size() - at - 12; at += number(at) + 12) {
    const auto* body = reinterpret_cast<const Bytef*>(file.data() + at + 4);
    const uLong crc = crc32_z(0, body, number(at) + 4);
    for (size_t i = 0; i < 4; ++i) file[at + 8 + number(at) + i] = static_cast<char>(crc >> (24 - 8 * i));
  }
}

struct JpegKind {
  J_COLOR_SPACE given = JCS_RGB;  // of the levels
  J_COLOR_SPACE stored = JCS_YCbCr;
  int quality = 100;
  bool progressive = false;
  bool small_colors = false;  // Cb and Cr have half as many rows and columns
  std::optional<bool> adobe = {};
  std::vector<jpeg_scan_info> scans = {};
};

// `levels`: height x width x channels bytes.
inline std::string JpegBytes(const JpegKind& kind, int height, int width, int channels,
                             std::string_view levels) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.input_components = channels;
  jpeg.in_color_space = kind.given;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, kind.stored);
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  if (!kind.small_colors)
    for (int i = 0; i < jpeg.num_components; ++i)
      jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  if (kind.adobe.has_value()) jpeg.write_Adobe_marker = *kind.adobe ? TRUE : FALSE;
  if (!kind.scans.empty()) {
    jpeg.scan_info = kind.scans.data();
    jpeg.num_scans = static_cast<int>(kind.scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  std::string row;
  while (jpeg.next_scanline < jpeg.image_height) {
    const size_t per_row = static_cast<size_t>(width * channels);
    row = levels.substr(jpeg.next_scanline * per_row, per_row);
    auto* pointer = reinterpret_cast<JSAMPLE*>(row.data());
    jpeg_write_scanlines(&jpeg, &pointer, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  free(bytes);
  return file;
}

// A grey progressive JPEG of that many scans, at most 694. All scans but the first ones change nothing.
inline std::string JpegOfScans(int scans, int height, int width) {
  JpegKind kind{.given = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE};
  kind.scans.push_back({.comps_in_scan = 1, .component_index = {0}, .Ss = 0, .Se = 0, .Ah = 0, .Al = 0});
  for (int k = 1; k < 64; ++k)
    for (int low = 10; low >= 0 && std::ssize(kind.scans) < scans; --low)
      kind.scans.push_back({.comps_in_scan = 1,
                            .component_index = {0},
                            .Ss = k,
                            .Se = k,
                            .Ah = low == 10 ? 0 : low + 1,
                            .Al = low});
  return JpegBytes(kind, height, width, 1,
                   std::string(static_cast<size_t>(height) * static_cast<size_t>(width), '\x40'));
}

}  // namespace meshwork
