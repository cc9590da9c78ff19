#include "meshwork/storage/hashed_json.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "fmt/format.h"
#include "meshwork/base/io/sha256.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr std::string_view kHash = ",\"sha256\":\"", kBehindHash = "\"}\n";
constexpr size_t kDigits = 64;

}  // namespace

std::string Sha256OfText(std::string_view text) {
  Sha256 hash;
  hash.Update(std::as_bytes(std::span(text)));
  return hash.Hex();
}

std::string WithHash(std::string object) {
  object.pop_back();  // the bracket, which comes behind the hash
  const std::string sha256 = Sha256OfText(object);
  return object.append(kHash).append(sha256).append(kBehindHash);
}

absl::Status CheckHash(std::string_view text, const std::string& path) {
  constexpr size_t kTail = kHash.size() + kDigits + kBehindHash.size();
  const std::string_view tail = text.substr(text.size() - std::min(text.size(), kTail));
  if (tail.size() < kTail || !tail.starts_with(kHash) || !tail.ends_with(kBehindHash))
    return absl::DataLossError(
        fmt::format("{}: it does not end with its SHA-256; the file is damaged, or was edited.", path));
  const std::string_view said = tail.substr(kHash.size(), kDigits);
  const std::string sha256 = Sha256OfText(text.substr(0, text.size() - kTail));
  if (said == sha256) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{}: its SHA-256 is {}, and at its end it says {}; the file is damaged, or was edited.",
                  path, sha256, Quoted(said)));
}

nlohmann::ordered_json ToJson(const HashedFile& file) {
  return {{"file", file.file}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

absl::StatusOr<HashedFile> ReadHashedFile(const JsonReader& json) {
  MESHWORK_RETURN_IF_ERROR(json.ExpectKeys({"file", "bytes", "sha256"}));
  HashedFile read;
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader file, json.Get("file"));
  MESHWORK_ASSIGN_OR_RETURN(read.file, file.String());
  if (read.file.empty() || read.file == "." || read.file == ".." ||
      read.file.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
    return file.Expected("the name of a file in the folder");
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader bytes, json.Get("bytes"));
  MESHWORK_ASSIGN_OR_RETURN(read.bytes, bytes.Integer());
  if (read.bytes < 0) return bytes.Expected("a number of bytes");
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader sha256, json.Get("sha256"));
  MESHWORK_ASSIGN_OR_RETURN(read.sha256, sha256.String());
  if (read.sha256.size() != kDigits || read.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    return sha256.Expected("64 hexadecimal digits");
  return read;
}

}  // namespace meshwork
