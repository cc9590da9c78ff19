// The header of a safetensors file (storage/safetensors.h), read and checked. Only this room uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/safetensors_file.h"

namespace meshwork {

inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";
inline constexpr int64_t kSafetensorsLengthBytes = 8;           // of the header's length, before the header
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, as the reference implementation

struct SafetensorsHeader {
  int64_t data_begin = 0;                 // where the elements begin in the file
  std::vector<SafetensorsEntry> entries;  // in the order of the header
  SafetensorsMetadata metadata;
};

// Law: the entries cover what follows the header, without holes and without overlaps. Errors: the file cannot
// be read; any violation of the format but those of elements; a type that is not read; more than kMaxRank dims.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file);

}  // namespace meshwork
