// UTF-8 (RFC 3629): whether a text is it. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

namespace meshwork {

// Bytes of the character at the start of `text`, 1 to 4; 0 if there is none, as in broken, overlong and surrogate
// forms. REQUIRES: `text` is not empty.
size_t Utf8Size(std::string_view text);
bool IsUtf8(std::string_view text);

}  // namespace meshwork
