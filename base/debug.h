// Whether this meshwork was built for debugging.
#pragma once

namespace meshwork {

// True if meshwork itself was compiled without NDEBUG. What is checked at the cost of time is then on by
// default. Not a macro, because the program that links meshwork may be compiled the other way.
extern const bool kDebugBuild;

}  // namespace meshwork
