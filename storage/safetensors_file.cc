#include "meshwork/storage/safetensors_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/storage/safetensors_header.h"
#include "meshwork/storage/show_json.h"

namespace meshwork {
namespace {

// Elements that cannot be read directly into place pass through a buffer of this size.
constexpr int64_t kReadBuffer = int64_t{1} << 20;

// Whether `box` lies in the block of `shape` that begins at `start`.
bool LiesIn(const Block& box, const Shape& start, const Shape& shape) {
  if (box.size() != shape.size() || start.size() != shape.size()) return false;
  for (size_t d = 0; d < box.size(); ++d) {
    // Adds no sizes, as that may overflow. A buffer may begin before the tensor does.
    int64_t offset = 0;
    if (__builtin_sub_overflow(box[d].start, start[d], &offset) || offset < 0 || shape[d] < 0 ||
        box[d].size < 0 || offset > shape[d] || box[d].size > shape[d] - offset)
      return false;
  }
  return true;
}

// The buffer that holds just `box`.
BoxBuffer BufferOf(const Block& box) {
  BoxBuffer buffer{Shape(box.size()), Shape(box.size())};
  for (size_t d = 0; d < box.size(); ++d) {
    buffer.start[d] = box[d].start;
    buffer.shape[d] = box[d].size;
  }
  return buffer;
}

std::string ShowBuffer(const BoxBuffer& buffer) {
  return fmt::format("{} from {} on", ShapeToString(buffer.shape), ShapeToString(buffer.start));
}

absl::Status CheckBox(const Type& type, const Block& box, const BoxBuffer& to) {
  if (!LiesIn(box, Shape(type.shape.size(), 0), type.shape)) {
    return InvalidArgument("the box {} does not lie in {}; give a block of the tensor.",
                           ShowBuffer(BufferOf(box)), type.ToString());
  }
  if (!LiesIn(box, to.start, to.shape)) {
    return InvalidArgument("the box {} does not lie in the buffer {}; give a buffer that holds all of it.",
                           ShowBuffer(BufferOf(box)), ShowBuffer(to));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(path));
  MESHWORK_ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(opened));
  SafetensorsFile file(std::move(opened), header.data_begin);
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < file.entries_.size(); ++i) file.index_.emplace(file.entries_[i].name, i);
  return file;
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<SafetensorsEntry> SafetensorsFile::As(const SafetensorsEntry& entry, DType dtype) const {
  if (!CanReadAs(entry.stored, dtype)) {
    return InvalidArgument("{}: its dtype is {} and it is to be read as {}; it can be read as {}.",
                           PlaceOfTensor(path(), entry.name), StoredTypeName(entry.stored), DTypeName(dtype),
                           DTypesToReadAs(entry.stored));
  }
  SafetensorsEntry as = entry;
  as.type.dtype = dtype;
  return as;
}

absl::StatusOr<Tensor> SafetensorsFile::Read(const SafetensorsEntry& entry) const {
  Tensor tensor(entry.type);
  MESHWORK_RETURN_IF_ERROR(ReadBox(entry, WholeBlock(entry.type.shape), BoxBuffer::Whole(entry.type.shape),
                                   static_cast<std::byte*>(tensor.raw())));
  return tensor;
}

absl::Status SafetensorsFile::ReadBox(const SafetensorsEntry& entry, const Block& box, const BoxBuffer& to,
                                      std::byte* data) const {
  MESHWORK_RETURN_IF_ERROR(
      Annotate(CheckBox(entry.type, box, to), fmt::format("{}: ", PlaceOfTensor(path(), entry.name))));
  // Elements that lie side by side in the file do so in the box, too.
  const BoxCopy from_file(box, BoxBuffer::Whole(entry.type.shape), BufferOf(box));
  const BoxCopy to_buffer(box, BufferOf(box), to);
  const int64_t stored_size = StoredTypeSize(entry.stored), size = DTypeSize(entry.type.dtype);
  absl::Status status;
  // Elements [begin, end) of the box, to `target`.
  const auto read = [&](int64_t begin, int64_t end, std::byte* target) {
    from_file.ForRuns(begin, end, [&](int64_t from, int64_t at, int64_t count) {
      if (!status.ok()) return;
      status = ReadRun(entry, from,
                       {target + (at - begin) * stored_size, static_cast<size_t>(count * stored_size)});
    });
  };
  if (to_buffer.contiguous() && WrittenType(entry.type.dtype) == entry.stored) {
    to_buffer.ForRuns(0, to_buffer.elements(),
                      [&](int64_t, int64_t target, int64_t count) { read(0, count, data + target * size); });
    return status;
  }
  const int64_t most = kReadBuffer / stored_size;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(most, from_file.elements()) * stored_size));
  for (int64_t begin = 0; begin < from_file.elements(); begin += most) {
    const int64_t end = std::min(begin + most, from_file.elements());
    read(begin, end, buffer.data());
    MESHWORK_RETURN_IF_ERROR(status);
    to_buffer.ForRuns(begin, end, [&](int64_t from, int64_t target, int64_t count) {
      Convert(entry.stored, buffer.data() + (from - begin) * stored_size, entry.type.dtype,
              data + target * size, count);
    });
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadRun(const SafetensorsEntry& entry, int64_t begin,
                                      std::span<std::byte> bytes) const {
  const int64_t offset = data_begin_ + entry.begin + begin * StoredTypeSize(entry.stored);
  MESHWORK_RETURN_IF_ERROR(file_.ReadAt(offset, bytes));
  *bytes_read_ += static_cast<int64_t>(bytes.size());
  if (entry.stored != StoredType::kBool) return absl::OkStatus();
  // A C++ bool may hold only 0 and 1.
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong == bytes.end()) return absl::OkStatus();
  return InvalidArgument("{}: element {} is {}; a BOOL is 0 or 1.", PlaceOfTensor(path(), entry.name),
                         begin + (wrong - bytes.begin()), static_cast<int>(*wrong));
}

}  // namespace meshwork
