// Borders at which a bug of meshwork becomes a status: the process lives.
//
//   absl::StatusOr<Program> program =
//       CatchChecks("Compile", [&]() -> absl::StatusOr<Program> { return …; });
//
// Within a border, a MESHWORK_CHECK that fails on this thread throws to it. Anywhere else it ends the process, as on other
// threads. A border stands around what is pure, or what its caller throws away or gives up after an error.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace meshwork {

// What a CHECK throws within a border. `what`: "pass.cc:12: CHECK(a == b) failed: …".
class CheckFailure : public std::exception {
 public:
  explicit CheckFailure(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

// Opens a border on this thread while it lives; `open` = false closes those around it, for code that must not be left by an
// exception. Borders nest.
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

// What f returns, a status or a StatusOr; BugStatus where a CHECK fails in it.
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
