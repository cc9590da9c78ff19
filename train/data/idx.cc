#include "meshwork/train/data/idx.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/data/unpacker.h"

namespace meshwork {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kPortion = size_t{1} << 20;
constexpr size_t kUsualRatio = 8;  // of data to its gzipped file; MNIST has 5

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

absl::StatusOr<Shape> ReadHeader(const std::string& path, internal::Unpacker& in) {
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

absl::StatusOr<IdxData> ReadIdx(const std::string& path, const UnpackOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  internal::Unpacker in(
      path, [rest = std::string_view(file)]() mutable { return std::exchange(rest, std::string_view()); });
  IdxData data;
  MESHWORK_ASSIGN_OR_RETURN(data.shape, ReadHeader(path, in));

  const size_t elements = static_cast<size_t>(NumElements(data.shape));
  if (in.is_packed())
    MESHWORK_RETURN_IF_ERROR(CheckUnpacks(path, std::ssize(file), static_cast<int64_t>(elements), options));
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
