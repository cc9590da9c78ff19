// The version of meshwork, for programs that support several. The numbers below are the only place that
// states it: CMakeLists.txt reads them.
#pragma once

#define MESHWORK_VERSION_MAJOR 0
#define MESHWORK_VERSION_MINOR 1
#define MESHWORK_VERSION_PATCH 0

#define MESHWORK_VERSION_QUOTE_INNER(a, b, c) #a "." #b "." #c
#define MESHWORK_VERSION_QUOTE(a, b, c) MESHWORK_VERSION_QUOTE_INNER(a, b, c)

// The three numbers as text: "0.1.0".
#define MESHWORK_VERSION \
  MESHWORK_VERSION_QUOTE(MESHWORK_VERSION_MAJOR, MESHWORK_VERSION_MINOR, MESHWORK_VERSION_PATCH)
