#include "meshwork/storage/gguf_file.h"

#include <algorithm>
#include <span>

#include "meshwork/base/status.h"
#include "meshwork/storage/gguf_header.h"
#include "meshwork/storage/show_json.h"

namespace meshwork {
namespace {

// Elements that cannot be read directly into place pass through a buffer of this size.
constexpr int64_t kBlockBuffer = int64_t{1} << 20;

absl::Status NotRead(const std::string& path, const GgufEntry& entry) {
  return InvalidArgument("{}: is stored as {}; {} are read, convert the file to one of them.",
                         PlaceOfTensor(path, entry.name), GgmlTypeName(entry.stored), ReadGgmlTypeNames());
}

}  // namespace

std::optional<int64_t> WholeNumber(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value); number != nullptr && *number <= uint64_t{INT64_MAX})
    return static_cast<int64_t>(*number);
  return std::nullopt;
}

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(path));
  MESHWORK_ASSIGN_OR_RETURN(GgufHeader header, ReadGgufHeader(opened));
  GgufFile file(std::move(opened), header.data_begin);
  file.entries_ = std::move(header.entries);
  file.metadata_ = std::move(header.metadata);
  for (size_t i = 0; i < file.entries_.size(); ++i) file.entry_index_.emplace(file.entries_[i].name, i);
  for (size_t i = 0; i < file.metadata_.size(); ++i) file.metadata_index_.emplace(file.metadata_[i].first, i);
  return file;
}

const GgufEntry* GgufFile::Find(std::string_view name) const {
  const auto found = entry_index_.find(name);
  return found == entry_index_.end() ? nullptr : &entries_[found->second];
}

const GgufValue* GgufFile::FindMetadata(std::string_view key) const {
  const auto found = metadata_index_.find(key);
  return found == metadata_index_.end() ? nullptr : &metadata_[found->second].second;
}

absl::StatusOr<GgufEntry> GgufFile::As(const GgufEntry& entry, DType dtype) const {
  const std::optional<GgmlForm> form = FormOf(entry.stored);
  if (!form.has_value()) return NotRead(path(), entry);
  if (!CanReadAs(form->element, dtype)) {
    return InvalidArgument("{}: is stored as {} and is to be read as {}; it can be read as {}.",
                           PlaceOfTensor(path(), entry.name), GgmlTypeName(entry.stored), DTypeName(dtype),
                           DTypesToReadAs(form->element));
  }
  GgufEntry as = entry;
  as.type.dtype = dtype;
  return as;
}

absl::StatusOr<Tensor> GgufFile::Read(const GgufEntry& entry) const {
  return ReadElements(entry, 0, entry.type);
}

absl::StatusOr<Tensor> GgufFile::ReadRows(const GgufEntry& entry, int64_t begin, int64_t count) const {
  const Shape& shape = entry.type.shape;
  if (shape.empty() || begin < 0 || count < 0 || begin > shape[0] || count > shape[0] - begin) {
    return InvalidArgument("{}: is {} and has no {} from row {} on; give rows of its first dim.",
                           PlaceOfTensor(path(), entry.name), entry.type.ToString(), Count(count, "row"),
                           begin);
  }
  Type type = entry.type;
  type.shape[0] = 1;
  const int64_t row = type.num_elements();
  type.shape[0] = count;
  return ReadElements(entry, begin * row, type);
}

absl::StatusOr<QuantizedMatrix> GgufFile::ReadBlocks(const GgufEntry& entry) const {
  const int bits = BitsOf(entry.stored);
  if (bits == 0)
    return InvalidArgument("{}: is stored as {}; Q4_0, Q4_1 and Q8_0 have blocks, read others by Read.",
                           PlaceOfTensor(path(), entry.name), GgmlTypeName(entry.stored));
  const QuantizedTypes types = QuantizedTypesOf(entry.type.shape, bits);
  QuantizedMatrix matrix{Tensor(types.q), Tensor(types.scale), {}};
  if (bits == 4) matrix.zero = Tensor(types.scale);
  for (const Tensor* part : {&matrix.q, &matrix.scale}) MESHWORK_RETURN_IF_ERROR(part->status());
  auto* q = static_cast<std::byte*>(matrix.q.raw());
  Float16* scale = matrix.scale.mutable_values<Float16>().data();
  Float16* zero = bits == 4 ? matrix.zero.mutable_values<Float16>().data() : nullptr;
  const int64_t size = FormOf(entry.stored)->bytes, all = types.scale.num_elements();
  const int64_t most = kBlockBuffer / size, of_q = types.q.shape.back();
  std::vector<std::byte> bytes;
  for (int64_t block = 0; block < all; block += most) {
    const int64_t blocks = std::min(most, all - block);
    bytes.resize(static_cast<size_t>(blocks * size));
    MESHWORK_RETURN_IF_ERROR(file_.ReadAt(data_begin_ + entry.begin + block * size, bytes));
    const bool fits = SplitBlocks(entry.stored, bytes.data(), blocks, q + block * of_q, scale + block,
                                  zero == nullptr ? nullptr : zero + block);
    if (!fits)
      return InvalidArgument("{}: a scale is beyond 8188, and -8 scale beyond f16; read it as f32.",
                             PlaceOfTensor(path(), entry.name));
  }
  return matrix;
}

absl::StatusOr<Tensor> GgufFile::ReadElements(const GgufEntry& entry, int64_t first, const Type& type) const {
  const std::optional<GgmlForm> form = FormOf(entry.stored);
  if (!form.has_value()) return NotRead(path(), entry);
  const int64_t offset = data_begin_ + entry.begin, end = first + type.num_elements();
  Tensor tensor(type);
  MESHWORK_RETURN_IF_ERROR(tensor.status());
  auto* const to = static_cast<std::byte*>(tensor.raw());
  if (form->block == 1 && WrittenType(type.dtype) == form->element) {
    MESHWORK_RETURN_IF_ERROR(
        file_.ReadAt(offset + first * form->bytes, {to, static_cast<size_t>(tensor.bytes())}));
    return tensor;
  }
  const int64_t size = DTypeSize(type.dtype), element_size = StoredTypeSize(form->element);
  const int64_t most = kBlockBuffer / form->bytes;  // blocks
  std::vector<std::byte> bytes;
  std::vector<float> floats;
  const int64_t end_block = (end + form->block - 1) / form->block;
  for (int64_t block = first / form->block; block < end_block && first < end; block += most) {
    const int64_t blocks = std::min(most, end_block - block);
    bytes.resize(static_cast<size_t>(blocks * form->bytes));
    MESHWORK_RETURN_IF_ERROR(file_.ReadAt(offset + block * form->bytes, bytes));
    const std::byte* elements = bytes.data();
    if (form->block > 1) {
      floats.resize(static_cast<size_t>(blocks * form->block));
      Dequantize(entry.stored, bytes.data(), blocks, floats.data());
      elements = reinterpret_cast<const std::byte*>(floats.data());
    }
    // Rows of a tensor of one dim may begin and end within blocks.
    const int64_t begin = block * form->block;
    const int64_t low = std::max(first, begin), high = std::min(end, begin + blocks * form->block);
    Convert(form->element, elements + (low - begin) * element_size, type.dtype, to + (low - first) * size,
            high - low);
  }
  return tensor;
}

}  // namespace meshwork
