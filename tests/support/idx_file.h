// Files of the IDX format, and gzipped ones, for tests.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork {

inline std::string Bytes(const std::vector<int>& values) { return std::string(values.begin(), values.end()); }

// An IDX file of unsigned bytes 0, 1, 2, ….
inline std::string Idx(const std::vector<uint32_t>& dims, size_t elements) {
  std::string file = Bytes({0, 0, 8, static_cast<int>(dims.size())});
  for (uint32_t dim : dims)
    for (int shift : {24, 16, 8, 0}) file += static_cast<char>(dim >> shift);
  for (size_t i = 0; i < elements; ++i) file += static_cast<char>(i % 251);
  return file;
}

inline std::string Gzip(const std::string& contents) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, contents.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace meshwork
