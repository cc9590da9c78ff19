// Identifies the build of a library that a process has loaded.
#pragma once

#include <string>

namespace meshwork {

// The build ID, in hex, that the linker has given to the program or library in which the address lies; the same on each
// machine that has this build. "": there is none. Thread-safe.
std::string BuildIdOf(const void* address);

}  // namespace meshwork
