#include "meshwork/train/data/pipeline_stage.h"

#include <algorithm>

#include "meshwork/base/status.h"

namespace meshwork::internal {

absl::StatusOr<int64_t> CounterReader::Next(int64_t at_least, int64_t at_most) {
  at_most = std::min(at_most, kMost);
  if (rest_.empty())
    return InvalidArgument("the position ends too early; it was not saved by a walk over this pipeline.");
  const int64_t counter = rest_[0];
  rest_ = rest_.subspan(1);
  if (at_least <= counter && counter <= at_most) return counter;
  return InvalidArgument(
      "the position says {} where {} to {} may stand; it was not saved by a walk over this pipeline.",
      counter, at_least, at_most);
}

absl::StatusOr<int64_t> Walk::Skip(int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> skipped, Next());
    if (!skipped.has_value()) return i;
  }
  return n;
}

std::optional<int64_t> BatchesOf(std::optional<int64_t> elements, int64_t n, bool drop_remainder) {
  if (!elements.has_value()) return std::nullopt;
  return *elements / n + (!drop_remainder && *elements % n > 0 ? 1 : 0);
}

int64_t TimesAtMost(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

absl::Status SkipAgain(Walk& walk, CounterReader& from, std::string_view stage, std::string_view input) {
  MESHWORK_ASSIGN_OR_RETURN(const int64_t before, from.Next());
  MESHWORK_ASSIGN_OR_RETURN(const int64_t now, walk.Skip(before));
  if (now == before) return absl::OkStatus();
  return InvalidArgument(
      "{}: the position is behind {} and now there are {}; the {} must give the same examples again.", stage,
      Count(before, "example"), now, input);
}

}  // namespace meshwork::internal
