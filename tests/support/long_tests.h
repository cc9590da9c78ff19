// MESHWORK_LONG_TESTS=1 asks for every case where a test otherwise takes every nth case, or for many more draws.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace meshwork {

inline bool LongTests() {
  const char* value = std::getenv("MESHWORK_LONG_TESTS");
  return value != nullptr && std::string_view(value) == "1";
}

// The step of a loop over cases: 1 in long tests.
inline int64_t EverySo(int64_t many) { return LongTests() ? 1 : many; }

}  // namespace meshwork
