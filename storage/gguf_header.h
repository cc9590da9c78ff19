// The header of a GGUF file (storage/gguf_file.h), read and checked. Only this room uses it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/gguf_file.h"

namespace meshwork {

struct GgufHeader {
  int64_t data_begin = 0;  // where the tensors begin in the file
  std::vector<GgufEntry> entries;
  std::vector<std::pair<std::string, GgufValue>> metadata;
};

// Laws: names and keys are unique; the tensors of types that are read lie in the file and do not overlap; their rows are
// whole blocks. Errors: those of GgufFile::Open.
absl::StatusOr<GgufHeader> ReadGgufHeader(const InputFile& file);

}  // namespace meshwork
