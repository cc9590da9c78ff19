// JSON that ends with its own hash, and lists of files with theirs: so that a file that was damaged, or belongs to
// another version, is found. Internal: checkpoints (storage/checkpoint_index.h) and saved programs
// (session/saved/program_manifest.h) are written so.
//
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/json.h"
#include "meshwork/storage/hashed_file.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork {

// The SHA-256 of a text, 64 lower-case hexadecimal digits.
std::string Sha256OfText(std::string_view text);

// A JSON object, as its library prints it without indent, with a last key "sha256": the hash of all bytes before
// `,"sha256"`; and a line end.
std::string WithHash(std::string object);
// Error: DATA_LOSS, the text does not end with its hash. `path` names it.
absl::Status CheckHash(std::string_view text, const std::string& path);

nlohmann::ordered_json ToJson(const HashedFile& file);
// Errors: another form; a name that is none of a file in the same folder.
absl::StatusOr<HashedFile> ReadHashedFile(const JsonReader& json);

}  // namespace meshwork
