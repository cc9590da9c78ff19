// Bytes of .npy arrays and of .npz archives with them, right and wrong ones.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"

namespace meshwork {

// `number` in `bytes` bytes, little-endian.
inline std::string LittleEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}

// An array with this header and data, version 1.0.
inline std::string EncodeNpy(std::string_view header, std::string_view data = "") {
  std::string file("\x93NUMPY\x01\x00", 8);
  return file.append(LittleEndian(header.size(), 2)).append(header).append(data);
}

inline std::string FloatHeader(int64_t size) {
  return fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", size);
}

// One member of an archive, whose records say what they like.
struct ZipBytes {
  std::string name;
  std::string packed;  // what is in the file
  uint64_t size = 0;   // that it is said to unpack to
  uint32_t crc = 0;
  int method = 0;
  int flags = 0;

  static ZipBytes Stored(std::string name, std::string data) {
    return {.name = std::move(name), .packed = data, .size = data.size(), .crc = Crc(data)};
  }
  static ZipBytes Deflated(std::string name, const std::string& data) {
    z_stream stream = {};
    MESHWORK_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(deflateBound(&stream, data.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    MESHWORK_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return {.name = std::move(name), .packed = out, .size = data.size(), .crc = Crc(data), .method = 8};
  }
  static uint32_t Crc(const std::string& data) {
    return static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
  }
};

// An archive of these, written after APPNOTE.TXT by hand. wide: all sizes and places are in the fields of ZIP64.
inline std::string EncodeZip(const std::vector<ZipBytes>& members, bool wide = false) {
  const auto narrow = [&](uint64_t number) { return LittleEndian(wide ? 0xffffffff : number, 4); };
  std::string file, directory;
  for (const ZipBytes& m : members) {
    const uint64_t header = file.size();
    const std::string common = LittleEndian(static_cast<uint64_t>(m.flags), 2) +
                               LittleEndian(static_cast<uint64_t>(m.method), 2) + LittleEndian(0, 4) +
                               LittleEndian(m.crc, 4) + narrow(m.packed.size()) + narrow(m.size) +
                               LittleEndian(m.name.size(), 2);
    std::string extra = LittleEndian(0xcafe, 2) + LittleEndian(2, 2) + "??";  // of somebody else
    if (wide) {
      extra += LittleEndian(1, 2) + LittleEndian(24, 2) + LittleEndian(m.size, 8) +
               LittleEndian(m.packed.size(), 8) + LittleEndian(header, 8);
    }
    file +=
        "PK\3\4" + LittleEndian(20, 2) + common + LittleEndian(extra.size(), 2) + m.name + extra + m.packed;
    directory += "PK\1\2" + LittleEndian(20, 2) + LittleEndian(20, 2) + common +
                 LittleEndian(extra.size(), 2) + LittleEndian(7, 2) + std::string(8, '\0') + narrow(header) +
                 m.name + extra + "comment";
  }
  const uint64_t begin = file.size(), size = directory.size(), count = members.size();
  file += directory;
  if (wide) {
    file += "PK\6\6" + LittleEndian(44, 8) + LittleEndian(45, 2) + LittleEndian(45, 2) + LittleEndian(0, 8) +
            LittleEndian(count, 8) + LittleEndian(count, 8) + LittleEndian(size, 8) + LittleEndian(begin, 8);
    file += "PK\6\7" + LittleEndian(0, 4) + LittleEndian(begin + size, 8) + LittleEndian(1, 4);
  }
  file += "PK\5\6" + LittleEndian(0, 4) + LittleEndian(wide ? 0xffff : count, 2) +
          LittleEndian(wide ? 0xffff : count, 2) + narrow(size) + narrow(begin);
  const std::string comment = "PK\5\6 is how the end begins";
  return file + LittleEndian(comment.size(), 2) + comment;
}

inline std::string DeflatedZip(const std::vector<std::pair<std::string, std::string>>& files) {
  std::vector<ZipBytes> members;
  for (const auto& [name, data] : files) members.push_back(ZipBytes::Deflated(name, data));
  return EncodeZip(members);
}

}  // namespace meshwork
