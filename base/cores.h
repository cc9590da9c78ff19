// The cores that this process may use, by its affinity mask, ascending; none if the system does not say. Thread-safe.
#pragma once

#include <vector>

namespace meshwork {

std::vector<int> UsableCores();

}  // namespace meshwork
