#include "meshwork/storage/unpack_limit.h"

#include <algorithm>

#include "meshwork/base/saturate.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kUsualRatio = 32, kLeast = int64_t{1} << 30;

}  // namespace

absl::Status CheckUnpacks(std::string_view path, int64_t size, int64_t bytes, const UnpackOptions& options) {
  const int64_t most =
      options.max_bytes != 0 ? options.max_bytes : std::max(kLeast, SaturatedProduct(size, kUsualRatio));
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{}: its {} unpack to {}, and at most {} are allowed; if the file is to be trusted, allow more by "
      "UnpackOptions::max_bytes.",
      path, Count(size, "byte"), bytes, most));
}

}  // namespace meshwork
