// How far compressed files may unpack where their content is read into memory whole. A file of 4 MB may stand for 4 GB, and a
// reader that trusts it takes them.
//
//   ReadNpz("weights.npz", {.max_bytes = int64_t{8} << 30})
//
// What is not compressed has no limit: it takes no more than the file.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

struct UnpackOptions {
  // What a file may unpack to. 0: 32 times its size, and at least 1 GiB.
  int64_t max_bytes = 0;
};

// Error: the file, of `size` bytes, says that it unpacks to more `bytes` than it may. REQUIRES: a Reader checks what it says.
absl::Status CheckUnpacks(std::string_view path, int64_t size, int64_t bytes, const UnpackOptions& options);

}  // namespace meshwork
