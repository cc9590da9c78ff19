// How mistakes in a program's text are shown:
//
//   step.mw:3:12: there is no op "matmull"; did you mean "matmul"?
//     %0 = matmull %x, %w
//          ^
//
// Lines and columns count from 1, columns in bytes. The line shown is printable, whatever the text holds:
// long lines are cut around the place, control characters and broken UTF-8 become '?'.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace meshwork {

// InvalidArgument at byte `at` of `text`; a place beyond the end counts as the end. Takes time linear in the
// text.
absl::Status ErrorAt(std::string_view text, std::string_view file, size_t at, std::string_view message);

// The character at byte `at`, for messages: "'x'", "'é'", "byte 0x00", "the end".
std::string CharacterAt(std::string_view text, size_t at);

}  // namespace meshwork
