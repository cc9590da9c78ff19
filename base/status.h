// Status plumbing shared by every room: propagation macros for errors that a user can cause, and CHECK for
// those that only a bug in meshwork can cause.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace meshwork {

// Builds an InvalidArgument status from an fmt format string. Messages have the shape
// "where: the actual values; the rule; what to do".
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Args>(args)...));
}

// "1 dim", "2 dims"; `noun` in the singular, its plural with an s.
inline std::string Count(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// The message of a status as a std::string_view (Debian's absl::string_view is not std's).
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// The same status with `prefix` in front of its message.
inline absl::Status Annotate(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}{}", prefix, MessageOf(status)));
}

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& detail);
}  // namespace internal

}  // namespace meshwork

#define MESHWORK_CONCAT_INNER(a, b) a##b
#define MESHWORK_CONCAT(a, b) MESHWORK_CONCAT_INNER(a, b)

#define MESHWORK_RETURN_IF_ERROR(expr)                   \
  do {                                                   \
    absl::Status meshwork_status_ = (expr);              \
    if (!meshwork_status_.ok()) return meshwork_status_; \
  } while (false)

#define MESHWORK_ASSIGN_OR_RETURN(lhs, expr) \
  MESHWORK_ASSIGN_OR_RETURN_INNER(MESHWORK_CONCAT(meshwork_or_, __LINE__), lhs, expr)
#define MESHWORK_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                    \
  if (!tmp.ok()) return tmp.status();                   \
  lhs = std::move(tmp).value()

// Aborts with the condition and an optional fmt message; only for bugs in meshwork itself.
#define MESHWORK_CHECK(condition, ...)                                                                  \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::meshwork::internal::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
