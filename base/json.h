// Reads values out of parsed JSON, with errors that say where they are.
//
//   const JsonReader mesh(json, "mesh JSON");
//   MESHWORK_RETURN_IF_ERROR(mesh.ExpectKeys({"axes"}));
//   MESHWORK_ASSIGN_OR_RETURN(const JsonReader axes, mesh.Get("axes"));
//   MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, axes.Items());
//   items[1].Integer()   // mesh JSON: axes[1] is "two"; it must be a whole number.
//
// A JsonReader points into the document, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// Reads a text; `document` names it in errors. Errors: the text is no JSON (with line, column and a caret); a
// number beyond those of double precision; a key that is given twice; brackets that nest more than 16 deep.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view document);

// The text of `json`, indented by 2, with a new line at the end. Bytes that are not UTF-8, as some file names have,
// become U+FFFD.
std::string PrintJson(const nlohmann::ordered_json& json);

// Mistakes that the JSON library lets pass and that no file of meshwork may hold.
struct JsonOddities {
  std::optional<std::string> repeated;  // a key that is given twice in one object, the last of them
  bool too_deep = false;                // brackets nest more than kMaxJsonDepth deep
  std::vector<std::string> keys;        // of the outermost object, in the text's order
};
// The files that are read here nest 3 deep; JSON that nests far deeper would overflow the stack when it is
// printed.
inline constexpr int kMaxJsonDepth = 16;

// Parses a text into `json`. Throws what nlohmann::json::parse does.
JsonOddities ParseJsonWatched(std::string_view text, nlohmann::json* json);

class JsonReader {
 public:
  // `document` names the whole document in errors.
  JsonReader(const nlohmann::json& json, std::string document)
      : json_(&json), document_(std::move(document)) {}

  bool IsList() const;
  bool IsObject() const;
  bool IsString() const;

  // Errors: this is no object; it has another key (with the nearest of `keys`).
  absl::Status ExpectKeys(const std::vector<std::string>& keys) const;
  bool Has(const std::string& key) const;
  // Errors: this is no object; it has no such key.
  absl::StatusOr<JsonReader> Get(const std::string& key) const;
  // Errors: those of Get; the value is no string.
  absl::StatusOr<std::string> StringOf(const std::string& key) const;
  // Errors: this is no object.
  absl::StatusOr<std::vector<std::string>> Keys() const;
  // Errors: this is no list.
  absl::StatusOr<std::vector<JsonReader>> Items() const;
  // Errors: this is no string.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<std::vector<std::string>> Strings() const;
  // Errors: this is no whole number of 64 bits.
  absl::StatusOr<int64_t> Integer() const;
  // Errors: this is no number.
  absl::StatusOr<double> Real() const;

  // "mesh JSON: axes[1].size is "two"; it must be <what>."
  absl::Status Expected(std::string_view what) const;

 private:
  JsonReader Child(const nlohmann::json& json, std::string path) const;
  std::string Path() const { return path_.empty() ? "it" : path_; }

  const nlohmann::json* json_;
  std::string document_;
  std::string path_;
};

}  // namespace meshwork
