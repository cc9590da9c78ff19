// Calls functions that may throw: a user's function for an element of a stage or for a part of a data set, or a whole
// walk.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"

namespace meshwork::internal {

// The result of `function()`. Exceptions become errors; errors begin with `where()`.
template <typename Where, typename F>
auto CallAt(const Where& where, const F& function) -> decltype(function()) {
  try {
    auto result = function();
    if (result.ok()) return result;
    return Annotate(result.status(), where() + ": ");
  } catch (const absl::BadStatusOrAccess& error) {
    return Annotate(error.status(), where() + ": ");
  } catch (...) {
    return CaughtStatus(where(), "there is not enough memory for it");
  }
}
// Errors begin with the stage and the element.
template <typename F>
auto CallFor(std::string_view stage, int64_t element, const F& function) -> decltype(function()) {
  return CallAt([&] { return fmt::format("{}: element {}", stage, element); }, function);
}

// The result of `function()`, a Status or a StatusOr. Exceptions become errors.
template <typename F>
auto CallWalk(const F& function) -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return CaughtStatus("Pipeline", "there is not enough memory for its elements");
  }
}

}  // namespace meshwork::internal
