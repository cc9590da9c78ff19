// Read once for examples, benchmarks and the programs of the documentation; see rooms.cmake. Files include what they
// use nonetheless.
#include <fmt/format.h>

#include "meshwork.h"
