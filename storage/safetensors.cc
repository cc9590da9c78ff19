#include "meshwork/storage/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>

#include "fmt/ranges.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/io/sha256.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/storage/safetensors_file.h"
#include "meshwork/storage/safetensors_header.h"
#include "meshwork/storage/stored_type.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Json = nlohmann::json;
using NamedTensor = std::pair<std::string, Tensor>;
using NamedType = std::pair<std::string, Type>;

constexpr int64_t kAlignment = 8;

absl::Status CheckHeaderBytes(const std::string& path, size_t num_tensors, size_t bytes) {
  if (bytes <= kMaxSafetensorsHeader) return absl::OkStatus();
  return InvalidArgument(
      "{}: the names and shapes of {}, and the metadata, take more than the {} bytes of a header; give "
      "shorter ones, or several files.",
      path, Count(static_cast<int64_t>(num_tensors), "tensor"), kMaxSafetensorsHeader);
}

absl::Status CheckNames(const std::string& path, const std::vector<NamedType>& tensors) {
  std::set<std::string_view> names;
  size_t bytes = 0;
  for (const auto& [name, type] : tensors) {
    if (name == kSafetensorsMetadata) {
      return InvalidArgument("{}: a tensor is called \"{}\"; the format keeps that name for itself.", path,
                             name);
    }
    if (!names.insert(name).second) {
      return InvalidArgument("{}: tensor {} is given twice; names must be unique.", path, Quoted(name));
    }
    bytes += name.size();
  }
  return CheckHeaderBytes(path, tensors.size(), bytes);
}

// Positions in `tensors`, widest elements first.
std::vector<size_t> DataOrder(const std::vector<NamedType>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return DTypeSize(tensors[a].second.dtype) > DTypeSize(tensors[b].second.dtype);
  });
  return order;
}

// A text as JSON. Error: it is not UTF-8; `what` says whose it is.
absl::StatusOr<std::string> EncodeText(const std::string& path, std::string_view what,
                                       const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    return InvalidArgument("{}: {} {} is not UTF-8; the format allows no other.", path, what,
                           Json(text).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace));
  }
}

absl::StatusOr<std::string> EncodeMetadata(const std::string& path, const SafetensorsMetadata& metadata) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : metadata) {
    MESHWORK_ASSIGN_OR_RETURN(const std::string key, EncodeText(path, "the name of metadata", name));
    MESHWORK_ASSIGN_OR_RETURN(const std::string value, EncodeText(path, "the metadata", text));
    texts.push_back(fmt::format("{}:{}", key, value));
  }
  return fmt::format(R"("{}":{{{}}})", kSafetensorsMetadata, fmt::join(texts, ","));
}

// The header's length and the header. Error: a name or a text is not UTF-8.
absl::StatusOr<std::string> EncodeHeader(const std::string& path, const std::vector<NamedType>& tensors,
                                         const SafetensorsMetadata& metadata,
                                         const std::vector<size_t>& data_order) {
  std::vector<int64_t> begins(tensors.size());
  int64_t end = 0;
  for (size_t i : data_order) {
    begins[i] = end;
    end += tensors[i].second.bytes();
  }
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(entries.emplace_back(), EncodeMetadata(path, metadata));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, type] = tensors[i];
    MESHWORK_ASSIGN_OR_RETURN(const std::string key, EncodeText(path, "the name of tensor", name));
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", key,
                                  StoredTypeName(WrittenType(type.dtype)), ShapeToString(type.shape),
                                  begins[i], begins[i] + type.bytes()));
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  std::string encoded(kSafetensorsLengthBytes, '\0');
  std::memcpy(encoded.data(), &length, sizeof(length));
  return encoded + text;
}

// The bytes before the elements, and the order in which the tensors' elements follow.
struct Beginning {
  std::string header;
  std::vector<size_t> order;
};

absl::StatusOr<Beginning> BeginFile(const std::string& path, const std::vector<NamedType>& tensors,
                                    const SafetensorsMetadata& metadata) {
  MESHWORK_RETURN_IF_ERROR(CheckNames(path, tensors));
  Beginning beginning{.header = {}, .order = DataOrder(tensors)};
  MESHWORK_ASSIGN_OR_RETURN(beginning.header, EncodeHeader(path, tensors, metadata, beginning.order));
  MESHWORK_RETURN_IF_ERROR(
      CheckHeaderBytes(path, tensors.size(), beginning.header.size() - kSafetensorsLengthBytes));
  return beginning;
}

std::string_view BytesOf(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes())};
}

// The size of the file that was written. `hash` may be null.
absl::StatusOr<int64_t> WriteTensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                                     const SafetensorsMetadata& metadata, Sha256* hash) {
  std::vector<NamedType> types;
  for (const auto& [name, tensor] : tensors) {
    MESHWORK_RETURN_IF_ERROR(Annotate(tensor.status(), fmt::format("{}: tensor {}: ", path, Quoted(name))));
    types.emplace_back(name, tensor.type());
  }
  MESHWORK_ASSIGN_OR_RETURN(const Beginning beginning, BeginFile(path, types, metadata));
  std::vector<std::string_view> pieces = {beginning.header};
  size_t bytes = beginning.header.size();
  for (size_t i : beginning.order) {
    pieces.push_back(BytesOf(tensors[i].second));
    bytes += pieces.back().size();
  }
  MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(path, pieces, hash));
  return static_cast<int64_t>(bytes);
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                              const SafetensorsMetadata& metadata) {
  return WriteTensors(path, tensors, metadata, /*hash=*/nullptr).status();
}

absl::StatusOr<WrittenFile> WriteSafetensorsHashed(const std::string& path,
                                                   const std::vector<NamedTensor>& tensors,
                                                   const SafetensorsMetadata& metadata) {
  Sha256 hash;
  MESHWORK_ASSIGN_OR_RETURN(const int64_t bytes, WriteTensors(path, tensors, metadata, &hash));
  return WrittenFile{bytes, hash.Hex()};
}

absl::StatusOr<WrittenFile> StreamSafetensors(const std::string& path, const std::vector<NamedType>& tensors,
                                              const std::function<absl::StatusOr<Tensor>(size_t i)>& read,
                                              const SafetensorsMetadata& metadata) {
  MESHWORK_ASSIGN_OR_RETURN(const Beginning beginning, BeginFile(path, tensors, metadata));
  int64_t bytes = 0;
  Tensor tensor;  // keeps the piece that is being written
  auto next = beginning.order.begin();
  const auto next_piece = [&]() -> absl::StatusOr<std::string_view> {
    if (bytes == 0) {
      bytes = static_cast<int64_t>(beginning.header.size());
      return beginning.header;
    }
    for (; next != beginning.order.end(); ++next) {
      const auto& [name, type] = tensors[*next];
      if (type.bytes() == 0) continue;  // an empty piece would end the file
      tensor = Tensor();
      MESHWORK_ASSIGN_OR_RETURN(tensor, read(*next++));
      MESHWORK_CHECK(tensor.type() == type, "{}: {} is {}", path, name, tensor.type().ToString());
      bytes += tensor.bytes();
      return BytesOf(tensor);
    }
    return std::string_view();
  };
  Sha256 hash;
  MESHWORK_RETURN_IF_ERROR(WritePiecesAtomically(path, next_piece, &hash));
  return WrittenFile{bytes, hash.Hex()};
}

absl::StatusOr<std::vector<NamedTensor>> ReadSafetensors(const std::string& path,
                                                         const ReadSafetensorsOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.entries()) names.push_back(entry.name);
  for (const auto& [name, dtype] : options.as) {
    if (file.Find(name) == nullptr) {
      return InvalidArgument("{}: {} is to be read as {}, but there is no such tensor{}", path, Quoted(name),
                             DTypeName(dtype), DidYouMeanOneOf(name, names, "tensors"));
    }
  }
  std::vector<NamedTensor> tensors;
  for (SafetensorsEntry entry : file.entries()) {
    const auto as = options.as.find(entry.name);
    if (as != options.as.end()) {
      MESHWORK_ASSIGN_OR_RETURN(entry, file.As(entry, as->second));
    } else if (options.reals.has_value() && IsReal(entry.type.dtype)) {
      MESHWORK_ASSIGN_OR_RETURN(entry, file.As(entry, *options.reals));
    }
    MESHWORK_ASSIGN_OR_RETURN(Tensor tensor, file.Read(entry));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace meshwork
