// The portable sources as text, for kernels that nvcc, NVRTC or, in tests, the host's compiler compiles.
#pragma once

#include <string_view>

namespace meshwork {

// Without includes and namespaces. What it calls and does not define is to stand before it: the macros of
// base/portable.h and the names of host.h.
extern const std::string_view kPortableText;

}  // namespace meshwork
