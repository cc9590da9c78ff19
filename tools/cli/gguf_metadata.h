// Values that a GGUF file must have in its metadata to be imported, with errors that name the file and the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/storage/gguf_file.h"
#include "nlohmann/json_fwd.hpp"

namespace meshwork::tools {

// Errors: the file has no such key, or another kind of value there; the number is below `at_least`.
absl::StatusOr<int64_t> WholeNumberAt(const GgufFile& file, std::string_view key, int64_t at_least = 0);
// As JSON writes it (ScalarToJson). `fallback`: for a file without the key.
absl::StatusOr<nlohmann::ordered_json> RealAt(const GgufFile& file, std::string_view key,
                                              std::optional<double> fallback = {});
absl::StatusOr<const std::string*> TextAt(const GgufFile& file, std::string_view key);
absl::StatusOr<const std::vector<std::string>*> TextsAt(const GgufFile& file, std::string_view key);

// A number, a bool or a text; null for an array. A float becomes the shortest decimal that stands for it: 1e-05, and not
// 9.999999747378752e-06.
nlohmann::ordered_json ScalarToJson(const GgufValue& value);

}  // namespace meshwork::tools
