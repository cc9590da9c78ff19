// Borders at which a bug of meshwork becomes a status: the process lives.
//
//   absl::StatusOr<Program> program =
//       CatchChecks("Compile", [&]() -> absl::StatusOr<Program> { return …; });
//
// A MESHWORK_CHECK that fails on a thread within a border throws an exception, which the border catches. A thread
// without a border ends the process instead. A border belongs around code that is pure, or whose objects the caller
// discards after an error.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace meshwork {

// The exception that a failed CHECK throws within a border. `what`: "pass.cc:12: CHECK(a == b) failed: …".
class CheckFailure : public std::exception {
 public:
  explicit CheckFailure(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// Opens a border on this thread for its lifetime. With `open` = false it closes the borders around it, for code that an
// exception must not leave. Borders nest.
class CheckBorder {
 public:
  explicit CheckBorder(bool open = true) : before_(std::exchange(is_open_, open)) {}
  ~CheckBorder() { is_open_ = before_; }
  CheckBorder(const CheckBorder&) = delete;
  CheckBorder& operator=(const CheckBorder&) = delete;

  static bool is_open() { return is_open_; }

 private:
  static thread_local bool is_open_;
  const bool before_;
};

// INTERNAL, "<where>: meshwork bug, please report it: <what>".
absl::Status BugStatus(std::string_view where, const CheckFailure& failure);

// Returns the result of f, a status or a StatusOr; BugStatus if a CHECK fails in f.
template <typename F>
auto CatchChecks(std::string_view where, F&& f) -> decltype(f()) {
  const CheckBorder border;
  try {
    return f();
  } catch (const CheckFailure& failure) {
    return BugStatus(where, failure);
  }
}

}  // namespace meshwork
