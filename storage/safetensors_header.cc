#include "meshwork/storage/safetensors_header.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/show_json.h"
#include "meshwork/storage/stored_type.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::json;

struct ParsedHeader {
  Json json;                       // an object
  std::vector<std::string> names;  // its keys, in the file's order
};

// Parses the header. Checks only that keys are not repeated, which the library would accept, and that brackets do
// not nest so deep that printing them fails.
absl::StatusOr<ParsedHeader> ParseHeader(const std::string& path, const std::string& text) {
  ParsedHeader header;
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
                           ShowJson(*odd.repeated));
  }
  if (!header.json.is_object()) {
    return InvalidArgument("{}: the header is {}; it must be a JSON object of tensors.", path,
                           ShowJson(header.json));
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
absl::StatusOr<SafetensorsEntry> ReadEntry(std::string_view where, const std::string& name,
                                           const Json& value) {
  if (!value.is_object()) {
    return InvalidArgument("{}: is {}; it must be an object with dtype, shape and data_offsets.", where,
                           ShowJson(value));
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) {
      return InvalidArgument("{}: has no \"{}\"; it must have dtype, shape and data_offsets.", where, key);
    }
  }
  const std::optional<StoredType> stored =
      value["dtype"].is_string() ? StoredTypeFromName(value["dtype"].get<std::string>()) : std::nullopt;
  if (!stored.has_value()) {
    return InvalidArgument("{}: its dtype is {}; {} are read.", where, ShowJson(value["dtype"]),
                           StoredTypeNames());
  }
  const auto shape = ReadNumbers(value["shape"]);
  if (!shape.has_value()) {
    return InvalidArgument("{}: its shape is {}; it must be an array of whole numbers from 0 to 2^63-1.",
                           where, ShowJson(value["shape"]));
  }
  const auto offsets = ReadNumbers(value["data_offsets"]);
  if (!offsets.has_value() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return InvalidArgument("{}: its data_offsets are {}; they must be [begin,end] with 0 <= begin <= end.",
                           where, ShowJson(value["data_offsets"]));
  }
  SafetensorsEntry entry{.name = name,
                         .stored = *stored,
                         .type = {ReadType(*stored), Shape(shape->begin(), shape->end())},
                         .begin = (*offsets)[0],
                         .end = (*offsets)[1]};
  const std::string type = fmt::format("{}{}", StoredTypeName(*stored), ShapeToString(entry.type.shape));
  int64_t bytes = StoredTypeSize(*stored);
  for (int64_t size : entry.type.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return InvalidArgument("{}: {} has more than 2^63 bytes; its shape is damaged.", where, type);
    }
  }
  if (bytes != entry.end - entry.begin) {
    return InvalidArgument("{}: {} has {} but data_offsets [{},{}] span {}; they must be equal.", where, type,
                           Count(bytes, "byte"), entry.begin, entry.end, entry.end - entry.begin);
  }
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckSize(entry.type), fmt::format("{}: ", where)));
  return entry;
}

absl::StatusOr<SafetensorsMetadata> ReadMetadata(const std::string& path, const Json& value) {
  const auto is_string = [](const Json& v) { return v.is_string(); };
  if (value.is_object() && std::all_of(value.begin(), value.end(), is_string))
    return value.get<SafetensorsMetadata>();
  return InvalidArgument("{}: {} is {}; it must be an object of strings.", path, kSafetensorsMetadata,
                         ShowJson(value));
}

// Together the tensors must cover the data once, without holes.
absl::Status CheckCover(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                        int64_t data_bytes) {
  std::vector<const SafetensorsEntry*> by_offset;
  for (const SafetensorsEntry& entry : entries) by_offset.push_back(&entry);
  std::stable_sort(by_offset.begin(), by_offset.end(),
                   [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
                     return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
                   });
  int64_t covered = 0;
  for (const SafetensorsEntry* entry : by_offset) {
    if (entry->begin != covered) {
      return InvalidArgument(
          "{}: tensor {} begins at byte {} but the tensors before it end at {}; there must be no holes and "
          "no overlaps.",
          path, ShowJson(entry->name), entry->begin, covered);
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
  if (file.size() < kSafetensorsLengthBytes) {
    return InvalidArgument("{}: has {}; a safetensors file starts with 8 bytes of header length.",
                           file.path(), Count(file.size(), "byte"));
  }
  uint64_t length;
  MESHWORK_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxSafetensorsHeader) {
    return InvalidArgument(
        "{}: its header would have {} bytes; at most {} are allowed, so this is not a "
        "safetensors file.",
        file.path(), length, kMaxSafetensorsHeader);
  }
  if (static_cast<int64_t>(length) > file.size() - kSafetensorsLengthBytes) {
    return InvalidArgument(
        "{}: its header has {} bytes but the file only {}; it is incomplete, fetch it again.", file.path(),
        length, file.size());
  }
  std::string text(length, '\0');
  MESHWORK_RETURN_IF_ERROR(file.ReadAt(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file) {
  const std::string& path = file.path();
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(file));
  MESHWORK_ASSIGN_OR_RETURN(const ParsedHeader parsed, ParseHeader(path, text));
  SafetensorsHeader header{.data_begin = kSafetensorsLengthBytes + static_cast<int64_t>(text.size())};
  for (const std::string& name : parsed.names) {
    const Json& value = parsed.json[name];
    if (name == kSafetensorsMetadata) {
      MESHWORK_ASSIGN_OR_RETURN(header.metadata, ReadMetadata(path, value));
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(SafetensorsEntry entry, ReadEntry(PlaceOfTensor(path, name), name, value));
    header.entries.push_back(std::move(entry));
  }
  MESHWORK_RETURN_IF_ERROR(CheckCover(path, header.entries, file.size() - header.data_begin));
  return header;
}

}  // namespace meshwork
