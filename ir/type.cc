#include "meshwork/ir/type.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {

std::string_view DTypeName(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "bf16", "i32", "i64", "bool", "f16", "u8", "i8"};
  return kNames[static_cast<int>(dtype)];
}

absl::StatusOr<DType> DTypeFromName(std::string_view name) {
  std::vector<std::string> names;
  for (DType dtype : kAllDTypes) {
    if (DTypeName(dtype) == name) return dtype;
    names.emplace_back(DTypeName(dtype));
  }
  return InvalidArgument("unknown dtype \"{}\"{}", name, DidYouMeanOneOf(name, names, "dtypes"));
}

int64_t DTypeSize(DType dtype) {
  constexpr int64_t kSizes[] = {4, 8, 2, 4, 8, 1, 2, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}

namespace internal {

void FailDispatch(DType dtype) {
  MESHWORK_CHECK(false, "{} is for storage only", DTypeName(dtype));
  std::abort();
}

}  // namespace internal

std::string Type::ToString() const { return fmt::format("{}{}", DTypeName(dtype), ShapeToString(shape)); }

absl::Status CheckSize(const Type& type) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  int64_t elements = 1;
  if (type.rank() > kMaxRank)
    return InvalidArgument("{} has {} dims; at most {} are allowed.", type.ToString(), type.rank(), kMaxRank);
  for (int64_t size : type.shape) {
    if (size < 0) return InvalidArgument("{} has a negative size; sizes are at least 0.", type.ToString());
    // An empty dim bounds the number of elements, not the sizes that the layouts work with.
    const int64_t factor = std::max<int64_t>(size, 1);
    if (elements > kMaxElements / factor)
      return InvalidArgument("{} has more elements than 2^40, the most there can be; split it.",
                             type.ToString());
    elements *= factor;
  }
  return absl::OkStatus();
}

}  // namespace meshwork
