#include "meshwork/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace meshwork::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fputs(fmt::format("{}:{}: meshwork bug: CHECK({}) failed{}{}\n", file, line, condition,
                         detail.empty() ? "" : ": ", detail)
                 .c_str(),
             stderr);
  std::abort();
}

}  // namespace meshwork::internal
