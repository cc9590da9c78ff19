#include "meshwork/base/status.h"

#include <cstdio>
#include <cstdlib>

#include "meshwork/base/check_border.h"

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
  std::fputs((text("meshwork bug: ") + "\n").c_str(), stderr);
  std::abort();
}

}  // namespace internal
}  // namespace meshwork
