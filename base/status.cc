#include "meshwork/base/status.h"

#include <cstdlib>

#include "meshwork/base/check_border.h"
#include "meshwork/base/log.h"

namespace meshwork {

thread_local bool CheckBorder::is_open_ = false;

absl::Status BugStatus(std::string_view where, const CheckFailure& failure) {
  return absl::InternalError(fmt::format("{}: meshwork bug, please report it: {}", where, failure.what()));
}

namespace internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  const auto text = [&](std::string_view what) {
    return fmt::format("{}:{}: {}CHECK({}) failed{}{}", file, line, what, condition,
                       detail.empty() ? "" : ": ", detail);
  };
  if (CheckBorder::is_open()) throw CheckFailure(text(""));
  LogText(LogLevel::kError, text("meshwork bug: "));
  std::abort();
}

}  // namespace internal
}  // namespace meshwork
