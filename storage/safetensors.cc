#include "meshwork/storage/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "fmt/ranges.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/file.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

using Json = nlohmann::json;
using NamedTensor = std::pair<std::string, Tensor>;

constexpr std::string_view kMetadata = "__metadata__";
constexpr int64_t kLengthBytes = 8;
constexpr int64_t kAlignment = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // as the reference implementation

std::string_view FormatName(DType dtype) {
  constexpr std::string_view kNames[] = {"F32", "F64", "BF16", "I32", "I64", "BOOL"};
  return kNames[static_cast<int>(dtype)];
}

std::optional<DType> DTypeFromFormatName(std::string_view name) {
  for (DType dtype : kAllDTypes)
    if (FormatName(dtype) == name) return dtype;
  return std::nullopt;
}

// ---- Writing ----

absl::Status CheckHeaderBytes(const std::string& path, size_t num_tensors, size_t bytes) {
  if (bytes <= kMaxHeader) return absl::OkStatus();
  return InvalidArgument(
      "{}: the names and shapes of {} take more than the {} bytes of a header; give shorter names, or "
      "several files.",
      path, Count(static_cast<int64_t>(num_tensors), "tensor"), kMaxHeader);
}

absl::Status CheckNames(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> names;
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata) {
      return InvalidArgument("{}: a tensor is called \"{}\"; the format keeps that name for itself.", path,
                             name);
    }
    if (!names.insert(name).second) {
      return InvalidArgument("{}: tensor \"{}\" is given twice; names must be unique.", path, name);
    }
    MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("{}: tensor \"{}\": ", path, name)));
    bytes += name.size();
  }
  return CheckHeaderBytes(path, tensors.size(), bytes);
}

// Positions in `tensors`, widest elements first.
std::vector<size_t> DataOrder(const std::vector<NamedTensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return DTypeSize(tensors[a].second.dtype()) > DTypeSize(tensors[b].second.dtype());
  });
  return order;
}

// The header's length and the header. Error: a name is not UTF-8.
absl::StatusOr<std::string> EncodeHeader(const std::string& path, const std::vector<NamedTensor>& tensors,
                                         const std::vector<size_t>& data_order) {
  std::vector<int64_t> begins(tensors.size());
  int64_t end = 0;
  for (size_t i : data_order) {
    begins[i] = end;
    end += tensors[i].second.bytes();
  }
  std::vector<std::string> entries;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    std::string key;
    try {
      key = Json(name).dump();
    } catch (const Json::exception&) {
      return InvalidArgument("{}: tensor {}: its name is not UTF-8; the format allows no other.", path,
                             Json(name).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
    }
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", key,
                                  FormatName(tensor.dtype()), ShapeToString(tensor.shape()), begins[i],
                                  begins[i] + tensor.bytes()));
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string encoded(kLengthBytes, '\0');
  std::memcpy(encoded.data(), &length, sizeof(length));
  return encoded + text;
}

// ---- Reading ----

struct Entry {
  std::string name;
  Type type;
  int64_t begin = 0, end = 0;  // bytes after the header
};

// A JSON value for a message: on one line, in ASCII, not too long.
std::string Show(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > 60) text.replace(57, std::string::npos, "...");
  return text;
}

struct Header {
  Json json;                       // an object
  std::vector<std::string> names;  // its keys, in the file's order
};

// Parses the header and looks at no more than: that keys are not repeated, which the library would let pass,
// and that brackets do not nest so deep that printing them fails.
absl::StatusOr<Header> ParseHeader(const std::string& path, const std::string& text) {
  Header header;
  JsonOddities odd;
  try {
    odd = ParseJsonWatched(text, &header.json);
  } catch (const Json::parse_error& error) {
    return InvalidArgument("{}: the header is not JSON, at its byte {}; this is not a safetensors file.",
                           path, error.byte);
  } catch (const Json::exception&) {
    return InvalidArgument("{}: the header has a number that is too large; this is not a safetensors file.",
                           path);
  }
  if (odd.too_deep) {
    return InvalidArgument("{}: the header nests brackets more than {} deep; the format needs 3.", path,
                           kMaxJsonDepth);
  }
  if (odd.repeated.has_value()) {
    return InvalidArgument("{}: the header has the key {} twice; names must be unique.", path,
                           Show(*odd.repeated));
  }
  if (!header.json.is_object()) {
    return InvalidArgument("{}: the header is {}; it must be a JSON object of tensors.", path,
                           Show(header.json));
  }
  header.names = std::move(odd.keys);
  return header;
}

// The non-negative whole numbers of a JSON array; nullopt if it is anything else.
std::optional<std::vector<int64_t>> ReadNumbers(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& number : value) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

// `where` is FILE: tensor "NAME".
absl::StatusOr<Entry> ReadEntry(std::string_view where, const std::string& name, const Json& value) {
  if (!value.is_object()) {
    return InvalidArgument("{}: is {}; it must be an object with dtype, shape and data_offsets.", where,
                           Show(value));
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) {
      return InvalidArgument("{}: has no \"{}\"; it must have dtype, shape and data_offsets.", where, key);
    }
  }
  const std::optional<DType> dtype =
      value["dtype"].is_string() ? DTypeFromFormatName(value["dtype"].get<std::string>()) : std::nullopt;
  if (!dtype.has_value()) {
    return InvalidArgument("{}: its dtype is {}; F32, F64, BF16, I32, I64 and BOOL are read.", where,
                           Show(value["dtype"]));
  }
  const auto shape = ReadNumbers(value["shape"]);
  if (!shape.has_value()) {
    return InvalidArgument("{}: its shape is {}; it must be an array of whole numbers from 0 to 2^63-1.",
                           where, Show(value["shape"]));
  }
  const auto offsets = ReadNumbers(value["data_offsets"]);
  if (!offsets.has_value() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return InvalidArgument("{}: its data_offsets are {}; they must be [begin,end] with 0 <= begin <= end.",
                           where, Show(value["data_offsets"]));
  }
  Entry entry{name, {*dtype, Shape(shape->begin(), shape->end())}, (*offsets)[0], (*offsets)[1]};
  int64_t bytes = DTypeSize(*dtype);
  for (int64_t size : entry.type.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return InvalidArgument("{}: {} has more than 2^63 bytes; its shape is damaged.", where,
                             entry.type.ToString());
    }
  }
  if (bytes != entry.end - entry.begin) {
    return InvalidArgument("{}: {} has {} but data_offsets [{},{}] span {}; they must be equal.", where,
                           entry.type.ToString(), Count(bytes, "byte"), entry.begin, entry.end,
                           entry.end - entry.begin);
  }
  return entry;
}

absl::Status CheckMetadata(const std::string& path, const Json& value) {
  bool strings = value.is_object();
  if (strings) strings = std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); });
  if (strings) return absl::OkStatus();
  return InvalidArgument("{}: {} is {}; it must be an object of strings.", path, kMetadata, Show(value));
}

// Together the tensors must cover the data once, without holes.
absl::Status CheckCover(const std::string& path, const std::vector<Entry>& entries, int64_t data_bytes) {
  std::vector<const Entry*> by_offset;
  for (const Entry& entry : entries) by_offset.push_back(&entry);
  std::stable_sort(by_offset.begin(), by_offset.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  int64_t covered = 0;
  for (const Entry* entry : by_offset) {
    if (entry->begin != covered) {
      return InvalidArgument(
          "{}: tensor {} begins at byte {} but the tensors before it end at {}; there must be no holes and "
          "no overlaps.",
          path, Show(entry->name), entry->begin, covered);
    }
    covered = entry->end;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return InvalidArgument("{}: the tensors have {} but the file holds {} after its header; {}", path,
                         Count(covered, "byte"), data_bytes,
                         covered > data_bytes ? "it is incomplete, fetch it again."
                                              : "they must be equal, the rest belongs to no tensor.");
}

absl::StatusOr<std::string> ReadHeaderText(const InputFile& file) {
  if (file.size() < kLengthBytes) {
    return InvalidArgument("{}: has {}; a safetensors file starts with 8 bytes of header length.",
                           file.path(), Count(file.size(), "byte"));
  }
  uint64_t length;
  MESHWORK_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeader) {
    return InvalidArgument(
        "{}: its header would have {} bytes; at most {} are allowed, so this is not a "
        "safetensors file.",
        file.path(), length, kMaxHeader);
  }
  if (static_cast<int64_t>(length) > file.size() - kLengthBytes) {
    return InvalidArgument(
        "{}: its header has {} bytes but the file only {}; it is incomplete, fetch it again.", file.path(),
        length, file.size());
  }
  std::string text(length, '\0');
  MESHWORK_RETURN_IF_ERROR(file.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(text))));
  return text;
}

absl::StatusOr<std::vector<Entry>> ReadEntries(const std::string& path, const Header& header,
                                               int64_t data_bytes) {
  std::vector<Entry> entries;
  for (const std::string& name : header.names) {
    const Json& value = header.json[name];
    if (name == kMetadata) {
      MESHWORK_RETURN_IF_ERROR(CheckMetadata(path, value));
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(Entry entry,
                              ReadEntry(fmt::format("{}: tensor {}", path, Show(name)), name, value));
    entries.push_back(std::move(entry));
  }
  MESHWORK_RETURN_IF_ERROR(CheckCover(path, entries, data_bytes));
  return entries;
}

// A bool of C++ must not hold anything but 0 and 1.
absl::Status CheckBools(const std::string& path, const std::string& name, const Tensor& tensor) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (bytes[i] > 1) {
      return InvalidArgument("{}: tensor {}: element {} is {}; a BOOL is 0 or 1.", path, Show(name), i,
                             bytes[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  MESHWORK_RETURN_IF_ERROR(CheckNames(path, tensors));
  const std::vector<size_t> order = DataOrder(tensors);
  MESHWORK_ASSIGN_OR_RETURN(const std::string header, EncodeHeader(path, tensors, order));
  MESHWORK_RETURN_IF_ERROR(CheckHeaderBytes(path, tensors.size(), header.size() - kLengthBytes));
  std::vector<std::string_view> pieces = {header};
  for (size_t i : order) {
    const Tensor& tensor = tensors[i].second;
    pieces.emplace_back(static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes()));
  }
  return WriteFileAtomically(path, pieces);
}

absl::StatusOr<std::vector<NamedTensor>> ReadSafetensors(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(file));
  MESHWORK_ASSIGN_OR_RETURN(const Header header, ParseHeader(path, text));
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(text.size());
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<Entry> entries,
                            ReadEntries(path, header, file.size() - data_begin));

  std::vector<NamedTensor> tensors;
  for (const Entry& entry : entries) {
    Tensor tensor(entry.type);
    const std::span bytes(static_cast<std::byte*>(tensor.raw()), static_cast<size_t>(tensor.bytes()));
    MESHWORK_RETURN_IF_ERROR(file.ReadAt(data_begin + entry.begin, bytes));
    if (entry.type.dtype == BOOL) MESHWORK_RETURN_IF_ERROR(CheckBools(path, entry.name, tensor));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace meshwork
