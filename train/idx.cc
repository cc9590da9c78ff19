#include "meshwork/train/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor.h"
#include "meshwork/storage/file.h"

namespace meshwork {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kPortion = size_t{1} << 20;
constexpr size_t kUsualRatio = 8;  // of data to its gzipped file; MNIST has 5

// The bytes of a file, unpacked if it is gzipped, a portion at a time.
class Unpacker {
 public:
  Unpacker(const std::string& path, std::string_view file) : path_(path), rest_(file), gzip_(StartsGzip()) {
    // 15: the largest window; 16: a gzip header and trailer.
    if (gzip_) MESHWORK_CHECK(inflateInit2(&stream_, 15 + 16) == Z_OK, "zlib {}", zlibVersion());
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
  ~Unpacker() {
    if (gzip_) inflateEnd(&stream_);
  }

  // Fills `out` as far as the data goes; returns how far. Fewer bytes than asked for mean the end, and that
  // the checksum was right.
  absl::StatusOr<size_t> Read(std::span<uint8_t> out) {
    if (gzip_) return Inflate(out);
    const size_t n = std::min(out.size(), rest_.size());
    if (n > 0) std::memcpy(out.data(), rest_.data(), n);
    rest_.remove_prefix(n);
    return n;
  }

 private:
  bool StartsGzip() const { return rest_.starts_with("\x1f\x8b"); }

  absl::StatusOr<size_t> Inflate(std::span<uint8_t> out) {
    size_t filled = 0;
    while (filled < out.size() && !ended_) {
      const size_t offered = std::min(rest_.size(), kPortion);
      const size_t wanted = std::min(out.size() - filled, kPortion);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(offered);
      stream_.next_out = out.data() + filled;
      stream_.avail_out = static_cast<uInt>(wanted);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      rest_.remove_prefix(offered - stream_.avail_in);
      filled += wanted - stream_.avail_out;
      unpacked_ += wanted - stream_.avail_out;
      if (result == Z_STREAM_END) {
        MESHWORK_RETURN_IF_ERROR(EndMember());
      } else if (result == Z_BUF_ERROR || (result == Z_OK && rest_.empty() && stream_.avail_out > 0)) {
        return InvalidArgument(
            "{}: the gzip data is cut off after {} unpacked bytes; the file is incomplete, fetch it again.",
            path_, unpacked_);
      } else if (result != Z_OK) {
        return InvalidArgument(
            "{}: the gzip data is damaged after {} unpacked bytes ({}); fetch the file again.", path_,
            unpacked_, stream_.msg != nullptr ? stream_.msg : zError(result));
      }
    }
    return filled;
  }

  // A gzip file may consist of several members, one after the other.
  absl::Status EndMember() {
    ended_ = !StartsGzip();
    if (!ended_) {
      MESHWORK_CHECK(inflateReset(&stream_) == Z_OK);
      return absl::OkStatus();
    }
    if (rest_.empty()) return absl::OkStatus();
    return InvalidArgument(
        "{}: the gzip data ends {} before the file does; the file is damaged, fetch it again.", path_,
        Count(static_cast<int64_t>(rest_.size()), "byte"));
  }

  const std::string& path_;
  std::string_view rest_;
  const bool gzip_;
  bool ended_ = false;
  uint64_t unpacked_ = 0;
  z_stream stream_ = {};
};

std::string_view ElementTypeName(uint8_t type) {
  switch (type) {
    case 0x09: return "signed bytes";
    case 0x0b: return "16-bit integers";
    case 0x0c: return "32-bit integers";
    case 0x0d: return "32-bit floats";
    case 0x0e: return "64-bit floats";
    default: return "unknown";
  }
}

absl::StatusOr<Shape> ReadHeader(const std::string& path, Unpacker& in) {
  uint8_t magic[4];
  MESHWORK_ASSIGN_OR_RETURN(const size_t n, in.Read(magic));
  if (n == 0) return InvalidArgument("{}: is empty; an IDX file starts with 00 00 08 and its rank.", path);
  if (n < sizeof(magic) || magic[0] != 0 || magic[1] != 0) {
    return InvalidArgument("{}: starts with {:02x}; an IDX file starts with 00 00 08 and its rank.", path,
                           fmt::join(std::span(magic, n), " "));
  }
  if (magic[2] != kUnsignedByte) {
    return InvalidArgument("{}: its elements have type {:#04x} ({}); only unsigned bytes (0x08) are read.",
                           path, magic[2], ElementTypeName(magic[2]));
  }
  if (magic[3] == 0) return InvalidArgument("{}: has no dims; an IDX file has at least one.", path);

  Shape shape;
  int64_t elements = 1;
  for (int d = 0; d < magic[3]; ++d) {
    uint8_t size[4];
    MESHWORK_ASSIGN_OR_RETURN(const size_t read, in.Read(size));
    if (read < sizeof(size)) {
      return InvalidArgument(
          "{}: ends inside its header, in dim {} of {}; the file is incomplete, fetch it again.", path, d,
          magic[3]);
    }
    shape.push_back(int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
    if (__builtin_mul_overflow(elements, shape.back(), &elements)) {
      return InvalidArgument(
          "{}: dims {} multiply to more than 2^63 elements; the header is damaged, fetch the file again.",
          path, ShapeToString(shape));
    }
  }
  return shape;
}

// Room for bytes that come one after the other. Fresh memory is not touched before they do.
class ByteBuffer {
 public:
  explicit ByteBuffer(size_t capacity) { Reserve(capacity); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  std::span<uint8_t> free() { return {data() + size_, capacity_ - size_}; }
  void Take(size_t n) { size_ += n; }  // of free(), which now hold data
  void Reserve(size_t capacity) {
    std::shared_ptr<void> storage = AllocateAligned(static_cast<int64_t>(capacity));
    if (size_ > 0) std::memcpy(storage.get(), storage_.get(), size_);
    storage_ = std::move(storage);
    capacity_ = capacity;
  }
  const std::shared_ptr<void>& storage() const { return storage_; }

 private:
  uint8_t* data() const { return static_cast<uint8_t*>(storage_.get()); }

  std::shared_ptr<void> storage_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace

absl::StatusOr<IdxData> ReadIdx(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  Unpacker in(path, file);
  IdxData data;
  MESHWORK_ASSIGN_OR_RETURN(data.shape, ReadHeader(path, in));

  const size_t elements = static_cast<size_t>(NumElements(data.shape));
  // Grow with what has been read, so that a wild header costs nothing.
  ByteBuffer bytes(std::min(elements, std::max(kPortion, kUsualRatio * file.size())));
  while (bytes.size() < elements) {
    if (bytes.size() == bytes.capacity()) bytes.Reserve(std::min(elements, 2 * bytes.size()));
    MESHWORK_ASSIGN_OR_RETURN(const size_t n, in.Read(bytes.free()));
    bytes.Take(n);
    if (bytes.size() < bytes.capacity()) {
      return InvalidArgument("{}: {} says {} but the file holds {}; it is incomplete, fetch it again.", path,
                             ShapeToString(data.shape), Count(static_cast<int64_t>(elements), "element"),
                             bytes.size());
    }
  }
  data.storage = bytes.storage();
  data.bytes = {static_cast<const uint8_t*>(data.storage.get()), elements};
  uint8_t extra;
  MESHWORK_ASSIGN_OR_RETURN(const size_t more, in.Read(std::span(&extra, 1)));
  if (more > 0) {
    return InvalidArgument("{}: {} says {} but the file holds more; it is damaged, fetch it again.", path,
                           ShapeToString(data.shape), Count(static_cast<int64_t>(elements), "element"));
  }
  return data;
}

}  // namespace meshwork
