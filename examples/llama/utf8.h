// Characters of UTF-8 (RFC 3629). Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

namespace meshwork {

// Bytes of the character that `text` begins with, 1 to 4. 0 if it begins with none: the bytes are broken, cut off, overlong,
// a surrogate, or beyond U+10FFFF. REQUIRES: `text` is not empty.
size_t CharacterSize(std::string_view text);

}  // namespace meshwork
