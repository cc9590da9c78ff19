// Limits the size to which compressed files may unpack when their content is read into memory whole. A file of 4 MB may
// unpack to 4 GB, which a reader that trusts the file would allocate.
//
//   ReadNpz("weights.npz", {.max_bytes = int64_t{8} << 30})
//
// Content that is not compressed has no limit: it takes no more memory than the file has bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

struct UnpackOptions {
  // The most bytes that a file may unpack to. 0: 32 times its size, and at least 1 GiB.
  int64_t max_bytes = 0;
};

// Error: the file, of `size` bytes, claims to unpack to `bytes`, which are more than it may. REQUIRES: the reader of
// the file checks this claim.
absl::Status CheckUnpacks(std::string_view path, int64_t size, int64_t bytes, const UnpackOptions& options);

}  // namespace meshwork
