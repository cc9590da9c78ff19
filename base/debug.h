// Whether this meshwork was built for debugging.
#pragma once

namespace meshwork {

// True if meshwork itself was compiled without NDEBUG. Checks that cost time are then on by default. Not a
// macro, because the program that links meshwork may be compiled the other way.
extern const bool kDebugBuild;

}  // namespace meshwork
