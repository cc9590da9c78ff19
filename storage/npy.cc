#include "meshwork/storage/npy.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string_view>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/byte_source.h"
#include "meshwork/storage/npy_header.h"
#include "meshwork/storage/show_json.h"
#include "meshwork/storage/stored_type.h"
#include "meshwork/storage/zip.h"

namespace meshwork {
namespace {

constexpr std::string_view kExtension = ".npy";
constexpr size_t kMaxName = 65000;
constexpr int64_t kArrayBuffer = int64_t{1} << 20;

void SwapBytes(std::span<std::byte> elements, int64_t size) {
  for (auto at = elements.begin(); at != elements.end(); at += size) std::reverse(at, at + size);
}

// Checks that the elements at `bytes`, numbered from `begin` on, have values that their dtype can hold.
absl::Status CheckElements(std::string_view place, const NpyHeader& header, std::span<const std::byte> bytes,
                           int64_t begin) {
  if (header.stored == StoredType::kBool) {
    const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (wrong == bytes.end()) return absl::OkStatus();
    return InvalidArgument("{}: element {} is {}; a bool is 0 or 1.", place, begin + (wrong - bytes.begin()),
                           static_cast<int>(*wrong));
  }
  if (!header.is_u64) return absl::OkStatus();
  for (size_t i = 7; i < bytes.size(); i += 8)
    if ((bytes[i] & std::byte{0x80}) != std::byte{0})
      return InvalidArgument(
          "{}: element {} is 2^63 or more, which no i64 holds; save it as a float or another type.", place,
          begin + static_cast<int64_t>(i / 8));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadArray(std::string_view place, ByteSource& source) {
  MESHWORK_ASSIGN_OR_RETURN(const NpyHeader header, ReadNpyHeader(place, source));
  Type type = header.type();
  const int64_t stored_size = StoredTypeSize(header.stored);
  if (source.left() != type.num_elements() * stored_size)
    return InvalidArgument(
        "{}: holds {} behind its header, and not the {} of {} of {}; it is incomplete or damaged, "
        "write or fetch it again.",
        place, Count(source.left(), "byte"), type.num_elements() * stored_size,
        Count(type.num_elements(), "element"), Count(stored_size, "byte"));
  // Row-major, an array in Fortran order has its dims the other way round.
  if (header.is_fortran) std::reverse(type.shape.begin(), type.shape.end());
  Tensor tensor(type);
  auto* const out = static_cast<std::byte*>(tensor.raw());
  const bool converts = WrittenType(type.dtype) != header.stored;
  std::vector<std::byte> buffer(static_cast<size_t>(converts ? std::min(kArrayBuffer, source.left()) : 0));
  for (int64_t begin = 0; begin < type.num_elements();) {
    const int64_t count = std::min(kArrayBuffer / stored_size, type.num_elements() - begin);
    std::byte* const target = out + begin * DTypeSize(type.dtype);
    const std::span<std::byte> bytes(converts ? buffer.data() : target,
                                     static_cast<size_t>(count * stored_size));
    MESHWORK_RETURN_IF_ERROR(source.Read(bytes));
    if (header.is_big_endian) SwapBytes(bytes, stored_size);
    MESHWORK_RETURN_IF_ERROR(CheckElements(place, header, bytes, begin));
    if (converts) Convert(header.stored, bytes.data(), type.dtype, target, count);
    begin += count;
  }
  return header.is_fortran ? tensor.Transposed() : tensor;
}

// A tensor as it is written.
struct NewArray {
  Tensor tensor;
  std::string header;

  explicit NewArray(const Tensor& x)
      : tensor(x.dtype() == BF16 ? x.Cast(F32) : x), header(NpyHeaderOf(x.type())) {}
  std::vector<std::string_view> pieces() const {
    return {header, {static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes())}};
  }
};

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  FileSource source(std::move(file));
  return ReadArray(path, source);
}

absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> ReadNpz(const std::string& path,
                                                                    const UnpackOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const ZipFile zip, ZipFile::Open(path, options));
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::set<std::string_view> names;
  for (const ZipMember& member : zip.members()) {
    std::string_view name = member.name;
    if (!name.ends_with(kExtension))
      return InvalidArgument("{}: is no array: its name does not end in {}; take it out of the archive.",
                             PlaceOfTensor(path, member.name), kExtension);
    name.remove_suffix(kExtension.size());
    const std::string place = PlaceOfTensor(path, std::string(name));
    if (!names.insert(name).second)
      return InvalidArgument("{}: is in the archive twice; names must be unique.", place);
    MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> source, zip.Read(member));
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, ReadArray(place, *source));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("{}: ", path)));
  const NewArray written(tensor);
  return WriteFileAtomically(path, written.pieces());
}

absl::Status WriteNpz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::set<std::string_view> names;
  std::vector<NewArray> arrays;
  for (const auto& [name, tensor] : tensors) {
    const std::string place = PlaceOfTensor(path, name);
    if (!names.insert(name).second)
      return InvalidArgument("{}: is given twice; names must be unique.", place);
    if (name.size() > kMaxName)
      return InvalidArgument("{}: a name of {} bytes; at most {} are allowed.", place, name.size(), kMaxName);
    if (name.find('\0') != std::string::npos)
      return InvalidArgument("{}: a name with a zero byte; readers of zip archives end it there.", place);
    MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("{}: ", place)));
    arrays.emplace_back(tensor);
  }
  std::vector<NewZipMember> members;
  for (size_t i = 0; i < tensors.size(); ++i)
    members.push_back({fmt::format("{}{}", tensors[i].first, kExtension), arrays[i].pieces()});
  return WriteZip(path, members);
}

}  // namespace meshwork
