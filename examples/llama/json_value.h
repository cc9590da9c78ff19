// Reads values of a JSON file, with errors that say where they are.
//
//   MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile("tokenizer.json"));
//   const JsonValue file(json, "tokenizer.json");
//   MESHWORK_ASSIGN_OR_RETURN(const JsonValue model, file.Get("model"));
//   model.StringOf("type")   // tokenizer.json: model.type is 7; it must be a string.
//
// A value null is as if it were absent, as the files of Hugging Face have it. A JsonValue points into the document, which
// must outlive it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

// Errors: the file cannot be read; it is no JSON, or has a number that is too large.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path);

class JsonValue {
 public:
  // `document` names the whole document in errors, and must outlive this value, too.
  JsonValue(const nlohmann::json& json, std::string_view document)
      : JsonValue(json, document, std::string()) {}

  bool IsString() const { return json_->is_string(); }
  bool IsList() const { return json_->is_array(); }
  // Whether this is an object with such a key, whose value is not null.
  bool Has(const std::string& key) const;
  // Whether the value of `key` says that a feature is not used: it is absent, false, 0 or "".
  bool IsOff(const std::string& key) const;

  // Errors: this is no object; it has no such key.
  absl::StatusOr<JsonValue> Get(const std::string& key) const;
  // Errors: this is no object.
  absl::StatusOr<std::vector<std::string>> Keys() const;
  // Errors: this is no list.
  absl::StatusOr<std::vector<JsonValue>> Items() const;
  // Errors: this is no string.
  absl::StatusOr<std::string> String() const;
  // Errors: this is no whole number of 64 bits.
  absl::StatusOr<int64_t> Integer() const;
  // Errors: this is no number.
  absl::StatusOr<double> Real() const;
  // Errors: those of Get; the value is no string.
  absl::StatusOr<std::string> StringOf(const std::string& key) const;
  // `absent` where there is no such key. Errors: those of Get, if `absent` is nothing; the value is neither true nor false.
  absl::StatusOr<bool> BoolOf(const std::string& key, std::optional<bool> absent = {}) const;

  // The same for a number.
  absl::StatusOr<double> RealOf(const std::string& key, std::optional<double> absent = {}) const;

  // "tokenizer.json: model.type is 7; it must be <rule>."
  absl::Status Expected(std::string_view rule) const;
  // The same for a value that is right, but that we do not support. UNIMPLEMENTED.
  absl::Status Unsupported(std::string_view supported) const;

 private:
  JsonValue(const nlohmann::json& json, std::string_view document, std::string path)
      : json_(&json), document_(document), path_(std::move(path)) {}
  std::string Path() const { return path_.empty() ? "it" : path_; }

  const nlohmann::json* json_;
  std::string_view document_;
  std::string path_;
};

}  // namespace meshwork
