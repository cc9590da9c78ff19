// A libFuzzer target: any bytes, read as a safetensors file, give an error or tensors. The tensors are the same
// whether they are read together, one by one, or in boxes, in their own dtype or in another.
//
// --prepare writes the initial corpus and a dictionary.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzzer.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/safetensors.h"
#include "meshwork/storage/safetensors_file.h"
#include "support/memory_file.h"
#include "support/safetensors_bytes.h"

namespace meshwork {
namespace {

constexpr std::string_view kWords[] = {"__metadata__", "dtype", "shape", "data_offsets", "F64", "F32",
                                       "F16",          "BF16",  "I64",   "I32",          "I16", "I8",
                                       "U32",          "U16",   "U8",    "BOOL"};

void CheckBlames(const absl::Status& status, const std::string& path) {
  if (!MessageOf(status).starts_with(path)) Finding("an error that does not say where", MessageOf(status));
}

// A block of a tensor of this shape.
Block DrawBox(std::mt19937_64& engine, const Shape& shape) {
  Block box;
  for (int64_t size : shape) {
    const auto start = static_cast<int64_t>(engine() % (static_cast<uint64_t>(size) + 1));
    box.push_back({start, static_cast<int64_t>(engine() % (static_cast<uint64_t>(size - start) + 1))});
  }
  return box;
}

// True if `part` is equal to `box` of `whole`, element by element.
bool IsBox(const std::vector<std::byte>& part, const Block& box, const Tensor& whole) {
  const auto size = static_cast<size_t>(DTypeSize(whole.dtype()));
  for (int64_t i = 0, elements = NumElements(box); i < elements; ++i) {
    int64_t rest = i, flat = 0, stride = 1;
    for (size_t d = box.size(); d-- > 0;) {
      flat += (box[d].start + rest % box[d].size) * stride;
      rest /= box[d].size;
      stride *= whole.shape()[d];
    }
    if (std::memcmp(part.data() + static_cast<size_t>(i) * size,
                    static_cast<const std::byte*>(whole.raw()) + static_cast<size_t>(flat) * size, size) != 0)
      return false;
  }
  return true;
}

void TryBox(const SafetensorsFile& file, const SafetensorsEntry& entry, const Tensor& whole,
            const Block& box) {
  BoxBuffer buffer;
  for (const Extent& extent : box) {
    buffer.start.push_back(extent.start);
    buffer.shape.push_back(extent.size);
  }
  std::vector<std::byte> part(static_cast<size_t>(NumElements(box) * DTypeSize(entry.type.dtype)));
  const int64_t before = file.bytes_read();
  const absl::Status status = file.ReadBox(entry, box, buffer, part.data());
  if (!status.ok()) Finding("a box that is not read, of a tensor that is", MessageOf(status));
  if (file.bytes_read() - before != NumElements(box) * StoredTypeSize(entry.stored))
    Finding("more or less than the bytes of the box are read", entry.name);
  if (!IsBox(part, box, whole)) Finding("a box differs from the tensor", BlockToString(box));
}

// True if the tensor could be read.
bool TryEntry(const SafetensorsFile& file, const SafetensorsEntry& entry, std::mt19937_64& engine) {
  const absl::StatusOr<Tensor> tensor = file.Read(entry);
  if (!tensor.ok()) {
    CheckBlames(tensor.status(), file.path());
    return false;
  }
  if (file.Find(entry.name) != &entry) Finding("a tensor that is not found", entry.name);
  if (tensor->type() != entry.type) Finding("a tensor of another type", entry.name);
  const Block box = DrawBox(engine, entry.type.shape);
  TryBox(file, entry, *tensor, box);
  for (DType dtype : kAllDTypes) {
    const absl::StatusOr<SafetensorsEntry> as = file.As(entry, dtype);
    if (as.ok() != CanReadAs(entry.stored, dtype))
      Finding("a conversion that is not in the table", entry.name);
    if (as.ok()) TryBox(file, *as, file.Read(*as).value(), box);
    else CheckBlames(as.status(), file.path());
  }
  return true;
}

void TryFile(std::string_view bytes) {
  const MemoryFile contents(bytes);
  const std::string path = contents.path();
  const auto together = ReadSafetensors(path);
  if (!together.ok()) CheckBlames(together.status(), path);
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok()) {
    CheckBlames(file.status(), path);
    if (together.ok()) Finding("a file that is read and not opened", MessageOf(file.status()));
    return;
  }
  std::mt19937_64 engine(StableHash(bytes));
  bool are_read = true;
  for (const SafetensorsEntry& entry : file->entries()) are_read = TryEntry(*file, entry, engine) && are_read;
  if (together.ok() != are_read) Finding("one way to read it fails, the other does not", path);
  if (!together.ok()) return;
  if (together->size() != file->entries().size()) Finding("another number of tensors", path);
  for (size_t i = 0; i < together->size(); ++i) {
    const auto& [name, tensor] = (*together)[i];
    const SafetensorsEntry& entry = file->entries()[i];
    if (name != entry.name || tensor.type() != entry.type ||
        RawBytes(tensor) != RawBytes(file->Read(entry).value()))
      Finding("a tensor differs", name);
  }
}

}  // namespace

void Try(std::string_view text) {
  TryFile(text);
  // As a header and data: a mutation of the header need not guess the header's new length.
  const size_t end = text.rfind('}');
  if (end != std::string_view::npos)
    TryFile(EncodeSafetensors(text.substr(0, end + 1), text.substr(end + 1)));
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream dictionary(folder / "words.dict");
  for (std::string_view word : kWords) dictionary << fmt::format("\"\\\"{}\\\"\"\n", word);
  const std::string header =
      R"({"__metadata__":{"step":"1"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("h":{"dtype":"F16","shape":[2,2],"data_offsets":[24,32]},)"
      R"("m":{"dtype":"BOOL","shape":[3],"data_offsets":[32,35]},)"
      R"("n":{"dtype":"U8","shape":[],"data_offsets":[35,36]}})";
  const std::string data = std::string(32, '?') + std::string("\0\1\0\xff", 4);
  std::ofstream(folder / "samples" / "file") << EncodeSafetensors(header, data);
  std::ofstream(folder / "samples" / "header_and_data") << header << data;
  std::ofstream(folder / "samples" / "empty") << EncodeSafetensors("{}");
}

}  // namespace meshwork
